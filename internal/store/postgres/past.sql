-- The statements that delete old rows. They use the connection of logs.

-- name: expireFires
-- It deletes the lines of a page that may be deleted. The newest line of an existing trigger stays: the owner may extend it.
WITH least AS (
  SELECT decided FROM fire WHERE workflow = $1 ORDER BY decided DESC, trigger DESC, at DESC, key DESC OFFSET $4::bigint LIMIT 1
), page AS MATERIALIZED (
  SELECT decided, trigger, at, key, count, run, outcome FROM fire
  WHERE workflow = $1 AND (decided, trigger, at, key) > ($5::bigint, $6::text, $7::bigint, $8::text)
    AND (decided < greatest($2::bigint, $3::bigint) OR decided <= (SELECT decided FROM least))
  ORDER BY decided, trigger, at, key LIMIT $9::bigint
), gone AS (
  DELETE FROM fire f USING page p
  WHERE f.workflow = $1 AND f.trigger = p.trigger AND f.at = p.at AND f.key = p.key AND f.decided = p.decided AND f.count = p.count
    AND (p.decided < CASE WHEN p.run IS NOT NULL AND p.outcome = 'fired' THEN $2::bigint ELSE $3::bigint END
      OR p.decided <= (SELECT decided FROM least))
    AND (EXISTS (SELECT FROM fire n WHERE n.workflow = $1 AND n.trigger = p.trigger AND (n.at, n.key) > (p.at, p.key))
      OR NOT EXISTS (SELECT FROM trigger t WHERE t.workflow = $1 AND t.name = p.trigger))
  RETURNING f.trigger, f.at, f.last, f.count, f.outcome
), days AS (
  INSERT INTO fire_day AS d (workflow, trigger, day, fired, late, skipped, merged, missed, until)
  SELECT $1, trigger, (at / 86400000000)::int,
    coalesce(sum(count) FILTER (WHERE outcome = 'fired'), 0), coalesce(sum(count) FILTER (WHERE outcome = 'late'), 0),
    coalesce(sum(count) FILTER (WHERE outcome = 'skipped'), 0), coalesce(sum(count) FILTER (WHERE outcome = 'merged'), 0),
    coalesce(sum(count) FILTER (WHERE outcome = 'missed'), 0), max(last)
  FROM gone GROUP BY trigger, (at / 86400000000)::int
  ON CONFLICT (workflow, trigger, day) DO UPDATE SET fired = d.fired + excluded.fired, late = d.late + excluded.late,
    skipped = d.skipped + excluded.skipped, merged = d.merged + excluded.merged, missed = d.missed + excluded.missed,
    until = greatest(d.until, excluded.until)
)
SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM page), p.decided, p.trigger, p.at, p.key
FROM page p ORDER BY p.decided DESC, p.trigger DESC, p.at DESC, p.key DESC LIMIT 1;

-- name: expireDays
DELETE FROM fire_day d WHERE d.workflow = $1 AND d.day < $2
  AND (EXISTS (SELECT FROM fire_day n WHERE n.workflow = $1 AND n.trigger = d.trigger AND n.day > d.day)
    OR NOT EXISTS (SELECT FROM trigger t WHERE t.workflow = $1 AND t.name = d.trigger));

-- name: fireDays
SELECT workflow, trigger, day::bigint, fired, late, skipped, merged, missed, until FROM fire_day
WHERE workflow = $1 AND trigger = $2 AND day < $3 ORDER BY day DESC LIMIT $4;

-- name: expireBackfills
WITH least AS (
  SELECT id FROM backfill WHERE workflow = $1 AND state IN ('cancelled', 'done') ORDER BY id DESC OFFSET $3::bigint LIMIT 1
), old AS MATERIALIZED (
  SELECT id FROM backfill WHERE workflow = $1 AND state IN ('cancelled', 'done') AND (modified < $2 OR id <= (SELECT id FROM least))
  ORDER BY id LIMIT 1
), page AS MATERIALIZED (
  SELECT r.backfill, r.instant FROM old JOIN backfill_run r ON r.backfill = old.id ORDER BY r.instant LIMIT $4::bigint
), runs AS (
  DELETE FROM backfill_run r USING page p WHERE r.backfill = p.backfill AND r.instant = p.instant RETURNING 1
), gone AS (
  DELETE FROM backfill b USING old WHERE b.id = old.id AND (SELECT count(*) FROM page) < $4::bigint RETURNING 1
)
SELECT (SELECT count(*) FROM runs) + (SELECT count(*) FROM gone);

-- name: deletedWorkflows
SELECT id, shard, namespace, name, state, version, latest, max_runs, revision, created, modified, tags FROM workflow
WHERE state = 'deleted' AND id > $1 ORDER BY id LIMIT $2;

-- name: expireWorkflow
WITH w AS MATERIALIZED (
  SELECT id, shard FROM workflow WHERE id = $1 AND state = 'deleted' AND modified < $2 AND NOT EXISTS (SELECT FROM run WHERE workflow = $1)
), fires AS (
  DELETE FROM fire f USING (SELECT trigger, at, key FROM w JOIN fire ON workflow = w.id LIMIT $3::bigint) p
  WHERE f.workflow = $1 AND f.trigger = p.trigger AND f.at = p.at AND f.key = p.key RETURNING 1
), days AS (
  DELETE FROM fire_day d USING (SELECT trigger, day FROM w JOIN fire_day ON workflow = w.id LIMIT $3::bigint) p
  WHERE d.workflow = $1 AND d.trigger = p.trigger AND d.day = p.day RETURNING 1
), runs AS (
  DELETE FROM backfill_run r USING (SELECT backfill, instant FROM w JOIN backfill_run ON workflow = w.id LIMIT $3::bigint) p
  WHERE r.backfill = p.backfill AND r.instant = p.instant RETURNING 1
), fills AS (
  DELETE FROM backfill b USING (SELECT f.id FROM w JOIN backfill f ON f.workflow = w.id LIMIT $3::bigint) p WHERE b.id = p.id RETURNING 1
), files AS (
  DELETE FROM version_file v USING (SELECT version, name FROM w JOIN version_file ON workflow = w.id LIMIT $3::bigint) p
  WHERE v.workflow = $1 AND v.version = p.version AND v.name = p.name RETURNING 1
), versions AS (
  DELETE FROM version v USING (SELECT version FROM w JOIN version ON workflow = w.id LIMIT $3::bigint) p
  WHERE v.workflow = $1 AND v.version = p.version RETURNING 1
), counts AS (
  DELETE FROM tally t USING (SELECT y.span, y.task, y.at FROM w JOIN tally y ON y.workflow = w.id LIMIT $3::bigint) p
  WHERE t.workflow = $1 AND t.span = p.span AND t.task = p.task AND t.at = p.at RETURNING 1
), marks AS (
  DELETE FROM tally_mark m USING w WHERE m.shard = w.shard AND m.workflow = w.id RETURNING 1
), n AS (
  SELECT (SELECT count(*) FROM fires) + (SELECT count(*) FROM days) + (SELECT count(*) FROM runs) + (SELECT count(*) FROM fills)
    + (SELECT count(*) FROM files) + (SELECT count(*) FROM versions)
    + (SELECT count(*) FROM counts) + (SELECT count(*) FROM marks) AS rows
), gone AS (
  DELETE FROM workflow USING w WHERE workflow.id = w.id AND (SELECT rows FROM n) = 0 RETURNING 1
)
SELECT (SELECT rows FROM n) + (SELECT count(*) FROM gone);

-- name: expireRequests
-- Calls of webhooks are kept for a time of their own.
WITH least AS (
  SELECT created + 1 AS created FROM request WHERE NOT starts_with(scope, 'hook/') ORDER BY request.created DESC OFFSET $2::bigint LIMIT 1
), page AS MATERIALIZED (
  SELECT scope, key FROM request WHERE created < greatest($1::bigint, (SELECT created FROM least)) AND NOT starts_with(scope, 'hook/')
  ORDER BY created LIMIT $3::bigint
), gone AS (
  DELETE FROM request r USING page p WHERE r.scope = p.scope AND r.key = p.key RETURNING 1
)
SELECT count(*) FROM gone;

-- name: expireCalls
WITH page AS MATERIALIZED (
  SELECT scope, key FROM request WHERE created < $1::bigint AND starts_with(scope, 'hook/') ORDER BY created LIMIT $2::bigint
), gone AS (
  DELETE FROM request r USING page p WHERE r.scope = p.scope AND r.key = p.key RETURNING 1
)
SELECT count(*) FROM gone;

-- name: expireBusyCalls
-- Beyond the number of all calls ($1), the secret with the most calls loses its oldest, down to an equal share.
WITH secret AS MATERIALIZED (
  SELECT scope, count(*) AS calls FROM request WHERE scope >= 'hook/' AND scope < 'hook0' GROUP BY scope
), page AS MATERIALIZED (
  SELECT scope, key FROM request WHERE scope = (SELECT scope FROM secret ORDER BY calls DESC LIMIT 1) ORDER BY created
  LIMIT (SELECT greatest(0, least($2::bigint, sum(calls)::bigint - $1::bigint, max(calls) - $1::bigint / nullif(count(*), 0))) FROM secret)
), gone AS (
  DELETE FROM request r USING page p WHERE r.scope = p.scope AND r.key = p.key RETURNING 1
)
SELECT count(*) FROM gone;

-- name: expireHandlers
WITH least AS (
  SELECT id FROM handler ORDER BY id DESC OFFSET $2::bigint LIMIT 1
), page AS MATERIALIZED (
  SELECT h.id FROM handler h WHERE (h.started < $1 OR h.started < $4 AND h.id <= (SELECT id FROM least))
    AND NOT EXISTS (SELECT FROM member m WHERE m.handler = h.id) AND NOT EXISTS (SELECT FROM shard s WHERE s.owner = h.id OR s.wanted = h.id)
  ORDER BY h.id LIMIT $3::bigint
), gone AS (
  DELETE FROM handler h USING page p WHERE h.id = p.id RETURNING 1
)
SELECT count(*) FROM gone;

-- name: expireTokens
WITH gone AS (
  DELETE FROM token WHERE (revoked > 0 AND revoked < $1 OR expires > 0 AND expires < $1) AND id < (SELECT max(id) FROM token) RETURNING 1
), orders AS (
  DELETE FROM node_order o WHERE o.at < $1 AND o.node <> '' AND NOT EXISTS (SELECT FROM member m WHERE m.name = o.node) RETURNING 1
)
SELECT (SELECT count(*) FROM gone) + (SELECT count(*) FROM orders);
