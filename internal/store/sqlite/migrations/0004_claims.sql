-- Format 4: what runs of all shards share. A run's claim is what it wants of that, or has, packed.

ALTER TABLE run ADD COLUMN claim BLOB;

CREATE TABLE queue (
  name     TEXT PRIMARY KEY,
  max_runs INTEGER NOT NULL,
  per_key  TEXT NOT NULL,
  ordering TEXT NOT NULL CHECK (ordering IN ('fifo', 'priority')),
  overflow TEXT NOT NULL CHECK (overflow IN ('wait', 'skip', 'fail')),
  rate     INTEGER NOT NULL,
  each     INTEGER NOT NULL,
  state    TEXT NOT NULL CHECK (state IN ('active', 'paused', 'draining')),
  actor    TEXT NOT NULL,
  reason   TEXT NOT NULL,
  until    INTEGER NOT NULL,
  paced    INTEGER NOT NULL,
  revision INTEGER NOT NULL,
  created  INTEGER NOT NULL,
  modified INTEGER NOT NULL
) WITHOUT ROWID;

-- The lines of those that wait, in their order. Who is in one and need not be kept in memory for other limits
-- is on the list 'line', too.
CREATE TABLE line (
  line  TEXT NOT NULL,
  level INTEGER NOT NULL,
  asked INTEGER NOT NULL,
  run   INTEGER NOT NULL, -- run.n
  kept  INTEGER NOT NULL,
  PRIMARY KEY (line, level, asked, run)
) WITHOUT ROWID;
