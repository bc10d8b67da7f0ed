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

-- What follows forgets runs.

-- name: holds
SELECT must(count(*) = 1, 'the shard is another''s') FROM shard WHERE id = $1 AND owner = $2;

-- name: expire
-- Ids rise with time, so the oldest runs are looked at first, and no more of them than $6. What is
-- finished is changed by nobody, and one that begins again is locked by its writer.
WITH floor AS (
  SELECT id FROM run WHERE workflow = $1 AND finished > 0 ORDER BY id DESC OFFSET $2 LIMIT 1
), keyed AS (
  SELECT id FROM run WHERE workflow = $1 AND finished > 0 ORDER BY id DESC OFFSET $8 LIMIT 1
), oldest AS (
  SELECT id, finished, key, origin FROM run WHERE workflow = $1 AND finished > 0 ORDER BY id LIMIT $6
), old AS MATERIALIZED (
  SELECT o.id FROM oldest o
  WHERE (o.finished < $3 OR o.id <= (SELECT id FROM floor))
    AND (o.key IS NULL OR o.finished < CASE WHEN o.key LIKE 'once:%' THEN $7::bigint ELSE $4 END OR o.id <= (SELECT id FROM keyed))
    AND (o.origin <> 'backfill' OR NOT EXISTS (SELECT FROM backfill b WHERE b.workflow = $1 AND b.state IN ('running', 'paused')))
  ORDER BY o.id LIMIT $5
), gone AS (
  DELETE FROM run WHERE id = ANY (ARRAY(SELECT id FROM old)) AND finished > 0 RETURNING id, state
), s AS (
  DELETE FROM unsuccessful u USING gone g WHERE u.state = g.state AND u.run = g.id
), a AS (
  DELETE FROM attempt WHERE run = ANY (ARRAY(SELECT id FROM gone))
), e AS (
  DELETE FROM event WHERE run = ANY (ARRAY(SELECT id FROM gone))
), l AS (
  DELETE FROM log WHERE run = ANY (ARRAY(SELECT id FROM gone))
)
SELECT id FROM gone ORDER BY id;

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
