-- The statements of readers: parameters are plain values. Lists are read by the order of one
-- index, between bounds, so that a statement looks at a bounded number of rows.

-- name: session
SELECT set_config('application_name', $1, false), set_config('search_path', $2, false),
  set_config('statement_timeout', $3, false), set_config('lock_timeout', $4, false),
  set_config('idle_in_transaction_session_timeout', $5, false), set_config('tcp_user_timeout', $6, false),
  set_config('tcp_keepalives_idle', '10', false), set_config('tcp_keepalives_interval', '5', false),
  set_config('tcp_keepalives_count', '3', false), set_config('client_connection_check_interval', '1s', false),
  set_config('synchronous_commit', 'on', false), set_config('default_transaction_isolation', 'read committed', false),
  set_config('plan_cache_mode', 'force_generic_plan', false), set_config('jit', 'off', false),
  set_config('enable_seqscan', 'off', false), set_config('enable_hashjoin', 'off', false),
  set_config('enable_mergejoin', 'off', false), set_config('enable_bitmapscan', 'off', false);

-- name: snapshot
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;

-- name: done
COMMIT;

-- name: patience
SELECT set_config('idle_in_transaction_session_timeout', $1, true);

-- name: server
SELECT current_setting('server_encoding'), current_setting('server_version_num')::int;

-- name: hasMeta
SELECT to_regclass($1 || '.meta') IS NOT NULL;

-- name: meta
SELECT format, cluster::text, shards FROM meta;

-- name: runById
SELECT r.id, r.shard, r.workflow, r.version, r.priority, r.origin, r.username, r.key, r.key_hash, r.params, r.fire, r.created,
  r.state, r.intent, r.generation, r.cause, r.message, r.graph, r.base, r.final, r.split, r.started, r.finished,
  r.leader, r.leader_at
FROM run r WHERE r.id = $1;

-- name: runByKey
SELECT r.id, r.shard, r.workflow, r.version, r.priority, r.origin, r.username, r.key, r.key_hash, r.params, r.fire, r.created,
  r.state, r.intent, r.generation, r.cause, r.message, r.graph, r.base, r.final, r.split, r.started, r.finished,
  r.leader, r.leader_at
FROM run r WHERE r.workflow = $1 AND r.key = $2;

-- The newest runs of a list, and below them the place of a page's end: a page looks at a
-- bounded number of rows.

-- name: runsNewest
SELECT r.id, r.shard, r.workflow, r.version, r.priority, r.origin, r.username, r.key, r.key_hash, r.params, r.fire, r.created,
  r.state, r.intent, r.generation, r.cause, r.message, r.graph, r.base, r.final, r.split, r.started, r.finished,
  r.leader, r.leader_at
FROM run r WHERE r.id <= $1 AND r.id >= $2 AND ($3 = '' OR r.state = $3) AND r.created >= $4
ORDER BY r.id DESC LIMIT $5;

-- name: runsOfWorkflow
SELECT r.id, r.shard, r.workflow, r.version, r.priority, r.origin, r.username, r.key, r.key_hash, r.params, r.fire, r.created,
  r.state, r.intent, r.generation, r.cause, r.message, r.graph, r.base, r.final, r.split, r.started, r.finished,
  r.leader, r.leader_at
FROM run r WHERE r.id <= $1 AND r.id >= $2 AND ($3 = '' OR r.state = $3) AND r.created >= $4
  AND r.workflow = $6 AND ($7 = '' OR r.username = $7)
ORDER BY r.id DESC LIMIT $5;

-- name: runsOfUser
SELECT r.id, r.shard, r.workflow, r.version, r.priority, r.origin, r.username, r.key, r.key_hash, r.params, r.fire, r.created,
  r.state, r.intent, r.generation, r.cause, r.message, r.graph, r.base, r.final, r.split, r.started, r.finished,
  r.leader, r.leader_at
FROM run r WHERE r.id <= $1 AND r.id >= $2 AND ($3 = '' OR r.state = $3) AND r.created >= $4
  AND r.username = $6
ORDER BY r.id DESC LIMIT $5;

-- name: runsActive
-- Each shard's newest, merged.
SELECT r.id, r.shard, r.workflow, r.version, r.priority, r.origin, r.username, r.key, r.key_hash, r.params, r.fire, r.created,
  r.state, r.intent, r.generation, r.cause, r.message, r.graph, r.base, r.final, r.split, r.started, r.finished,
  r.leader, r.leader_at
FROM shard s CROSS JOIN LATERAL (
  SELECT * FROM run a WHERE a.shard = s.id AND a.finished = 0 AND a.id <= $1 AND a.id >= $2
    AND ($3 = 'active' OR a.state = $3) AND a.created >= $4 AND ($6 = 0::bigint OR a.workflow = $6)
    AND ($7 = '' OR a.username = $7)
  ORDER BY a.id DESC LIMIT $5) r
ORDER BY r.id DESC LIMIT $5;

-- name: floorNewest
SELECT id FROM run WHERE id <= $1 ORDER BY id DESC OFFSET $2 LIMIT 1;

-- name: floorOfWorkflow
SELECT id FROM run WHERE id <= $1 AND workflow = $3 ORDER BY id DESC OFFSET $2 LIMIT 1;

-- name: floorOfUser
SELECT id FROM run WHERE id <= $1 AND username = $3 ORDER BY id DESC OFFSET $2 LIMIT 1;

-- name: floorActive
SELECT a.id FROM shard s CROSS JOIN LATERAL (
  SELECT id FROM run WHERE shard = s.id AND finished = 0 AND id <= $1 ORDER BY id DESC LIMIT $2::bigint + 1) a
ORDER BY a.id DESC OFFSET $2 LIMIT 1;

-- name: loadPage
SELECT r.id, r.shard, r.workflow, r.version, r.priority, r.origin, r.username, r.key, r.key_hash, r.params, r.fire, r.created,
  r.state, r.intent, r.generation, r.cause, r.message, r.graph, r.base, r.final, r.split, r.started, r.finished,
  r.leader, r.leader_at
FROM run r WHERE r.shard = $1 AND r.finished = 0 AND r.id > $2 ORDER BY r.id LIMIT $3;

-- name: loadPageAttempts
SELECT a.run, a.task, a.token, a.generation, a.handler, a.assigned, a.state, a.cause, a.message, a.exit_code, a.signal,
  CASE WHEN octet_length(a.outputs) <= 65536 THEN a.outputs END, a.started, a.finished, a.retry_at, a.retry_wait
FROM (SELECT id FROM run WHERE shard = $1 AND finished = 0 AND id > $2 ORDER BY id LIMIT $3) r
  JOIN attempt a ON a.run = r.id
ORDER BY a.run, a.task, a.token;

-- name: loadNamed
SELECT r.id, r.shard, r.workflow, r.version, r.priority, r.origin, r.username, r.key, r.key_hash, r.params, r.fire, r.created,
  r.state, r.intent, r.generation, r.cause, r.message, r.graph, r.base, r.final, r.split, r.started, r.finished,
  r.leader, r.leader_at
FROM run r WHERE r.id = ANY ($1::uuid[]) ORDER BY r.id;

-- name: loadNamedAttempts
SELECT a.run, a.task, a.token, a.generation, a.handler, a.assigned, a.state, a.cause, a.message, a.exit_code, a.signal,
  CASE WHEN octet_length(a.outputs) <= 65536 THEN a.outputs END, a.started, a.finished, a.retry_at, a.retry_wait
FROM attempt a WHERE a.run = ANY ($1::uuid[]) ORDER BY a.run, a.task, a.token;

-- name: attemptsOfRun
SELECT a.run, a.task, a.token, a.generation, a.handler, a.assigned, a.state, a.cause, a.message, a.exit_code, a.signal,
  CASE WHEN octet_length(a.outputs) <= $2::int THEN a.outputs END, a.started, a.finished, a.retry_at, a.retry_wait
FROM attempt a WHERE a.run = $1 ORDER BY a.task, a.token;

-- name: attemptsOfTask
SELECT a.run, a.task, a.token, a.generation, a.handler, a.assigned, a.state, a.cause, a.message, a.exit_code, a.signal,
  CASE WHEN octet_length(a.outputs) <= $2::int THEN a.outputs END, a.started, a.finished, a.retry_at, a.retry_wait
FROM attempt a WHERE a.run = $1 AND a.task = $3 ORDER BY a.token;

-- name: eventsOfRun
SELECT run, seq, at, records FROM event WHERE run = $1 AND seq > $2
UNION ALL SELECT id, first_seq, first_at, events_first FROM run WHERE id = $1 AND first_seq > $2 AND events_first IS NOT NULL
UNION ALL SELECT id, last_seq, last_at, events_last FROM run WHERE id = $1 AND last_seq > $2 AND events_last IS NOT NULL
ORDER BY 2 LIMIT $3;

-- name: scanRuns
SELECT r.id, r.shard, r.workflow, r.version, r.priority, r.origin, r.username, r.key, r.key_hash, r.params, r.fire, r.created,
  r.state, r.intent, r.generation, r.cause, r.message, r.graph, r.base, r.final, r.split, r.started, r.finished,
  r.leader, r.leader_at
FROM run r WHERE r.id > $1 ORDER BY r.id LIMIT $2;

-- name: scanAttempts
SELECT a.run, a.task, a.token, a.generation, a.handler, a.assigned, a.state, a.cause, a.message, a.exit_code, a.signal,
  CASE WHEN octet_length(a.outputs) <= $3::int THEN a.outputs END, a.started, a.finished, a.retry_at, a.retry_wait
FROM (SELECT id FROM run WHERE id > $1 ORDER BY id LIMIT $2) r JOIN attempt a ON a.run = r.id
ORDER BY a.run, a.task, a.token;

-- name: scanEvents
WITH page AS (SELECT * FROM run WHERE id > $1 ORDER BY id LIMIT $2)
SELECT e.run, e.seq, e.at, e.records FROM page JOIN event e ON e.run = page.id
UNION ALL SELECT id, first_seq, first_at, events_first FROM page WHERE events_first IS NOT NULL
UNION ALL SELECT id, last_seq, last_at, events_last FROM page WHERE events_last IS NOT NULL
ORDER BY 1, 2;

-- name: handlersById
SELECT id, uuid::text, node, started FROM handler WHERE id = ANY ($1::bigint[]) ORDER BY id;

-- name: workflowById
SELECT id, shard, namespace, name, state, version, latest, max_runs, revision, created, modified FROM workflow WHERE id = $1;

-- name: workflowByName
SELECT id, shard, namespace, name, state, version, latest, max_runs, revision, created, modified FROM workflow
WHERE namespace = $1 AND name = $2 AND state <> 'deleted';

-- name: workflowsOf
SELECT id, shard, namespace, name, state, version, latest, max_runs, revision, created, modified FROM workflow
WHERE state <> 'deleted' AND ($1 = '' OR namespace = $1) AND (namespace, name) > ($2, $3)
ORDER BY namespace, name LIMIT $4;

-- name: versionOf
SELECT workflow, version, digest, username, created, source, def, graph FROM version WHERE workflow = $1 AND version = $2;

-- name: versionsOf
SELECT workflow, version, digest, username, created FROM version WHERE workflow = $1 AND version < $2
ORDER BY version DESC LIMIT $3;

-- name: filesOf
SELECT name, mode, data FROM version_file WHERE workflow = $1 AND version = $2 ORDER BY name;

-- name: requestByKey
SELECT scope, key, hash, answer, created FROM request WHERE scope = $1 AND key = $2;

-- name: messagesTo
SELECT id, sender, target, payload, created FROM message WHERE target = $1 ORDER BY id LIMIT $2;

-- name: activeStates
SELECT state, count(*) FROM run WHERE shard = ANY (ARRAY(SELECT id FROM shard)) AND finished = 0 GROUP BY state;

-- name: size
SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class
WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r';
