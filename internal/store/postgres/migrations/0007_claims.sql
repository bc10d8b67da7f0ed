-- Format 7: what runs of all shards share. A run's claim is what it wants of that, or has, packed.

ALTER TABLE run ADD claim bytea;

CREATE TABLE queue (
  each     bigint  NOT NULL,
  until    bigint  NOT NULL,
  paced    bigint  NOT NULL,
  revision bigint  NOT NULL,
  created  bigint  NOT NULL,
  modified bigint  NOT NULL,
  max_runs integer NOT NULL,
  rate     integer NOT NULL,
  name     text    NOT NULL COLLATE "C" PRIMARY KEY,
  per_key  text    NOT NULL COLLATE "C",
  ordering text    NOT NULL COLLATE "C" CHECK (ordering IN ('fifo', 'priority')),
  overflow text    NOT NULL COLLATE "C" CHECK (overflow IN ('wait', 'skip', 'fail')),
  state    text    NOT NULL COLLATE "C" CHECK (state IN ('active', 'paused', 'draining')),
  actor    text    NOT NULL COLLATE "C",
  reason   text    NOT NULL COLLATE "C"
) WITH (fillfactor = 50);

-- The lines of those that wait, in their order: a row for each, while it does.
CREATE TABLE line (
  asked bigint  NOT NULL,
  run   uuid    NOT NULL,
  level integer NOT NULL,
  kept  integer NOT NULL, -- in its owner's memory, for other limits
  line  text    NOT NULL COLLATE "C",
  PRIMARY KEY (line, level, asked, run)
);
CREATE INDEX line_run ON line (run);
