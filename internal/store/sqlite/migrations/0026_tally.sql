-- Format 26: the tally counts ended runs by workflow and period (package tally). tally_mark says how far.

CREATE TABLE tally (
  workflow INTEGER NOT NULL,
  span     INTEGER NOT NULL,
  at       INTEGER NOT NULL,
  task     TEXT NOT NULL,
  n        INTEGER NOT NULL,
  data     BLOB NOT NULL,
  PRIMARY KEY (workflow, span, task, at)
) WITHOUT ROWID;

CREATE TABLE tally_mark (
  shard    INTEGER NOT NULL,
  workflow INTEGER NOT NULL,
  rev      INTEGER NOT NULL,
  seq      INTEGER NOT NULL,
  at       INTEGER NOT NULL,
  PRIMARY KEY (shard, workflow)
) WITHOUT ROWID;
