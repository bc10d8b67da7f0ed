-- Format 17: old lines of the ledger, answers under idempotency keys, backfills and deleted workflows are
-- deleted.

-- The counts of deleted lines of the ledger: the number of instants with each outcome, by trigger and day.
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
CREATE INDEX backfill_workflow ON backfill (workflow, id);
CREATE INDEX workflow_deleted ON workflow (id) WHERE state = 'deleted';

-- Upgrade builds the index request_created of a table that has rows: nodes of the version before write to it
-- all the time.
DO $$ BEGIN
  IF NOT EXISTS (SELECT FROM request) THEN
    CREATE INDEX request_created ON request (created);
  END IF;
END $$;
