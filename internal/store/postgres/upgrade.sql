-- Texts of upgrades. They are not prepared.

-- name: clearStates
-- Programs of older formats did not write this list, so its rows mean nothing. The lock waits for writers
-- that have changed the list. It holds up others for a moment only: TRUNCATE reads no rows.
LOCK TABLE unsuccessful IN ACCESS EXCLUSIVE MODE;
DO $$ BEGIN
  UPDATE meta SET listed = 'ffffffff-ffff-ffff-ffff-fffffffffffe' WHERE listed = 'ffffffff-ffff-ffff-ffff-ffffffffffff' AND format >= 16;
  IF FOUND THEN
    TRUNCATE unsuccessful;
  END IF;
END $$;

-- name: tune
-- Dead rows are removed before they are a fifth of a table: of a large table that is too much.
ALTER TABLE %s SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

-- name: unbound
-- CREATE INDEX CONCURRENTLY waits for all older transactions. It holds up no writer meanwhile.
SET lock_timeout = 0;
SET statement_timeout = %d;

-- name: request_created
CREATE INDEX CONCURRENTLY request_created ON request (created);

-- name: audit_at
CREATE INDEX CONCURRENTLY audit_at ON audit (at, id);

-- name: version_watched
CREATE INDEX CONCURRENTLY version_watched ON version (workflow) WHERE position('\x22616c65727473223a5b'::bytea IN def) > 0;

-- name: restock
SET enable_seqscan = on;
SET enable_hashjoin = on;
SELECT restock();
UPDATE meta SET stocked = true;
