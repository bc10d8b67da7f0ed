-- Format 35: the tally counts ended runs by workflow and period (package tally). tally_mark says how far. A node of an
-- earlier version deletes runs without counting them, so nothing is counted before all nodes know this format.

CREATE TABLE tally (
  workflow bigint  NOT NULL,
  n        bigint  NOT NULL,
  span     integer NOT NULL,
  at       integer NOT NULL,
  task     text    NOT NULL COLLATE "C",
  data     bytea   NOT NULL,
  PRIMARY KEY (workflow, span, task, at)
) WITH (fillfactor = 70);

CREATE TABLE tally_mark (
  workflow bigint  NOT NULL,
  rev      bigint  NOT NULL,
  seq      bigint  NOT NULL,
  at       bigint  NOT NULL,
  shard    integer NOT NULL,
  PRIMARY KEY (shard, workflow)
) WITH (fillfactor = 50);
