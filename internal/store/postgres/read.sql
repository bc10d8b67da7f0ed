-- The statements of readers. Parameters are plain values. A list is read in the order of one index,
-- between bounds, so a statement looks at a bounded number of rows.

-- name: session
SELECT pg_backend_pid(), set_config('application_name', $1, false), set_config('search_path', $2, false),
  set_config('statement_timeout', $3, false), set_config('lock_timeout', $4, false),
  set_config('idle_in_transaction_session_timeout', $5, false), set_config('tcp_user_timeout', $6, false),
  set_config('tcp_keepalives_idle', '10', false), set_config('tcp_keepalives_interval', '5', false),
  set_config('tcp_keepalives_count', '3', false), set_config('client_connection_check_interval', '1s', false),
  set_config('synchronous_commit', 'on', false), set_config('default_transaction_isolation', 'read committed', false),
  set_config('plan_cache_mode', 'force_generic_plan', false), set_config('jit', 'off', false),
  set_config('enable_seqscan', 'off', false), set_config('enable_hashjoin', 'off', false),
  set_config('enable_mergejoin', 'off', false), set_config('enable_bitmapscan', 'off', false);

-- name: endBlockers
-- It ends the transactions that block a session, except those that wait themselves.
SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a
WHERE a.pid = ANY (pg_blocking_pids($1)) AND a.wait_event_type IS DISTINCT FROM 'Lock';

-- name: snapshot
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;

-- name: done
COMMIT;

-- name: patience
SELECT set_config('idle_in_transaction_session_timeout', $1, true);

-- name: server
SELECT current_setting('server_encoding'), current_setting('server_version_num')::int;

-- name: writable
SELECT NOT pg_is_in_recovery() AND current_setting('transaction_read_only') = 'off';

-- name: hasMeta
-- It is a query, because a query sees what another node has just committed. A look-up by name may not.
SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = 'meta');

-- name: meta
-- If the database does not record the number of applied migrations, the format says it.
SELECT format, cluster::text, shards, coalesce((to_jsonb(meta) ->> 'applied')::int, format), coalesce(to_jsonb(meta) ->> 'isolation', '') FROM meta;

-- name: runById
SELECT r.id, r.shard, r.workflow, r.version, r.priority, r.origin, r.username, r.key, r.key_hash, r.params, r.fire, r.created,
  r.state, r.intent, r.generation, r.cause, r.message, r.graph, r.base, r.final, r.split, r.started, r.finished,
  r.leader, r.leader_at, r.claim
FROM run r WHERE r.id = $1;

-- name: runsByKeys
-- The order leaves the planner one index, that of the keys. With an equality, and without statistics, it could also choose
-- the index of workflows: then each start read all runs of its workflow.
SELECT r.* FROM unnest($1::bigint[], $2::text[]) k (workflow, key) CROSS JOIN LATERAL (
  SELECT r.id, r.shard, r.workflow, r.version, r.priority, r.origin, r.username, r.key, r.key_hash, r.params, r.fire, r.created,
    r.state, r.intent, r.generation, r.cause, r.message, r.graph, r.base, r.final, r.split, r.started, r.finished,
    r.leader, r.leader_at, r.claim
  FROM run r WHERE r.key IS NOT NULL AND (r.workflow, r.key) >= (k.workflow, k.key) ORDER BY r.workflow, r.key LIMIT 1) r
WHERE r.workflow = k.workflow AND r.key = k.key;

-- The newest runs of a list, with the size of their parameters. floor finds the end of a page below them,
-- because a page looks at a bounded number of rows. count counts the list.

-- name: runsNewest
SELECT r.id, r.shard, r.workflow, r.version, r.priority, r.origin, r.username, r.key, r.key_hash, NULL::bytea, r.fire, r.created,
  r.state, r.intent, r.generation, r.cause, r.message, r.graph, r.base, r.final, r.split, r.started, r.finished,
  r.leader, r.leader_at, r.claim, coalesce(octet_length(r.params), 0)::bigint
FROM run r WHERE r.id <= $1 AND r.id >= $2 AND (cardinality($3::text[]) = 0 OR r.state = ANY ($3)) AND r.created >= $4 AND ($8 = 0::bigint OR r.created < $8)
  AND ($9 = '' OR r.origin = $9) AND ($10 = '' OR r.cause = $10)
  AND ($6 = 0::bigint OR r.workflow = $6) AND ($7 = '' OR r.username = $7)
ORDER BY r.id DESC LIMIT $5;

-- name: runsOfWorkflow
SELECT r.id, r.shard, r.workflow, r.version, r.priority, r.origin, r.username, r.key, r.key_hash, NULL::bytea, r.fire, r.created,
  r.state, r.intent, r.generation, r.cause, r.message, r.graph, r.base, r.final, r.split, r.started, r.finished,
  r.leader, r.leader_at, r.claim, coalesce(octet_length(r.params), 0)::bigint
FROM run r WHERE r.id <= $1 AND r.id >= $2 AND (cardinality($3::text[]) = 0 OR r.state = ANY ($3)) AND r.created >= $4 AND ($8 = 0::bigint OR r.created < $8)
  AND ($9 = '' OR r.origin = $9) AND ($10 = '' OR r.cause = $10)
  AND r.workflow = $6 AND ($7 = '' OR r.username = $7)
ORDER BY r.id DESC LIMIT $5;

-- name: runsOfUser
SELECT r.id, r.shard, r.workflow, r.version, r.priority, r.origin, r.username, r.key, r.key_hash, NULL::bytea, r.fire, r.created,
  r.state, r.intent, r.generation, r.cause, r.message, r.graph, r.base, r.final, r.split, r.started, r.finished,
  r.leader, r.leader_at, r.claim, coalesce(octet_length(r.params), 0)::bigint
FROM run r WHERE r.id <= $1 AND r.id >= $2 AND (cardinality($3::text[]) = 0 OR r.state = ANY ($3)) AND r.created >= $4 AND ($8 = 0::bigint OR r.created < $8)
  AND ($9 = '' OR r.origin = $9) AND ($10 = '' OR r.cause = $10)
  AND ($6 = 0::bigint OR r.workflow = $6) AND r.username = $7
ORDER BY r.id DESC LIMIT $5;

-- name: runsActive
-- The newest runs of each shard, merged. OFFSET 0 makes the database look up the runs by the list, one by
-- one, also if its statistics say that a table is empty. In the other order it would read the list once
-- for each run.
SELECT r.id, r.shard, r.workflow, r.version, r.priority, r.origin, r.username, r.key, r.key_hash, NULL::bytea, r.fire, r.created,
  r.state, r.intent, r.generation, r.cause, r.message, r.graph, r.base, r.final, r.split, r.started, r.finished,
  r.leader, r.leader_at, r.claim, coalesce(octet_length(r.params), 0)::bigint
FROM shard s CROSS JOIN LATERAL (
  SELECT a.* FROM unfinished l CROSS JOIN LATERAL (SELECT * FROM run WHERE run.id = l.run OFFSET 0) a
  WHERE l.shard = s.id AND l.run <= $1 AND l.run >= $2 AND (cardinality($3::text[]) = 0 OR a.state = ANY ($3)) AND a.created >= $4 AND ($8 = 0::bigint OR a.created < $8)
    AND ($9 = '' OR a.origin = $9) AND ($10 = '' OR a.cause = $10)
    AND ($6 = 0::bigint OR a.workflow = $6) AND ($7 = '' OR a.username = $7)
  ORDER BY l.run DESC LIMIT $5) r
ORDER BY r.id DESC LIMIT $5;

-- name: runsUnsuccessful
-- The newest runs of each state, merged.
SELECT r.id, r.shard, r.workflow, r.version, r.priority, r.origin, r.username, r.key, r.key_hash, NULL::bytea, r.fire, r.created,
  r.state, r.intent, r.generation, r.cause, r.message, r.graph, r.base, r.final, r.split, r.started, r.finished,
  r.leader, r.leader_at, r.claim, coalesce(octet_length(r.params), 0)::bigint
FROM unnest($3::text[]) s (state) CROSS JOIN LATERAL (
  SELECT a.* FROM unsuccessful l CROSS JOIN LATERAL (SELECT * FROM run WHERE run.id = l.run OFFSET 0) a
  WHERE l.state = s.state AND l.run <= $1 AND l.run >= $2 AND a.state = s.state AND a.created >= $4 AND ($8 = 0::bigint OR a.created < $8)
    AND ($9 = '' OR a.origin = $9) AND ($10 = '' OR a.cause = $10)
    AND ($6 = 0::bigint OR a.workflow = $6) AND ($7 = '' OR a.username = $7)
  ORDER BY l.run DESC LIMIT $5) r
ORDER BY r.id DESC LIMIT $5;

-- name: runsUnsuccessfulOf
SELECT r.id, r.shard, r.workflow, r.version, r.priority, r.origin, r.username, r.key, r.key_hash, NULL::bytea, r.fire, r.created,
  r.state, r.intent, r.generation, r.cause, r.message, r.graph, r.base, r.final, r.split, r.started, r.finished,
  r.leader, r.leader_at, r.claim, coalesce(octet_length(r.params), 0)::bigint
FROM unnest($3::text[]) s (state) CROSS JOIN LATERAL (
  SELECT a.* FROM unsuccessful l CROSS JOIN LATERAL (SELECT * FROM run WHERE run.id = l.run OFFSET 0) a
  WHERE l.workflow = $6 AND l.state = s.state AND l.run <= $1 AND l.run >= $2 AND a.state = s.state AND a.created >= $4 AND ($8 = 0::bigint OR a.created < $8)
    AND ($9 = '' OR a.origin = $9) AND ($10 = '' OR a.cause = $10)
    AND ($7 = '' OR a.username = $7)
  ORDER BY l.run DESC LIMIT $5) r
ORDER BY r.id DESC LIMIT $5;

-- name: runsOfTag
SELECT r.id, r.shard, r.workflow, r.version, r.priority, r.origin, r.username, r.key, r.key_hash, NULL::bytea, r.fire, r.created,
  r.state, r.intent, r.generation, r.cause, r.message, r.graph, r.base, r.final, r.split, r.started, r.finished,
  r.leader, r.leader_at, r.claim, coalesce(octet_length(r.params), 0)::bigint
FROM (SELECT run FROM run_tag WHERE tag = $11 AND run <= $1 AND run >= $2 ORDER BY run DESC) l
  CROSS JOIN LATERAL (SELECT * FROM run WHERE run.id = l.run OFFSET 0) r
WHERE (cardinality($3::text[]) = 0 OR r.state = ANY ($3)) AND r.created >= $4 AND ($8 = 0::bigint OR r.created < $8)
  AND ($9 = '' OR r.origin = $9) AND ($10 = '' OR r.cause = $10)
  AND ($6 = 0::bigint OR r.workflow = $6) AND ($7 = '' OR r.username = $7)
ORDER BY l.run DESC LIMIT $5;

-- name: floorOfTag
SELECT run FROM run_tag WHERE run <= $1 AND tag = $3 ORDER BY run DESC OFFSET $2 LIMIT 1;

-- name: countOfTag
SELECT count(*) FROM (SELECT FROM run_tag WHERE run <= $1 AND tag = $3 ORDER BY run LIMIT $2) x;

-- name: floorNewest
SELECT id FROM run WHERE id <= $1 ORDER BY id DESC OFFSET $2 LIMIT 1;

-- name: floorOfWorkflow
SELECT id FROM run WHERE id <= $1 AND workflow = $3 ORDER BY id DESC OFFSET $2 LIMIT 1;

-- name: floorOfUser
SELECT id FROM run WHERE id <= $1 AND username = $3 ORDER BY id DESC OFFSET $2 LIMIT 1;

-- name: floorActive
SELECT a.run FROM shard s CROSS JOIN LATERAL (
  SELECT run FROM unfinished WHERE shard = s.id AND run <= $1 ORDER BY run DESC LIMIT $2::bigint + 1) a
ORDER BY a.run DESC OFFSET $2 LIMIT 1;

-- name: floorUnsuccessful
SELECT a.run FROM unnest($3::text[]) s (state) CROSS JOIN LATERAL (
  SELECT run FROM unsuccessful u WHERE u.state = s.state AND u.run <= $1 ORDER BY u.run DESC LIMIT $2::bigint + 1) a
ORDER BY a.run DESC OFFSET $2 LIMIT 1;

-- name: floorUnsuccessfulOf
SELECT a.run FROM unnest($4::text[]) s (state) CROSS JOIN LATERAL (
  SELECT run FROM unsuccessful u WHERE u.workflow = $3 AND u.state = s.state AND u.run <= $1 ORDER BY u.run DESC LIMIT $2::bigint + 1) a
ORDER BY a.run DESC OFFSET $2 LIMIT 1;

-- name: countNewest
SELECT count(*) FROM (SELECT FROM run WHERE id <= $1 ORDER BY id LIMIT $2) x;

-- name: countOfWorkflow
SELECT count(*) FROM (SELECT FROM run WHERE id <= $1 AND workflow = $3 ORDER BY id LIMIT $2) x;

-- name: countOfUser
SELECT count(*) FROM (SELECT FROM run WHERE id <= $1 AND username = $3 ORDER BY id LIMIT $2) x;

-- name: countActive
SELECT count(*) FROM (SELECT FROM shard s JOIN unfinished u ON u.shard = s.id WHERE u.run <= $1 LIMIT $2) x;

-- name: countUnsuccessful
SELECT count(*) FROM (SELECT FROM unnest($3::text[]) s (state) JOIN unsuccessful u ON u.state = s.state WHERE u.run <= $1 LIMIT $2) x;

-- name: countUnsuccessfulOf
SELECT count(*) FROM (SELECT FROM unnest($4::text[]) s (state) JOIN unsuccessful u ON u.workflow = $3 AND u.state = s.state
  WHERE u.run <= $1 LIMIT $2) x;

-- name: paramsOfRuns
SELECT id, params FROM run WHERE id = ANY ($1::uuid[]) AND params IS NOT NULL;

-- name: namesOfWorkflows
SELECT id, namespace || '/' || name FROM workflow WHERE id = ANY ($1::bigint[]);

-- name: namesOfNodes
SELECT id, node FROM handler WHERE id = ANY ($1::bigint[]);

-- name: untuned
-- The large tables whose autovacuum has the server's settings.
SELECT c.relname::text FROM pg_class c
WHERE c.oid IN (to_regclass('run'), to_regclass('attempt'), to_regclass('event'), to_regclass('log'), to_regclass('fire'))
  AND NOT EXISTS (SELECT FROM unnest(c.reloptions) o WHERE o LIKE 'autovacuum%');

-- name: indexState
-- No index is 0, one that is not valid is 1, a valid one is 2.
SELECT count(*) + count(*) FILTER (WHERE indisvalid) FROM pg_index WHERE indexrelid = to_regclass($1::text);

-- name: tryLock
SELECT pg_try_advisory_lock($1);

-- name: statesListed
-- Whether the list of states is complete, and whether its making has not begun.
SELECT listed IS NULL, listed = 'ffffffff-ffff-ffff-ffff-ffffffffffff' FROM meta;

-- name: loadPage
SELECT r.id, r.shard, r.workflow, r.version, r.priority, r.origin, r.username, r.key, r.key_hash, r.params, r.fire, r.created,
  r.state, r.intent, r.generation, r.cause, r.message, r.graph, r.base, r.final, r.split, r.started, r.finished,
  r.leader, r.leader_at, r.claim
FROM (SELECT run FROM unfinished WHERE shard = $1 AND run > $2 ORDER BY run LIMIT $3) a JOIN run r ON r.id = a.run
ORDER BY r.id;

-- name: loadPageAttempts
SELECT a.run, a.task, a.token, a.generation, a.handler, a.assigned, a.state, a.cause, a.message, a.exit_code, a.signal,
  CASE WHEN octet_length(a.outputs) <= 65536 THEN a.outputs END, a.started, a.finished, a.retry_at, a.retry_wait
FROM (SELECT run FROM unfinished WHERE shard = $1 AND run > $2 ORDER BY run LIMIT $3) r JOIN attempt a ON a.run = r.run
ORDER BY a.run, a.task, a.token;

-- name: loadNamed
SELECT r.id, r.shard, r.workflow, r.version, r.priority, r.origin, r.username, r.key, r.key_hash, r.params, r.fire, r.created,
  r.state, r.intent, r.generation, r.cause, r.message, r.graph, r.base, r.final, r.split, r.started, r.finished,
  r.leader, r.leader_at, r.claim
FROM run r WHERE r.id = ANY ($1::uuid[]) ORDER BY r.id;

-- name: loadNamedAttempts
SELECT a.run, a.task, a.token, a.generation, a.handler, a.assigned, a.state, a.cause, a.message, a.exit_code, a.signal,
  CASE WHEN octet_length(a.outputs) <= 65536 THEN a.outputs END, a.started, a.finished, a.retry_at, a.retry_wait
FROM attempt a WHERE a.run = ANY ($1::uuid[]) ORDER BY a.run, a.task, a.token;

-- The packed attempts: of the transactions that inserted runs, of those that first ended them, and of
-- those between.

-- name: loadPageHands
WITH page AS (SELECT run FROM unfinished WHERE shard = $1 AND run > $2 ORDER BY run LIMIT $3)
SELECT r.id, v.packed FROM page JOIN run r ON r.id = page.run CROSS JOIN LATERAL (VALUES (r.hands), (r.ends)) v (packed) WHERE v.packed IS NOT NULL
UNION ALL SELECT e.run, e.hands FROM page JOIN event e ON e.run = page.run WHERE e.hands IS NOT NULL;

-- name: loadNamedHands
SELECT r.id, v.packed FROM run r CROSS JOIN LATERAL (VALUES (r.hands), (r.ends)) v (packed) WHERE r.id = ANY ($1::uuid[]) AND v.packed IS NOT NULL
UNION ALL SELECT run, hands FROM event WHERE run = ANY ($1::uuid[]) AND hands IS NOT NULL;

-- name: packedOfRun
SELECT v.packed FROM run r CROSS JOIN LATERAL (VALUES (r.hands), (r.ends)) v (packed) WHERE r.id = $1 AND v.packed IS NOT NULL;

-- name: packedBetween
-- The packed attempts of transactions whose history has rows of its own, in their order, as one row: of thousands of
-- short rows, the rows cost more than the bytes.
SELECT count(*), max(seq), array_agg(hands) FROM (
  SELECT seq, hands FROM event WHERE run = $1 AND seq > $2::bigint AND hands IS NOT NULL ORDER BY seq LIMIT $3::bigint) page;

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

-- name: wrongStocks
-- The counts of namespaces that differ from their rows, once restock has counted.
SELECT k.namespace, sum(k.was_versions)::bigint, sum(k.versions)::bigint, sum(k.was_triggers)::bigint, sum(k.triggers)::bigint, sum(k.was_bytes)::bigint,
  sum(k.bytes)::bigint FROM (
  SELECT namespace, versions AS was_versions, 0 AS versions, triggers AS was_triggers, 0 AS triggers, bytes AS was_bytes, 0::bigint AS bytes FROM namespace_stock
  UNION ALL SELECT w.namespace, 0, 1, 0, 0, 0, octet_length(v.source) + octet_length(v.def) + octet_length(v.graph)::bigint
    FROM version v JOIN workflow w ON w.id = v.workflow
  UNION ALL SELECT w.namespace, 0, 0, 0, 0, 0, octet_length(f.data) FROM version_file f JOIN workflow w ON w.id = f.workflow
  UNION ALL SELECT w.namespace, 0, 0, 0, 1, 0, 0 FROM trigger t JOIN workflow w ON w.id = t.workflow
  UNION ALL SELECT w.namespace, 0, 0, 0, 0, 0, octet_length(r.params) FROM run r JOIN workflow w ON w.id = r.workflow
    WHERE octet_length(r.params) >= 1024 AND r.state <> 'submitted'
  UNION ALL SELECT w.namespace, 0, 0, 0, 0, 0, run_kept(r.claim) FROM run r JOIN workflow w ON w.id = r.workflow
) k WHERE (SELECT stocked FROM meta) GROUP BY k.namespace
HAVING sum(k.was_versions) <> sum(k.versions) OR sum(k.was_triggers) <> sum(k.triggers) OR sum(k.was_bytes) <> sum(k.bytes);

-- name: scanRuns
SELECT r.id, r.shard, r.workflow, r.version, r.priority, r.origin, r.username, r.key, r.key_hash, r.params, r.fire, r.created,
  r.state, r.intent, r.generation, r.cause, r.message, r.graph, r.base, r.final, r.split, r.started, r.finished,
  r.leader, r.leader_at, r.claim
FROM run r WHERE r.id > $1 ORDER BY r.id LIMIT $2;

-- name: scanAttempts
SELECT a.run, a.task, a.token, a.generation, a.handler, a.assigned, a.state, a.cause, a.message, a.exit_code, a.signal,
  CASE WHEN octet_length(a.outputs) <= $3::int THEN a.outputs END, a.started, a.finished, a.retry_at, a.retry_wait
FROM (SELECT id FROM run WHERE id > $1 ORDER BY id LIMIT $2) r JOIN attempt a ON a.run = r.id
ORDER BY a.run, a.task, a.token;

-- name: scanHands
WITH page AS (SELECT id, hands, ends FROM run WHERE id > $1 ORDER BY id LIMIT $2)
SELECT id, v.packed FROM page CROSS JOIN LATERAL (VALUES (hands), (ends)) v (packed) WHERE v.packed IS NOT NULL
UNION ALL SELECT e.run, e.hands FROM page JOIN event e ON e.run = page.id WHERE e.hands IS NOT NULL;

-- name: scanEvents
WITH page AS (SELECT * FROM run WHERE id > $1 ORDER BY id LIMIT $2)
SELECT e.run, e.seq, e.at, e.records FROM page JOIN event e ON e.run = page.id
UNION ALL SELECT id, first_seq, first_at, events_first FROM page WHERE events_first IS NOT NULL
UNION ALL SELECT id, last_seq, last_at, events_last FROM page WHERE events_last IS NOT NULL
ORDER BY 1, 2;

-- name: handlersById
SELECT id, uuid::text, node, started FROM handler WHERE id = ANY ($1::bigint[]) ORDER BY id;

-- name: workflowById
SELECT id, shard, namespace, name, state, version, latest, max_runs, revision, created, modified, tags FROM workflow WHERE id = $1;

-- name: workflowByName
SELECT id, shard, namespace, name, state, version, latest, max_runs, revision, created, modified, tags FROM workflow
WHERE namespace = $1 AND name = $2 AND state <> 'deleted';

-- name: workflowsOf
SELECT id, shard, namespace, name, state, version, latest, max_runs, revision, created, modified, tags FROM workflow
WHERE state <> 'deleted' AND ($1 = '' OR namespace = $1) AND ($5 = '' OR namespace <> $5) AND (namespace, name) > ($2, $3)
  AND string_to_array(tags, E'\n') @> $6::text[]
ORDER BY namespace, name LIMIT $4;

-- name: versionOf
SELECT workflow, version, digest, username, created, source, def, graph FROM version WHERE workflow = $1 AND version = $2;

-- name: versionsOf
SELECT workflow, version, digest, username, created FROM version WHERE workflow = $1 AND version < $2
ORDER BY version DESC LIMIT $3;

-- name: fileHeadsOf
SELECT name, mode, octet_length(data)::bigint FROM version_file WHERE workflow = $1 AND version = $2 ORDER BY name;

-- name: filesOf
SELECT name, mode, data FROM version_file WHERE workflow = $1 AND version = $2 ORDER BY name;

-- name: requestByKey
SELECT scope, key, hash, answer, created FROM request WHERE scope = $1 AND key = $2;

-- name: messagesTo
SELECT id, sender, target, payload, created FROM message WHERE target = $1 ORDER BY id LIMIT $2;

-- name: activeStates
SELECT r.state, count(*) FROM unfinished a JOIN run r ON r.id = a.run GROUP BY r.state;

-- name: size
SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class
WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r';

-- name: sizes
SELECT relname::text, pg_total_relation_size(oid)::bigint FROM pg_class
WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r';

-- The following statements read triggers, their ledger and backfills.

-- name: wall
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

-- name: triggerByName
SELECT t.workflow, t.name, t.shard, t.version, t.kind, t.state, t.actor, t.reason, t.next, t.decided, t.since, t.fired, t.max_runs,
  t.revision, t.created, t.modified, t.hears, t.data, t.spec
FROM trigger t WHERE t.workflow = $1 AND t.name = $2;

-- name: triggersAfter
SELECT t.workflow, t.name, t.shard, t.version, t.kind, t.state, t.actor, t.reason, t.next, t.decided, t.since, t.fired, t.max_runs,
  t.revision, t.created, t.modified, t.hears, t.data, t.spec
FROM trigger t WHERE (t.workflow, t.name) > ($1, $2) AND ($3 = '' OR t.state = $3) ORDER BY t.workflow, t.name LIMIT $4;

-- name: triggersOf
SELECT t.workflow, t.name, t.shard, t.version, t.kind, t.state, t.actor, t.reason, t.next, t.decided, t.since, t.fired, t.max_runs,
  t.revision, t.created, t.modified, t.hears, t.data, t.spec
FROM trigger t WHERE t.workflow = $5 AND (t.workflow, t.name) > ($1, $2) AND ($3 = '' OR t.state = $3) ORDER BY t.name LIMIT $4;

-- name: triggersDue
-- The earliest triggers of each shard, merged.
SELECT t.workflow, t.name, t.shard, t.version, t.kind, t.state, t.actor, t.reason, t.next, t.decided, t.since, t.fired, t.max_runs,
  t.revision, t.created, t.modified, t.hears, t.data, t.spec
FROM unnest($1::int[]) s (id) CROSS JOIN LATERAL (
  SELECT * FROM trigger d WHERE d.shard = s.id AND d.next > 0 AND d.next <= $2 ORDER BY d.next LIMIT $3) t
ORDER BY t.next, t.workflow, t.name LIMIT $3;

-- name: nextDue
SELECT t.next FROM unnest($1::int[]) s (id) CROSS JOIN LATERAL (
  SELECT next FROM trigger d WHERE d.shard = s.id AND d.next > 0 ORDER BY d.next LIMIT 1) t
ORDER BY t.next LIMIT 1;

-- name: listening
SELECT workflow, name FROM trigger_on WHERE target = $1 ORDER BY workflow, name LIMIT $2;

-- name: sensorsAfter
SELECT t.workflow, t.name, t.shard, t.version, t.kind, t.state, t.actor, t.reason, t.next, t.decided, t.since, t.fired, t.max_runs,
  t.revision, t.created, t.modified, t.hears, t.data, t.spec
FROM trigger t WHERE t.state = 'active' AND t.kind NOT IN ('cron', 'every', 'at', 'daily', 'weekly', 'monthly', 'annually')
  AND (t.workflow, t.name) > ($1, $2) AND t.shard = ANY ($3::int[]) AND t.kind = ANY ($4::text[])
ORDER BY t.workflow, t.name LIMIT $5;

-- name: activeAfter
SELECT t.workflow, t.name, t.shard, t.version, t.kind, t.state, t.actor, t.reason, t.next, t.decided, t.since, t.fired, t.max_runs,
  t.revision, t.created, t.modified, t.hears, t.data, t.spec
FROM trigger t WHERE t.state = 'active' AND (t.workflow, t.name) > ($1, $2) AND t.shard = ANY ($3::int[])
  AND t.kind = ANY ($4::text[])
ORDER BY t.workflow, t.name LIMIT $5;

-- name: newestFire
SELECT f.workflow, f.trigger, f.at, f.key, f.last, f.count, f.outcome, f.reason, f.run, f.decided FROM fire f
WHERE f.workflow = $1 AND f.trigger = $2 ORDER BY f.at DESC, f.key DESC LIMIT 1;

-- name: fireOfEvent
SELECT f.workflow, f.trigger, f.at, f.key, f.last, f.count, f.outcome, f.reason, f.run, f.decided FROM fire f
WHERE f.workflow = $1 AND f.trigger = $2 AND f.key = $3 AND f.key <> '' ORDER BY f.at DESC LIMIT 1;

-- name: fireBefore
-- Lines of a schedule do not overlap, so only the nearest line can cover an instant.
SELECT f.workflow, f.trigger, f.at, f.key, f.last, f.count, f.outcome, f.reason, f.run, f.decided FROM fire f
WHERE f.workflow = $1 AND f.trigger = $2 AND f.at <= $3 AND f.key = '' ORDER BY f.at DESC LIMIT 1;

-- name: firesDown
SELECT f.workflow, f.trigger, f.at, f.key, f.last, f.count, f.outcome, f.reason, f.run, f.decided FROM fire f
WHERE (f.decided, f.workflow, f.trigger, f.at, f.key) < ($1, $2, $3, $4, $5)
  AND ($6 = '' OR f.outcome = $6) AND f.last >= $7 AND f.at <= $8
ORDER BY f.decided DESC, f.workflow DESC, f.trigger DESC, f.at DESC, f.key DESC LIMIT $9;

-- name: exceptionsDown
SELECT f.workflow, f.trigger, f.at, f.key, f.last, f.count, f.outcome, f.reason, f.run, f.decided FROM fire f
WHERE (f.decided, f.workflow, f.trigger, f.at, f.key) < ($1, $2, $3, $4, $5) AND (f.run IS NULL OR f.outcome <> 'fired')
  AND CASE $6 WHEN 'unfired' THEN f.run IS NULL ELSE f.outcome = $6 END AND f.last >= $7 AND f.at <= $8
ORDER BY f.decided DESC, f.workflow DESC, f.trigger DESC, f.at DESC, f.key DESC LIMIT $9;

-- name: firesOfWorkflow
SELECT f.workflow, f.trigger, f.at, f.key, f.last, f.count, f.outcome, f.reason, f.run, f.decided FROM fire f
WHERE f.workflow = $2 AND (f.decided, f.trigger, f.at, f.key) < ($1, $3, $4, $5) AND ($10 = '' OR f.trigger = $10)
  AND CASE $6 WHEN '' THEN true WHEN 'unfired' THEN f.run IS NULL ELSE f.outcome = $6 END AND f.last >= $7 AND f.at <= $8
ORDER BY f.decided DESC, f.trigger DESC, f.at DESC, f.key DESC LIMIT $9;

-- name: backfillById
SELECT id, workflow, shard, trigger, state, total, started, ended, failed, parallel, username, revision, created, modified,
  spec, instants FROM backfill WHERE id = $1;

-- name: backfillsDown
SELECT id, workflow, shard, trigger, state, total, started, ended, failed, parallel, username, revision, created, modified,
  spec, instants FROM backfill
WHERE id < $1 AND ($2 = 0::bigint OR workflow = $2) AND ($3 = '' OR state = $3) ORDER BY id DESC LIMIT $4;

-- name: runsOfBackfill
SELECT backfill, workflow, instant, run FROM backfill_run WHERE backfill = $1 AND instant > $2 ORDER BY instant LIMIT $3;

-- name: backfillRunsAt
SELECT run FROM backfill_run WHERE workflow = $1 AND instant = $2 ORDER BY backfill;

-- The following statements compare lists with the rows that they list.

-- name: strayActive
SELECT a.run FROM active a LEFT JOIN run r ON r.id = a.run AND r.shard = a.shard
WHERE r.id IS NULL OR r.finished <> 0 LIMIT $1;

-- name: missingActive
SELECT r.id FROM run r WHERE r.finished = 0 AND NOT EXISTS (SELECT FROM unfinished a WHERE a.shard = r.shard AND a.run = r.id) LIMIT $1;

-- name: strayUnsuccessful
-- Programs of older formats delete no rows of this list. Until the list is made, its rows mean nothing.
SELECT u.run FROM unsuccessful u LEFT JOIN run r ON r.id = u.run AND r.state = u.state AND r.workflow = u.workflow
WHERE r.id IS NULL AND (SELECT listed FROM meta) IS DISTINCT FROM 'ffffffff-ffff-ffff-ffff-ffffffffffff' LIMIT $1;

-- name: missingUnsuccessful
SELECT r.id FROM run r WHERE r.state IN ('failed', 'stopped', 'skipped') AND r.id >= coalesce((SELECT listed FROM meta), r.id)
  AND NOT EXISTS (SELECT FROM unsuccessful u WHERE u.state = r.state AND u.run = r.id) LIMIT $1;

-- name: strayTags
SELECT t.run FROM run_tag t LEFT JOIN run r ON r.id = t.run WHERE r.id IS NULL OR NOT EXISTS (SELECT FROM run_tags(r.fire) x WHERE x = t.tag) LIMIT $1;

-- name: missingTags
SELECT r.id FROM run r CROSS JOIN LATERAL run_tags(r.fire) x WHERE NOT EXISTS (SELECT FROM run_tag t WHERE t.tag = x AND t.run = r.id) LIMIT $1;

-- name: standingRuns
SELECT r.id, r.shard, r.workflow, r.state, r.intent, r.created, r.split, r.started,
  CASE r.origin WHEN 'parent' THEN r.fire END, r.claim
FROM (SELECT run FROM unfinished WHERE shard = $1 AND run > $2 ORDER BY run LIMIT $3) a JOIN run r ON r.id = a.run
ORDER BY r.id;

-- name: standingAttempts
SELECT a.run, a.task, a.token, a.handler, a.state, a.assigned, a.started, a.finished, a.retry_at
FROM (SELECT run FROM unfinished WHERE shard = $1 AND run > $2 ORDER BY run LIMIT $3) r JOIN attempt a ON a.run = r.run
ORDER BY a.run, a.task, a.token;

-- name: facts
SELECT current_setting('server_version'), current_setting('synchronous_commit'), current_setting('fsync') = 'on',
  pg_is_in_recovery(), current_setting('autovacuum') = 'on',
  current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int,
  (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
  (SELECT count(*) FROM pg_stat_replication), (SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')),
  coalesce((SELECT (extract(epoch FROM clock_timestamp() - min(xact_start)) * 1000000)::bigint
    FROM pg_stat_activity WHERE xact_start IS NOT NULL AND backend_type = 'client backend' AND pid <> pg_backend_pid()), 0),
  (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

-- name: marks
SELECT id, epoch, seq FROM shard ORDER BY id;

-- name: endOfEra
-- The shard with the number i is the element i + 1.
SELECT x.i - 1, x.epoch, x.seq FROM (
  SELECT epochs, seqs FROM era WHERE era > $1::bigint AND cardinality(epochs) > 0 ORDER BY era LIMIT 1
) e CROSS JOIN LATERAL unnest(e.epochs, e.seqs) WITH ORDINALITY x (epoch, seq, i) ORDER BY x.i;

-- name: line
-- The timeline is the first eight digits of the name of a file of the log.
SELECT pg_is_in_recovery(), (SELECT system_identifier::text FROM pg_control_system()), CASE WHEN pg_is_in_recovery() THEN 0
  ELSE ('x' || lpad(left(pg_walfile_name(pg_current_wal_lsn()), 8), 16, '0'))::bit(64)::bigint END;

-- name: lineOfLog
SELECT pg_is_in_recovery(), '', CASE WHEN pg_is_in_recovery() THEN 0
  ELSE ('x' || lpad(left(pg_walfile_name(pg_current_wal_lsn()), 8), 16, '0'))::bit(64)::bigint END;

-- name: lineUnknown
SELECT pg_is_in_recovery(), '', 0::bigint;

-- name: begun
-- A field that this user cannot read is not compared: the nodes may have users with different rights. So an
-- identifier that the beginner of the era could not read is compared only if the timelines are equal.
SELECT coalesce(($1::text IN ('', e.system) OR e.system = '' AND $2::bigint <> 0) AND $2::bigint IN (0, e.timeline)
  AND e.made = made_of('shard'), false),
  coalesce(e.system, ''), coalesce(e.timeline, 0), (SELECT max(epoch) FROM shard)
FROM (SELECT max(era) AS era FROM era) newest LEFT JOIN era e ON e.era = newest.era;

-- name: lineage
-- The timeline is the first eight digits of the name of a file of the log.
SELECT (SELECT system_identifier::text FROM pg_control_system()),
  ('x' || lpad(left(pg_walfile_name(pg_current_wal_lsn()), 8), 16, '0'))::bit(64)::bigint,
  (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint, coalesce((pg_last_wal_replay_lsn() - '0/0'::pg_lsn)::bigint, 0);
