-- Format 1. Times are microseconds since 1970 UTC, 0 is none. States are text. Rows with
-- natural keys are WITHOUT ROWID: one tree instead of two.

CREATE TABLE meta (
  one     INTEGER PRIMARY KEY CHECK (one = 1),
  cluster TEXT NOT NULL,
  created INTEGER NOT NULL
);

-- The fence: the first statement of every writer's transaction moves seq.
CREATE TABLE shard (
  id    INTEGER PRIMARY KEY,
  epoch INTEGER NOT NULL,
  seq   INTEGER NOT NULL,
  owner INTEGER NOT NULL
);
INSERT INTO shard (id, epoch, seq, owner) VALUES (0, 0, 0, 0);

CREATE TABLE handler (
  id      INTEGER PRIMARY KEY AUTOINCREMENT,
  uuid    TEXT NOT NULL UNIQUE,
  node    TEXT NOT NULL,
  started INTEGER NOT NULL
);

CREATE TABLE workflow (
  id        INTEGER PRIMARY KEY,
  shard     INTEGER NOT NULL,
  namespace TEXT NOT NULL,
  name      TEXT NOT NULL,
  state     TEXT NOT NULL CHECK (state IN ('active', 'paused', 'deleted')),
  version   INTEGER NOT NULL,
  latest    INTEGER NOT NULL,
  revision  INTEGER NOT NULL,
  created   INTEGER NOT NULL,
  modified  INTEGER NOT NULL
);
CREATE UNIQUE INDEX workflow_name ON workflow (namespace, name) WHERE state <> 'deleted';

CREATE TABLE version (
  workflow INTEGER NOT NULL,
  version  INTEGER NOT NULL,
  source   BLOB NOT NULL,
  def      BLOB NOT NULL,
  graph    BLOB NOT NULL,
  digest   BLOB NOT NULL,
  user     TEXT NOT NULL,
  created  INTEGER NOT NULL,
  UNIQUE (workflow, version)
);

CREATE TABLE version_file (
  workflow INTEGER NOT NULL,
  version  INTEGER NOT NULL,
  name     TEXT NOT NULL,
  mode     INTEGER NOT NULL,
  data     BLOB NOT NULL,
  UNIQUE (workflow, version, name)
);

-- Runs have a number of their own, n, that never leaves this file: a table by a rising
-- integer grows at its end without splitting pages, its indexes are a few bytes per run,
-- and attempts and events refer to runs by it. n rises with the order of acceptance.
--
-- The history of the transactions that insert a run and that first end it lies in these
-- very rows (events_first, events_last): a short run costs no row of table event.
CREATE TABLE run (
  n            INTEGER PRIMARY KEY,
  id           BLOB NOT NULL,
  shard        INTEGER NOT NULL,
  workflow     INTEGER NOT NULL,
  version      INTEGER NOT NULL,
  priority     TEXT NOT NULL,
  origin       TEXT NOT NULL,
  user         TEXT NOT NULL,
  key          TEXT,
  key_hash     BLOB,
  params       BLOB,
  created      INTEGER NOT NULL,
  first_seq    INTEGER NOT NULL,
  first_at     INTEGER NOT NULL,
  events_first BLOB,
  state        TEXT NOT NULL,
  intent       TEXT NOT NULL,
  generation   INTEGER NOT NULL,
  cause        TEXT NOT NULL,
  message      TEXT NOT NULL,
  graph        BLOB,
  base         BLOB,
  final        BLOB,
  split        INTEGER NOT NULL,
  started      INTEGER NOT NULL,
  finished     INTEGER NOT NULL,
  leader       INTEGER NOT NULL,
  leader_at    INTEGER NOT NULL,
  last_seq     INTEGER,
  last_at      INTEGER,
  events_last  BLOB
);
CREATE UNIQUE INDEX run_id ON run (id);
CREATE INDEX run_submitted ON run (shard, n) WHERE state = 'submitted';
CREATE UNIQUE INDEX run_key ON run (workflow, key) WHERE key IS NOT NULL;

-- The indexes of runs by workflow, by user and of the unfinished ones, as bitmaps: bit i of
-- page p of a list says that run p * 2048 + i is on it. A transaction that accepts a
-- thousand runs changes a handful of these rows where B-trees would take thousands of
-- entries, and lists are intersected page by page.
CREATE TABLE roll (
  list TEXT NOT NULL, -- 'active', 'w/' || workflow, 'u/' || user
  page INTEGER NOT NULL,
  bits BLOB NOT NULL,
  PRIMARY KEY (list, page)
) WITHOUT ROWID;

CREATE TABLE attempt (
  run        INTEGER NOT NULL, -- run.n
  task       INTEGER NOT NULL,
  token      INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  handler    INTEGER NOT NULL,
  assigned   INTEGER NOT NULL,
  state      TEXT NOT NULL,
  cause      TEXT NOT NULL,
  message    TEXT NOT NULL,
  exit_code  INTEGER,
  signal     TEXT NOT NULL,
  outputs    BLOB,
  started    INTEGER NOT NULL,
  finished   INTEGER NOT NULL,
  retry_at   INTEGER NOT NULL,
  retry_wait INTEGER NOT NULL,
  PRIMARY KEY (run, task, token)
) WITHOUT ROWID;

CREATE TABLE event (
  run     INTEGER NOT NULL, -- run.n
  seq     INTEGER NOT NULL,
  at      INTEGER NOT NULL,
  records BLOB NOT NULL,
  PRIMARY KEY (run, seq)
) WITHOUT ROWID;

CREATE TABLE request (
  scope   TEXT NOT NULL,
  key     TEXT NOT NULL,
  hash    BLOB NOT NULL,
  answer  BLOB NOT NULL,
  created INTEGER NOT NULL,
  PRIMARY KEY (scope, key)
) WITHOUT ROWID;

CREATE TABLE message (
  id      INTEGER PRIMARY KEY AUTOINCREMENT,
  sender  INTEGER NOT NULL,
  target  INTEGER NOT NULL,
  payload BLOB NOT NULL,
  created INTEGER NOT NULL
);
CREATE INDEX message_to ON message (target, id);
