-- The statements of a writer's transaction for triggers, their ledger and backfills.

-- name: raiseWatermark
UPDATE shard SET watermark = max(watermark, ?2) WHERE id = ?1;

-- name: insertTrigger
INSERT INTO trigger (workflow, name, shard, created, kind, state, hears, revision, version, actor, reason, next, decided,
  since, fired, max_runs, modified, data, spec)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19);

-- name: moveTrigger
-- The columns that a fire changes. The lists of sensors and of listeners do not depend on them.
UPDATE trigger SET revision = ?6, version = ?7, actor = ?8, reason = ?9, next = ?10, decided = ?11, since = ?12, fired = ?13,
  max_runs = ?14, modified = ?15, data = ?16, spec = ?17
WHERE workflow = ?1 AND name = ?2 AND revision = ?6 - 1 AND kind = ?3 AND state = ?4 AND hears IS ?5;

-- name: editTrigger
UPDATE trigger SET kind = ?3, state = ?4, hears = ?5, revision = ?6, version = ?7, actor = ?8, reason = ?9, next = ?10,
  decided = ?11, since = ?12, fired = ?13, max_runs = ?14, modified = ?15, data = ?16, spec = ?17
WHERE workflow = ?1 AND name = ?2 AND revision = ?6 - 1;

-- name: dropTrigger
DELETE FROM trigger WHERE workflow = ?1 AND name = ?2 AND revision = ?3;

-- name: whatTriggerHears
SELECT hears FROM trigger WHERE workflow = ?1 AND name = ?2 AND hears IS NOT NULL;

-- name: hear
INSERT INTO trigger_on (target, workflow, name) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING;

-- name: unhear
DELETE FROM trigger_on WHERE target = ?1 AND workflow = ?2 AND name = ?3;

-- name: insertFire
INSERT INTO fire (workflow, trigger, at, key, last, count, outcome, reason, run, decided)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10);

-- name: updateFire
UPDATE fire SET last = ?5, count = ?6, outcome = ?7, reason = ?8, run = ?9, decided = ?10
WHERE workflow = ?1 AND trigger = ?2 AND at = ?3 AND key = ?4 AND outcome = ?11 AND count = ?12;

-- name: insertBackfill
INSERT INTO backfill (id, state, started, ended, failed, parallel, revision, modified, workflow, shard, trigger, total, user,
  created, spec, instants)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16);

-- name: updateBackfill
UPDATE backfill SET state = ?2, started = ?3, ended = ?4, failed = ?5, parallel = ?6, revision = ?7, modified = ?8
WHERE id = ?1 AND revision = ?7 - 1;

-- name: insertBackfillRun
INSERT INTO backfill_run (backfill, instant, workflow, run)
VALUES (?1, ?2, ?3, ?4);
