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
