-- Format 39: how far the ended runs of each shard are exported as traces (package trace). Nodes of an earlier version
-- export nothing; the runs that end on them are exported when a node that does takes the shard.

CREATE TABLE trace_mark (
  seq   bigint  NOT NULL,
  at    bigint  NOT NULL,
  shard integer PRIMARY KEY
) WITH (fillfactor = 50);
