-- Format 2: triggers, their ledger, backfills. A shard's watermark is the greatest instant
-- up to which due work was looked for; a run's fire is what started it, packed.

ALTER TABLE shard ADD COLUMN watermark INTEGER NOT NULL DEFAULT 0;
ALTER TABLE workflow ADD COLUMN max_runs INTEGER NOT NULL DEFAULT 0;
ALTER TABLE run ADD COLUMN fire BLOB;

-- Rows are wide and rewritten at every fire, so this is a table with a rowid: a row of the
-- same size is overwritten in place, and pages of a long spec that did not change are not
-- written. What is long comes last.
CREATE TABLE trigger (
  workflow INTEGER NOT NULL,
  name     TEXT NOT NULL,
  shard    INTEGER NOT NULL,
  version  INTEGER NOT NULL,
  kind     TEXT NOT NULL,
  state    TEXT NOT NULL CHECK (state IN ('active', 'paused', 'ended')),
  actor    TEXT NOT NULL,
  reason   TEXT NOT NULL,
  next     INTEGER NOT NULL,
  decided  INTEGER NOT NULL,
  since    INTEGER NOT NULL,
  fired    INTEGER NOT NULL,
  max_runs INTEGER NOT NULL,
  revision INTEGER NOT NULL,
  created  INTEGER NOT NULL,
  modified INTEGER NOT NULL,
  hears    TEXT, -- JSON: names of workflows; NULL: none
  data     BLOB,
  spec     BLOB,
  UNIQUE (workflow, name)
);
CREATE INDEX trigger_due ON trigger (shard, next) WHERE next > 0;
-- Schedules are found by their next instant; they are many, and this need not hold them.
CREATE INDEX trigger_sensor ON trigger (kind, workflow, name)
  WHERE state = 'active' AND kind NOT IN ('cron', 'every', 'at', 'daily', 'weekly', 'monthly', 'annually');
CREATE INDEX trigger_inactive ON trigger (state, workflow, name) WHERE state <> 'active';

-- Who hears of the ended runs of a workflow: a row for each name in hears of each active trigger.
CREATE TABLE trigger_on (
  target   TEXT NOT NULL, -- namespace/name
  workflow INTEGER NOT NULL,
  name     TEXT NOT NULL,
  PRIMARY KEY (target, workflow, name)
) WITHOUT ROWID;

CREATE TABLE fire (
  workflow INTEGER NOT NULL,
  trigger  TEXT NOT NULL,
  at       INTEGER NOT NULL,
  key      TEXT NOT NULL,
  last     INTEGER NOT NULL,
  count    INTEGER NOT NULL,
  outcome  TEXT NOT NULL CHECK (outcome IN ('fired', 'late', 'skipped', 'merged', 'missed')),
  reason   TEXT NOT NULL,
  run      BLOB, -- run.id
  decided  INTEGER NOT NULL,
  PRIMARY KEY (workflow, trigger, at, key)
) WITHOUT ROWID;
CREATE INDEX fire_decided ON fire (decided, workflow, trigger, at, key);
CREATE INDEX fire_workflow ON fire (workflow, decided, trigger, at, key);
CREATE INDEX fire_exception ON fire (decided, workflow, trigger, at, key) WHERE run IS NULL OR outcome <> 'fired';
CREATE INDEX fire_key ON fire (workflow, trigger, key, at) WHERE key <> '';

CREATE TABLE backfill (
  id       INTEGER PRIMARY KEY,
  workflow INTEGER NOT NULL,
  shard    INTEGER NOT NULL,
  trigger  TEXT NOT NULL,
  state    TEXT NOT NULL CHECK (state IN ('running', 'paused', 'cancelled', 'done')),
  total    INTEGER NOT NULL,
  started  INTEGER NOT NULL,
  ended    INTEGER NOT NULL,
  failed   INTEGER NOT NULL,
  parallel INTEGER NOT NULL,
  user     TEXT NOT NULL,
  revision INTEGER NOT NULL,
  created  INTEGER NOT NULL,
  modified INTEGER NOT NULL,
  spec     BLOB,
  instants BLOB
);

CREATE TABLE backfill_run (
  backfill INTEGER NOT NULL,
  instant  INTEGER NOT NULL,
  workflow INTEGER NOT NULL,
  run      BLOB NOT NULL, -- run.id
  PRIMARY KEY (backfill, instant)
) WITHOUT ROWID;
CREATE INDEX backfill_run_instant ON backfill_run (workflow, instant);
