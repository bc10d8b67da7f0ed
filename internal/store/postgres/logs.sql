-- The statements of logs. They have a connection of their own.

-- name: appendLogs
SELECT a.known, a.first, a.ending
FROM unnest($1::uuid[], $2::int[], $3::int[], $4::bigint[], $5::int[], $6::bytea[], $7::int[])
  WITH ORDINALITY x (run, task, token, at, size, data, cut, n)
  CROSS JOIN LATERAL append_log(x.run, x.task, x.token, x.at, x.size, x.data, x.cut, $8, $9) a ORDER BY x.n;

-- name: logSpan
SELECT f.at, e.at + e.size
FROM (SELECT at FROM log WHERE run = $1 AND task = $2 AND token = $3 ORDER BY at LIMIT 1) f,
  (SELECT at, size FROM log WHERE run = $1 AND task = $2 AND token = $3 ORDER BY at DESC LIMIT 1) e;

-- name: logBlock
-- The block at or before the byte, and the one after it, of which the first that reaches beyond it is meant.
SELECT at, size, data FROM (
  (SELECT at, size, data FROM log WHERE run = $1 AND task = $2 AND token = $3 AND at <= $4 ORDER BY at DESC LIMIT 1)
  UNION ALL
  (SELECT at, size, data FROM log WHERE run = $1 AND task = $2 AND token = $3 AND at > $4 ORDER BY at LIMIT 1)) b
WHERE at + size > $4 ORDER BY at LIMIT 1;

-- name: deleteLogs
DELETE FROM log WHERE run = ANY ($1::uuid[]);

-- The following statements delete old runs.

-- name: holds
SELECT must(count(*) = 1, 'the shard is another''s') FROM shard WHERE id = $1 AND owner = $2;

-- name: finishedBut
SELECT id FROM run WHERE workflow = $1 AND finished > 0 ORDER BY id DESC OFFSET $2::bigint LIMIT 1;

-- name: expire
-- Ids rise with time, so the oldest runs come first. A finished run does not change. The writer of a run that begins again
-- holds the lock of its row.
WITH oldest AS MATERIALIZED (
  SELECT id, finished, key, origin, generation, coalesce(last_seq, first_seq) AS seq FROM run
  WHERE workflow = $1 AND id > $9::uuid AND finished > 0 ORDER BY id LIMIT $6
), old AS MATERIALIZED (
  SELECT o.id FROM oldest o
  WHERE (o.finished < $3 OR o.id <= $2::uuid)
    AND (NOT $10::boolean OR o.seq <= $11 AND (o.generation = 1 OR NOT EXISTS (SELECT FROM event e WHERE e.run = o.id AND e.seq > $11)))
    AND (o.key IS NULL OR o.finished < CASE WHEN o.key LIKE 'once:%' THEN $7::bigint ELSE $4 END OR o.id <= $8::uuid)
    AND (o.origin <> 'backfill' OR NOT EXISTS (SELECT FROM backfill b WHERE b.workflow = $1 AND b.state IN ('running', 'paused')))
  ORDER BY o.id LIMIT $5
), gone AS (
  DELETE FROM run WHERE id = ANY (ARRAY(SELECT id FROM old)) AND finished > 0
  RETURNING id, state, finished, generation, run_kept(claim) + CASE WHEN octet_length(params) >= 1024 THEN octet_length(params) ELSE 0 END AS size, fire
), k AS (
  INSERT INTO namespace_stock AS s (namespace, shard, part, versions, triggers, bytes)
  SELECT w.namespace, w.shard, 1, 0, 0, -sum(g.size) FROM gone g JOIN workflow w ON w.id = $1 WHERE g.size <> 0 GROUP BY w.namespace, w.shard
  ON CONFLICT (namespace, shard, part) DO UPDATE SET bytes = s.bytes + excluded.bytes
), t AS (
  INSERT INTO tally AS t (workflow, span, at, task, n, data)
  SELECT $1, 2, g.finished / 86400000000, x.task, count(*), ''::bytea FROM gone g CROSS JOIN LATERAL (SELECT g.state AS task
    UNION ALL SELECT 'again' WHERE g.generation > 1) x WHERE $10 GROUP BY 3, 4
  ON CONFLICT (workflow, span, task, at) DO UPDATE SET n = t.n + excluded.n
), s AS (
  DELETE FROM unsuccessful u USING gone g WHERE u.state = g.state AND u.run = g.id
), g AS (
  DELETE FROM run_tag u USING gone r CROSS JOIN LATERAL run_tags(r.fire) t WHERE u.tag = t AND u.run = r.id
), a AS (
  DELETE FROM attempt WHERE run = ANY (ARRAY(SELECT id FROM gone))
), e AS (
  DELETE FROM event WHERE run = ANY (ARRAY(SELECT id FROM gone))
), l AS (
  DELETE FROM log WHERE run = ANY (ARRAY(SELECT id FROM gone))
), next AS (
  SELECT CASE WHEN (SELECT count(*) FROM old) = $5 THEN (SELECT id FROM old ORDER BY id DESC LIMIT 1)
    WHEN (SELECT count(*) FROM oldest) = $6 THEN (SELECT id FROM oldest ORDER BY id DESC LIMIT 1) END AS id
)
SELECT id, false, false FROM gone
UNION ALL SELECT id, true, EXISTS (SELECT FROM oldest WHERE finished < $3) FROM next WHERE id IS NOT NULL
ORDER BY 2, 1;

-- name: expireVersions
-- Runs are looked at only if there is a version that could go.
WITH run_versions AS (
  SELECT version FROM run WHERE workflow = $1 AND EXISTS (SELECT FROM workflow w JOIN version v ON v.workflow = w.id
    WHERE w.id = $1 AND v.version < least(w.version, w.latest - $5::int + 1)) LIMIT $4::bigint + 1
), looked AS (
  SELECT count(*) AS n, coalesce(min(version), 2147483647) AS least FROM run_versions
), gone AS (
  SELECT v.version FROM version v JOIN workflow w ON w.id = v.workflow CROSS JOIN looked l
  WHERE v.workflow = $1 AND l.n <= $4::bigint AND v.version < least(l.least, w.version, w.latest - $5::int + 1)
    AND EXISTS (SELECT FROM version s WHERE s.workflow = $1 AND s.version > v.version AND s.created < $2)
  ORDER BY v.version LIMIT $3
), files AS (
  DELETE FROM version_file f USING gone g WHERE f.workflow = $1 AND f.version = g.version
)
DELETE FROM version v USING gone g WHERE v.workflow = $1 AND v.version = g.version RETURNING v.version::bigint;
