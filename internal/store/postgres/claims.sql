-- The statements for what runs of all shards share. Those with names of verbs write.

-- name: queueByName
SELECT name, max_runs, per_key, ordering, overflow, rate, each, state, actor, reason, until, paced, revision, created, modified
FROM queue WHERE name = $1;

-- name: queuesOf
SELECT name, max_runs, per_key, ordering, overflow, rate, each, state, actor, reason, until, paced, revision, created, modified
FROM queue WHERE name > $1 ORDER BY name LIMIT $2;

-- name: holding
-- Of a page of the unfinished runs, it selects those that have a claim and are in no line. Only few runs
-- have a claim. The planner must not search for these in the whole history, so the condition is hidden
-- from it in a function.
SELECT r.id, r.shard, r.workflow, r.priority, r.created, r.claim
FROM shard s CROSS JOIN LATERAL (
  SELECT a.* FROM unfinished l JOIN run a ON a.id = l.run WHERE l.shard = s.id AND l.run > $1 AND octet_length(a.claim) > CASE WHEN run_kept(a.claim) <> 0 THEN 9 ELSE 0 END
    AND NOT EXISTS (SELECT FROM line w WHERE w.run = l.run)
  ORDER BY l.run LIMIT $2) r
ORDER BY r.id LIMIT $2;

-- name: holders
-- Of all unfinished runs that are in no line, it selects those whose claim names something.
SELECT a.id, a.shard, a.workflow, a.priority, a.created, a.claim
FROM unfinished l JOIN run a ON a.id = l.run WHERE position($1::bytea IN a.claim) > 0 AND NOT EXISTS (SELECT FROM line w WHERE w.run = l.run);

-- name: lines
SELECT line, level, count(*) FROM line GROUP BY line, level ORDER BY line, level;

-- name: countSpans
SELECT (SELECT count(*) FROM (SELECT FROM line l WHERE l.line = x.line AND (l.level, l.asked, l.run) >= (x.level, x.asked, x.run)
  AND (l.level, l.asked, l.run) < (x.ends, x.until, x.before) LIMIT $8) n)
FROM unnest($1::text[], $2::int[], $3::bigint[], $4::uuid[], $5::int[], $6::bigint[], $7::uuid[]) WITH ORDINALITY
  AS x (line, level, asked, run, ends, until, before, i)
ORDER BY x.i;

-- name: inLine
SELECT r.id, r.shard, r.workflow, r.priority, r.created, r.claim
FROM (SELECT run, asked FROM line WHERE line = $1 AND level = $2::bigint::int AND asked >= $3 ORDER BY asked, run LIMIT $4) l JOIN run r ON r.id = l.run
ORDER BY l.asked, r.id;

-- name: loadMoving
SELECT r.id, r.shard, r.workflow, r.version, r.priority, r.origin, r.username, r.key, r.key_hash, r.params, r.fire, r.created,
  r.state, r.intent, r.generation, r.cause, r.message, r.graph, r.base, r.final, r.split, r.started, r.finished,
  r.leader, r.leader_at, r.claim
FROM (SELECT run FROM unfinished a WHERE shard = $1 AND run > $2 AND NOT EXISTS (SELECT FROM line w WHERE w.run = a.run AND w.kept = 0)
  ORDER BY run LIMIT $3) a JOIN run r ON r.id = a.run
ORDER BY r.id;

-- name: loadMovingAttempts
SELECT a.run, a.task, a.token, a.generation, a.handler, a.assigned, a.state, a.cause, a.message, a.exit_code, a.signal,
  CASE WHEN octet_length(a.outputs) <= 65536 THEN a.outputs END, a.started, a.finished, a.retry_at, a.retry_wait
FROM (SELECT run FROM unfinished a WHERE shard = $1 AND run > $2 AND NOT EXISTS (SELECT FROM line w WHERE w.run = a.run AND w.kept = 0)
  ORDER BY run LIMIT $3) r JOIN attempt a ON a.run = r.run
ORDER BY a.run, a.task, a.token;

-- name: loadMovingHands
WITH page AS (SELECT run FROM unfinished a WHERE shard = $1 AND run > $2 AND NOT EXISTS (SELECT FROM line w WHERE w.run = a.run AND w.kept = 0)
  ORDER BY run LIMIT $3)
SELECT r.id, v.packed FROM page JOIN run r ON r.id = page.run CROSS JOIN LATERAL (VALUES (r.hands), (r.ends)) v (packed) WHERE v.packed IS NOT NULL
UNION ALL SELECT e.run, e.hands FROM page JOIN event e ON e.run = page.run WHERE e.hands IS NOT NULL;

-- name: putInLine
INSERT INTO line (run, line, level, asked, kept)
SELECT x.run, coalesce(x.line, $3), coalesce(x.level, $5), coalesce(x.asked, $7), coalesce(x.kept, $9)
FROM unnest($1::uuid[], $2::text[], $4::int[], $6::bigint[], $8::int[]) x (run, line, level, asked, kept);

-- name: leaveLine
WITH gone AS (
  DELETE FROM line l USING unnest($1::uuid[]) x (run) WHERE l.run = x.run RETURNING 1
)
SELECT must(count(*) = cardinality($1), 'a line is not as its owner believes') FROM gone;

-- name: insertQueue
INSERT INTO queue (name, max_runs, per_key, ordering, overflow, rate, each, state, actor, reason, until, paced, revision, created, modified)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15);

-- name: updateQueue
WITH changed AS (
  UPDATE queue SET max_runs = $2, per_key = $3, ordering = $4, overflow = $5, rate = $6, each = $7, state = $8, actor = $9,
    reason = $10, until = $11, revision = $12, modified = $13
  WHERE name = $1 AND revision + 1 = $12 RETURNING 1
)
SELECT must(count(*) = 1, 'a queue is not as its owner believes') FROM changed;

-- name: deleteQueue
WITH gone AS (DELETE FROM queue WHERE name = $1 AND revision = $2 RETURNING 1)
SELECT must(count(*) = 1, 'a queue is not as its owner believes') FROM gone;

-- name: paceQueue
WITH changed AS (UPDATE queue SET paced = $2 WHERE name = $1 RETURNING 1)
SELECT must(count(*) = 1, 'a queue is not there') FROM changed;

-- name: strayLine
SELECT l.run FROM line l LEFT JOIN run r ON r.id = l.run WHERE r.id IS NULL OR r.finished <> 0 OR r.claim IS NULL LIMIT $1;
