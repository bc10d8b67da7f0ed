-- Format 8. An index is opened by every statement that might change it, also for the rows that it leaves out; few runs have
-- keys, and nobody asks for those that are submitted.
DROP INDEX run_submitted;
DROP INDEX run_key;
CREATE TABLE run_key (
  workflow INTEGER NOT NULL,
  key      TEXT NOT NULL,
  run      INTEGER NOT NULL, -- run.n
  PRIMARY KEY (workflow, key)
) WITHOUT ROWID;
INSERT INTO run_key (workflow, key, run) SELECT workflow, key, n FROM run WHERE key IS NOT NULL;
