-- The statements that delete old rows.

-- name: leastFire
SELECT decided FROM fire INDEXED BY fire_workflow WHERE workflow = ?1 ORDER BY decided DESC, trigger DESC, at DESC, key DESC LIMIT 1 OFFSET ?2;

-- name: oldFires
-- The last column says whether a line is the newest of an existing trigger: the owner may extend such a line.
SELECT f.*, NOT EXISTS (SELECT 1 FROM fire n WHERE n.workflow = ?1 AND n.trigger = f.trigger AND (n.at, n.key) > (f.at, f.key))
  AND EXISTS (SELECT 1 FROM trigger t WHERE t.workflow = ?1 AND t.name = f.trigger)
FROM fire f INDEXED BY fire_workflow WHERE f.workflow = ?1 AND (f.decided, f.trigger, f.at, f.key) > (?2, ?3, ?4, ?5) AND f.decided < ?6
ORDER BY f.decided, f.trigger, f.at, f.key LIMIT +?7;

-- name: expireFire
DELETE FROM fire WHERE workflow = ?1 AND trigger = ?2 AND at = ?3 AND key = ?4 AND decided = ?5 AND count = ?6;

-- name: addDay
INSERT INTO fire_day (workflow, trigger, day, fired, late, skipped, merged, missed, until) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT (workflow, trigger, day) DO UPDATE SET fired = fired + excluded.fired, late = late + excluded.late,
  skipped = skipped + excluded.skipped, merged = merged + excluded.merged, missed = missed + excluded.missed,
  until = max(until, excluded.until);

-- name: expireDays
DELETE FROM fire_day WHERE workflow = ?1 AND day < ?2
  AND (EXISTS (SELECT 1 FROM fire_day n WHERE n.workflow = ?1 AND n.trigger = fire_day.trigger AND n.day > fire_day.day)
    OR NOT EXISTS (SELECT 1 FROM trigger t WHERE t.workflow = ?1 AND t.name = fire_day.trigger));

-- name: fireDays
SELECT workflow, trigger, day, fired, late, skipped, merged, missed, until FROM fire_day
WHERE workflow = ?1 AND trigger = ?2 AND day < ?3 ORDER BY day DESC LIMIT +?4;

-- name: oldBackfill
SELECT id FROM backfill WHERE workflow = ?1 AND state IN ('cancelled', 'done') AND (modified < ?2 OR id <=
  (SELECT id FROM backfill WHERE workflow = ?1 AND state IN ('cancelled', 'done') ORDER BY id DESC LIMIT 1 OFFSET ?3))
ORDER BY id LIMIT 1;

-- name: expireBackfillRuns
DELETE FROM backfill_run WHERE backfill = ?1
  AND instant IN (SELECT instant FROM backfill_run WHERE backfill = ?1 ORDER BY instant LIMIT +?2);

-- name: expireBackfill
DELETE FROM backfill WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM backfill_run WHERE backfill = ?1);

-- name: deletedWorkflows
SELECT * FROM workflow WHERE state = 'deleted' AND id > ?1 ORDER BY id LIMIT +?2;

-- name: isDeleted
SELECT 1 FROM workflow WHERE id = ?1 AND state = 'deleted' AND modified < ?2;

-- name: dropFires
DELETE FROM fire WHERE workflow = ?1 AND (trigger, at, key) IN (SELECT trigger, at, key FROM fire WHERE workflow = ?1 LIMIT +?2);

-- name: dropDays
DELETE FROM fire_day WHERE workflow = ?1 AND (trigger, day) IN (SELECT trigger, day FROM fire_day WHERE workflow = ?1 LIMIT +?2);

-- name: dropBackfillRuns
DELETE FROM backfill_run WHERE (backfill, instant) IN (SELECT backfill, instant FROM backfill_run WHERE workflow = ?1 LIMIT +?2);

-- name: dropBackfills
DELETE FROM backfill WHERE id IN (SELECT id FROM backfill WHERE workflow = ?1 LIMIT +?2);

-- name: dropFiles
DELETE FROM version_file WHERE rowid IN (SELECT rowid FROM version_file WHERE workflow = ?1 LIMIT +?2);

-- name: dropVersions
DELETE FROM version WHERE rowid IN (SELECT rowid FROM version WHERE workflow = ?1 LIMIT +?2);

-- name: dropWorkflow
DELETE FROM workflow WHERE id = ?1 AND state = 'deleted';

-- name: expireRequests
-- Calls of webhooks are kept for a time of their own.
DELETE FROM request WHERE (scope, key) IN (SELECT scope, key FROM request
  WHERE created < max(?1, coalesce((SELECT created + 1 FROM request WHERE substr(scope, 1, 5) <> 'hook/'
    ORDER BY created DESC LIMIT 1 OFFSET ?2), 0)) AND substr(scope, 1, 5) <> 'hook/' ORDER BY created LIMIT +?3);

-- name: expireCalls
DELETE FROM request WHERE (scope, key) IN (SELECT scope, key FROM request
  WHERE created < ?1 AND substr(scope, 1, 5) = 'hook/' ORDER BY created LIMIT +?2);

-- name: expireBusyCalls
-- Beyond the number of all calls (?1), the secret with the most calls loses its oldest, down to an equal share.
WITH secret AS MATERIALIZED (
  SELECT scope, count(*) AS calls FROM request WHERE scope >= 'hook/' AND scope < 'hook0' GROUP BY scope
)
DELETE FROM request WHERE (scope, key) IN (SELECT scope, key FROM request
  WHERE scope = (SELECT scope FROM secret ORDER BY calls DESC LIMIT 1) ORDER BY created
  LIMIT (SELECT coalesce(max(0, min(?2, sum(calls) - ?1, max(calls) - ?1 / count(*))), 0) FROM secret));

-- name: expireHandlers
DELETE FROM handler WHERE id IN (SELECT id FROM handler
  WHERE (started < ?1 OR started < ?4 AND id <= (SELECT id FROM handler ORDER BY id DESC LIMIT 1 OFFSET ?2))
    AND NOT EXISTS (SELECT 1 FROM shard WHERE owner = handler.id) ORDER BY id LIMIT +?3);

-- name: expireTokens
-- The newest token stays: its number must not be given again.
DELETE FROM token WHERE (revoked > 0 AND revoked < ?1 OR expires > 0 AND expires < ?1) AND id < (SELECT max(id) FROM token);

-- name: holderOfShard
SELECT owner, 1 FROM shard WHERE id = ?1;

-- name: versionsMayGo
SELECT owner, EXISTS (SELECT 1 FROM workflow w JOIN version v ON v.workflow = w.id
  WHERE w.id = ?2 AND v.version < min(w.version, w.latest - ?3 + 1)) FROM shard WHERE id = ?1;

-- name: daysMayGo
SELECT owner, EXISTS (SELECT 1 FROM fire_day WHERE workflow = ?2 AND day < ?3) FROM shard WHERE id = ?1;

-- name: backfillsMayGo
SELECT owner, EXISTS (SELECT 1 FROM backfill WHERE workflow = ?2 AND state IN ('cancelled', 'done')) FROM shard WHERE id = ?1;
