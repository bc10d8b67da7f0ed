-- Format 29: how far the ended runs of each shard are exported as traces (package trace).

CREATE TABLE trace_mark (
  shard INTEGER NOT NULL PRIMARY KEY,
  seq   INTEGER NOT NULL,
  at    INTEGER NOT NULL
);
