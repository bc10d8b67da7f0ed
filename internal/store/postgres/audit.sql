-- The statements of the audit log.

-- name: insertAudit
INSERT INTO audit (idx, key, at, last, count, principal, kind, token, session, address, verb, action, object, namespace, outcome, request, detail)
SELECT -1, $1::uuid, CASE $2::bigint WHEN 0 THEN clock.now ELSE $2 END, CASE $2::bigint WHEN 0 THEN clock.now ELSE $3 END, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16
FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now) AS clock
ON CONFLICT (key) DO NOTHING;

-- name: auditFresh
SELECT id, key, idx, hash, at, last, count, principal, kind, token, session, address, verb, action, object, namespace, outcome, request, detail FROM audit WHERE idx < 0 ORDER BY id LIMIT $1::bigint;

-- name: auditTree
SELECT size, first, head, edge, era, base FROM audit_tree WHERE one = 1;

-- name: auditLeaves
SELECT id, key, idx, hash, at, last, count, principal, kind, token, session, address, verb, action, object, namespace, outcome, request, detail FROM audit WHERE idx >= 0 AND idx >= $1 ORDER BY idx LIMIT $2::bigint;

-- name: auditRows
SELECT id, key, idx, hash, at, last, count, principal, kind, token, session, address, verb, action, object, namespace, outcome, request, detail FROM audit
WHERE (at, id) < ($1::bigint, $2::bigint) AND at >= $3 AND ($4::text = '' OR principal = $4) AND ($5::text = '' OR verb = $5)
  AND ($6::text = '*' OR strpos($6, '<' || namespace || '>') > 0)
ORDER BY at DESC, id DESC LIMIT $7::bigint;

-- name: indexAudit
WITH changed AS (
  UPDATE audit SET idx = leaf.idx, hash = leaf.hash FROM unnest($1::bigint[], $2::bigint[], $3::bytea[]) AS leaf (id, idx, hash)
  WHERE audit.id = leaf.id AND audit.idx < 0 RETURNING 1)
SELECT must(count(*) = cardinality($1), 'an audit row has an index already, or is gone') FROM changed;

-- name: moveAuditTree
WITH changed AS (
  INSERT INTO audit_tree AS t (one, size, first, head, edge, era, base)
  SELECT 1, $3, $4, $5, $6, $7, $8
  WHERE $1::bigint = coalesce((SELECT size FROM audit_tree WHERE one = 1), 0) AND $2::bigint = coalesce((SELECT first FROM audit_tree WHERE one = 1), 0)
  ON CONFLICT (one) DO UPDATE SET size = excluded.size, first = excluded.first, head = excluded.head, edge = excluded.edge,
    era = excluded.era, base = excluded.base WHERE t.size = $1 AND t.first = $2 RETURNING 1)
SELECT must(count(*) = 1, 'the tree of the audit log has changed meanwhile') FROM changed;

-- name: dropAudit
DELETE FROM audit WHERE idx >= 0 AND idx < $1;
