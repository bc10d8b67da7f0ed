-- Format 11: what happened is forgotten, too: lines of the ledger, answers under idempotency keys, backfills, deleted workflows.

-- What is kept of lines that are forgotten: how many instants had which outcome, by trigger and day.
CREATE TABLE fire_day (
  workflow INTEGER NOT NULL,
  trigger  TEXT NOT NULL,
  day      INTEGER NOT NULL,
  fired    INTEGER NOT NULL,
  late     INTEGER NOT NULL,
  skipped  INTEGER NOT NULL,
  merged   INTEGER NOT NULL,
  missed   INTEGER NOT NULL,
  until    INTEGER NOT NULL,
  PRIMARY KEY (workflow, trigger, day)
) WITHOUT ROWID;
CREATE INDEX request_created ON request (created);
CREATE INDEX backfill_workflow ON backfill (workflow, id);
CREATE INDEX workflow_deleted ON workflow (id) WHERE state = 'deleted';
