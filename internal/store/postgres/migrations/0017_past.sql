-- Format 17: what happened is forgotten, too: lines of the ledger, answers under idempotency keys, backfills, deleted workflows.

-- What is kept of lines that are forgotten: how many instants had which outcome, by trigger and day.
CREATE TABLE fire_day (
  workflow bigint  NOT NULL,
  fired    bigint  NOT NULL,
  late     bigint  NOT NULL,
  skipped  bigint  NOT NULL,
  merged   bigint  NOT NULL,
  missed   bigint  NOT NULL,
  until    bigint  NOT NULL,
  day      integer NOT NULL,
  trigger  text    NOT NULL COLLATE "C",
  PRIMARY KEY (workflow, trigger, day)
);
CREATE INDEX request_created ON request (created);
CREATE INDEX backfill_workflow ON backfill (workflow, id);
CREATE INDEX workflow_deleted ON workflow (id) WHERE state = 'deleted';
