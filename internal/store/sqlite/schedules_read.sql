-- The statements of readers of triggers, their ledger and backfills.

-- name: triggerByName
SELECT * FROM trigger WHERE workflow = ?1 AND name = ?2;

-- name: triggersAfter
SELECT * FROM trigger WHERE (workflow, name) > (?1, ?2) AND (?3 = '' OR state = ?3) ORDER BY workflow, name LIMIT +?4;

-- name: triggersInactive
-- Paused and ended triggers are few and have an index of their own.
SELECT * FROM trigger WHERE state = ?3 AND state <> 'active' AND (workflow, name) > (?1, ?2) ORDER BY workflow, name LIMIT +?4;

-- name: triggersOf
SELECT * FROM trigger WHERE workflow = ?5 AND (workflow, name) > (?1, ?2) AND (?3 = '' OR state = ?3) ORDER BY name LIMIT +?4;

-- name: triggersDue
SELECT * FROM trigger WHERE shard = ?1 AND next > 0 AND next <= ?2 ORDER BY next LIMIT +?3;

-- name: nextDue
SELECT next FROM trigger WHERE shard = ?1 AND next > 0 ORDER BY next LIMIT 1;

-- name: listening
SELECT workflow, name FROM trigger_on WHERE target = ?1 ORDER BY workflow, name LIMIT +?2;

-- name: sensorsOfKind
-- The condition repeats that of the index. Otherwise SQLite does not use the index.
SELECT * FROM trigger WHERE kind = ?1 AND (workflow, name) > (?2, ?3) AND state = 'active'
  AND kind NOT IN ('cron', 'every', 'at', 'daily', 'weekly', 'monthly', 'annually')
ORDER BY workflow, name LIMIT +?4;

-- name: schedulesOfKind
SELECT * FROM trigger WHERE kind = ?1 AND (workflow, name) > (?2, ?3) AND state = 'active' ORDER BY workflow, name LIMIT +?4;

-- name: newestFire
SELECT * FROM fire WHERE workflow = ?1 AND trigger = ?2 ORDER BY at DESC, key DESC LIMIT 1;

-- name: fireOfEvent
SELECT * FROM fire INDEXED BY fire_key WHERE workflow = ?1 AND trigger = ?2 AND key = ?3 AND key <> '' ORDER BY at DESC LIMIT 1;

-- name: fireBefore
-- Lines of a schedule do not overlap, so only the nearest line can cover an instant.
SELECT * FROM fire WHERE workflow = ?1 AND trigger = ?2 AND at <= ?3 AND key = '' ORDER BY at DESC LIMIT 1;

-- name: firesDown
SELECT * FROM fire INDEXED BY fire_decided WHERE (decided, workflow, trigger, at, key) < (?1, ?2, ?3, ?4, ?5)
  AND (?6 = '' OR outcome = ?6) AND last >= ?7 AND at <= ?8
ORDER BY decided DESC, workflow DESC, trigger DESC, at DESC, key DESC LIMIT +?9;

-- name: exceptionsDown
SELECT * FROM fire INDEXED BY fire_exception WHERE (decided, workflow, trigger, at, key) < (?1, ?2, ?3, ?4, ?5)
  AND (run IS NULL OR outcome <> 'fired')
  AND CASE ?6 WHEN 'unfired' THEN run IS NULL ELSE outcome = ?6 END AND last >= ?7 AND at <= ?8
ORDER BY decided DESC, workflow DESC, trigger DESC, at DESC, key DESC LIMIT +?9;

-- name: firesOfWorkflow
SELECT * FROM fire INDEXED BY fire_workflow WHERE workflow = ?10 AND (decided, workflow, trigger, at, key) < (?1, ?2, ?3, ?4, ?5)
  AND (?11 = '' OR trigger = ?11)
  AND CASE ?6 WHEN '' THEN 1 WHEN 'unfired' THEN run IS NULL ELSE outcome = ?6 END AND last >= ?7 AND at <= ?8
ORDER BY decided DESC, trigger DESC, at DESC, key DESC LIMIT +?9;

-- name: backfillById
SELECT * FROM backfill WHERE id = ?1;

-- name: backfillsDown
SELECT * FROM backfill WHERE id < ?1 AND (?2 = 0 OR workflow = ?2) AND (?3 = '' OR state = ?3) ORDER BY id DESC LIMIT +?4;

-- name: runsOfBackfill
SELECT backfill, workflow, instant, run FROM backfill_run WHERE backfill = ?1 AND instant > ?2 ORDER BY instant LIMIT +?3;

-- name: backfillRunsAt
SELECT run FROM backfill_run WHERE workflow = ?1 AND instant = ?2 ORDER BY backfill;

-- name: allHears
SELECT workflow, name, hears FROM trigger WHERE hears IS NOT NULL AND state = 'active';

-- name: allListening
SELECT target, workflow, name FROM trigger_on;
