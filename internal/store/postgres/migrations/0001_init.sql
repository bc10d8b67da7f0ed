-- Format 1. Times are microseconds since 1970 UTC, 0 is none. States are text. Texts compare
-- by bytes (COLLATE "C") whatever the database's own collation. Columns of fixed width come
-- first: they need no padding there.

CREATE TABLE meta (
  one     integer PRIMARY KEY CHECK (one = 1),
  format  integer NOT NULL,
  cluster uuid    NOT NULL,
  shards  integer NOT NULL,
  created bigint  NOT NULL
);

-- must raises inside the transaction what its client would learn only after it: the pipeline
-- is one round trip. SK001 is "fenced".
CREATE FUNCTION must(ok boolean, what text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF ok IS NOT TRUE THEN
    RAISE EXCEPTION USING ERRCODE = 'SK001', MESSAGE = what;
  END IF;
END $$;

-- The fence: the first statement of every writer's transaction moves seq. The rows change
-- with every transaction; room beside each keeps the new versions in their page.
CREATE TABLE shard (
  epoch     bigint  NOT NULL DEFAULT 0,
  seq       bigint  NOT NULL DEFAULT 0,
  owner     bigint  NOT NULL DEFAULT 0,
  watermark bigint  NOT NULL DEFAULT 0,
  id        integer PRIMARY KEY
) WITH (fillfactor = 10);

CREATE TABLE handler (
  id      bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
  started bigint NOT NULL,
  uuid    uuid   NOT NULL UNIQUE,
  node    text   NOT NULL COLLATE "C"
);

CREATE TABLE workflow (
  id        bigint  PRIMARY KEY,
  revision  bigint  NOT NULL,
  created   bigint  NOT NULL,
  modified  bigint  NOT NULL,
  shard     integer NOT NULL,
  version   integer NOT NULL,
  latest    integer NOT NULL,
  max_runs  integer NOT NULL,
  namespace text    NOT NULL COLLATE "C",
  name      text    NOT NULL COLLATE "C",
  state     text    NOT NULL COLLATE "C" CHECK (state IN ('active', 'paused', 'deleted'))
);
CREATE UNIQUE INDEX workflow_name ON workflow (namespace, name) WHERE state <> 'deleted';

CREATE TABLE version (
  workflow bigint  NOT NULL,
  created  bigint  NOT NULL,
  version  integer NOT NULL,
  username text    NOT NULL COLLATE "C",
  digest   bytea   NOT NULL,
  source   bytea   NOT NULL,
  def      bytea   NOT NULL,
  graph    bytea   NOT NULL,
  PRIMARY KEY (workflow, version)
);

CREATE TABLE version_file (
  workflow bigint  NOT NULL,
  mode     bigint  NOT NULL,
  version  integer NOT NULL,
  name     text    NOT NULL COLLATE "C",
  data     bytea   NOT NULL,
  PRIMARY KEY (workflow, version, name)
);

-- A run: one insert, one update. The history of the transactions that insert it and that
-- first end it lies in its row (events_first, events_last).
CREATE TABLE run (
  id           uuid    PRIMARY KEY,
  workflow     bigint  NOT NULL,
  created      bigint  NOT NULL,
  split        bigint  NOT NULL,
  started      bigint  NOT NULL,
  finished     bigint  NOT NULL,
  leader       bigint  NOT NULL,
  leader_at    bigint  NOT NULL,
  first_seq    bigint  NOT NULL,
  first_at     bigint  NOT NULL,
  last_seq     bigint,
  last_at      bigint,
  shard        integer NOT NULL,
  version      integer NOT NULL,
  generation   integer NOT NULL,
  priority     text    NOT NULL COLLATE "C",
  origin       text    NOT NULL COLLATE "C",
  username     text    NOT NULL COLLATE "C",
  state        text    NOT NULL COLLATE "C",
  intent       text    NOT NULL COLLATE "C",
  cause        text    NOT NULL COLLATE "C",
  message      text    NOT NULL COLLATE "C",
  key          text    COLLATE "C",
  key_hash     bytea,
  params       bytea,
  fire         bytea,
  graph        bytea,
  base         bytea,
  final        bytea,
  events_first bytea,
  events_last  bytea
) WITH (fillfactor = 45);
CREATE INDEX run_workflow ON run (workflow, id);
CREATE INDEX run_user ON run (username, id);
CREATE UNIQUE INDEX run_key ON run (workflow, key) WHERE key IS NOT NULL;

-- The unfinished runs: what a run's end takes away. Were it an index of run on what its end
-- changes, that update would write every other index, too.
CREATE TABLE active (
  run   uuid    NOT NULL,
  shard integer NOT NULL,
  PRIMARY KEY (shard, run)
);

-- An attempt: one insert at the hand-over, one update at the end, and no index on what changes.
CREATE TABLE attempt (
  run        uuid    NOT NULL,
  task       integer NOT NULL,
  token      integer NOT NULL,
  handler    bigint  NOT NULL,
  assigned   bigint  NOT NULL,
  started    bigint  NOT NULL,
  finished   bigint  NOT NULL,
  retry_at   bigint  NOT NULL,
  retry_wait bigint  NOT NULL,
  generation integer NOT NULL,
  exit_code  integer,
  state      text    NOT NULL COLLATE "C",
  cause      text    NOT NULL COLLATE "C",
  message    text    NOT NULL COLLATE "C",
  signal     text    NOT NULL COLLATE "C",
  outputs    bytea,
  PRIMARY KEY (run, task, token)
) WITH (fillfactor = 45);

CREATE TABLE event (
  run     uuid   NOT NULL,
  seq     bigint NOT NULL,
  at      bigint NOT NULL,
  records bytea  NOT NULL,
  PRIMARY KEY (run, seq)
);

CREATE TABLE request (
  created bigint NOT NULL,
  scope   text   NOT NULL COLLATE "C",
  key     text   NOT NULL COLLATE "C",
  hash    bytea  NOT NULL,
  answer  bytea  NOT NULL,
  PRIMARY KEY (scope, key)
);

CREATE TABLE message (
  id      bigint  PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
  created bigint  NOT NULL,
  sender  integer NOT NULL,
  target  integer NOT NULL,
  payload bytea   NOT NULL
);
CREATE INDEX message_to ON message (target, id);

-- A trigger's row is rewritten at every fire. hears is JSON, the names of workflows; NULL: none.
CREATE TABLE trigger (
  workflow bigint  NOT NULL,
  next     bigint  NOT NULL,
  decided  bigint  NOT NULL,
  since    bigint  NOT NULL,
  fired    bigint  NOT NULL,
  revision bigint  NOT NULL,
  created  bigint  NOT NULL,
  modified bigint  NOT NULL,
  shard    integer NOT NULL,
  version  integer NOT NULL,
  max_runs integer NOT NULL,
  name     text    NOT NULL COLLATE "C",
  kind     text    NOT NULL COLLATE "C",
  state    text    NOT NULL COLLATE "C" CHECK (state IN ('active', 'paused', 'ended')),
  actor    text    NOT NULL COLLATE "C",
  reason   text    NOT NULL COLLATE "C",
  hears    text    COLLATE "C",
  data     bytea,
  spec     bytea,
  PRIMARY KEY (workflow, name)
) WITH (fillfactor = 60);
CREATE INDEX trigger_due ON trigger (shard, next) WHERE next > 0;
-- Schedules are found by their next instant; they are many, and this need not hold them.
CREATE INDEX trigger_sensor ON trigger (workflow, name)
  WHERE state = 'active' AND kind NOT IN ('cron', 'every', 'at', 'daily', 'weekly', 'monthly', 'annually');

-- Who hears of the ended runs of a workflow: a row for each name in hears of each active trigger.
CREATE TABLE trigger_on (
  workflow bigint NOT NULL,
  target   text   NOT NULL COLLATE "C", -- namespace/name
  name     text   NOT NULL COLLATE "C",
  PRIMARY KEY (workflow, name, target)
);
CREATE INDEX trigger_on_target ON trigger_on (target, workflow, name);

CREATE TABLE fire (
  workflow bigint NOT NULL,
  at       bigint NOT NULL,
  last     bigint NOT NULL,
  count    bigint NOT NULL,
  decided  bigint NOT NULL,
  run      uuid,
  trigger  text   NOT NULL COLLATE "C",
  key      text   NOT NULL COLLATE "C",
  outcome  text   NOT NULL COLLATE "C" CHECK (outcome IN ('fired', 'late', 'skipped', 'merged', 'missed')),
  reason   text   NOT NULL COLLATE "C",
  PRIMARY KEY (workflow, trigger, at, key)
);
CREATE INDEX fire_decided ON fire (decided, workflow, trigger, at, key);
CREATE INDEX fire_workflow ON fire (workflow, decided, trigger, at, key);
CREATE INDEX fire_exception ON fire (decided, workflow, trigger, at, key) WHERE run IS NULL OR outcome <> 'fired';
CREATE INDEX fire_key ON fire (workflow, trigger, key, at) WHERE key <> '';

CREATE TABLE backfill (
  id       bigint  PRIMARY KEY,
  workflow bigint  NOT NULL,
  total    bigint  NOT NULL,
  started  bigint  NOT NULL,
  ended    bigint  NOT NULL,
  failed   bigint  NOT NULL,
  revision bigint  NOT NULL,
  created  bigint  NOT NULL,
  modified bigint  NOT NULL,
  shard    integer NOT NULL,
  parallel integer NOT NULL,
  trigger  text    NOT NULL COLLATE "C",
  state    text    NOT NULL COLLATE "C" CHECK (state IN ('running', 'paused', 'cancelled', 'done')),
  username text    NOT NULL COLLATE "C",
  spec     bytea,
  instants bytea
);

CREATE TABLE backfill_run (
  backfill bigint NOT NULL,
  instant  bigint NOT NULL,
  workflow bigint NOT NULL,
  run      uuid   NOT NULL,
  PRIMARY KEY (backfill, instant)
);
CREATE INDEX backfill_run_instant ON backfill_run (workflow, instant);
