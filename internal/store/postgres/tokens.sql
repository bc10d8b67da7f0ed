-- The statements of tokens.

-- name: insertToken
INSERT INTO token (kind, name, hash, created, expires, revoked, actor, principal, verbs, namespaces, maker)
SELECT $1, $2, $3, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, $4, 0, $5, $7, $8, $9, $10
WHERE (SELECT count(*) FROM token) < $6::bigint
RETURNING id, kind, name, hash, created, expires, revoked, actor, principal, verbs, namespaces, maker;

-- name: revokeToken
UPDATE token SET revoked = CASE revoked WHEN 0 THEN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint ELSE revoked END
WHERE id = $1 RETURNING id, kind, name, hash, created, expires, revoked, actor, principal, verbs, namespaces, maker;

-- name: tokenByHash
SELECT id, kind, name, hash, created, expires, revoked, actor, principal, verbs, namespaces, maker FROM token WHERE hash = $1;

-- name: tokens
SELECT id, kind, name, hash, created, expires, revoked, actor, principal, verbs, namespaces, maker FROM token ORDER BY id;
