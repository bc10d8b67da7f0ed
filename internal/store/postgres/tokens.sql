-- The statements of tokens.

-- name: insertToken
INSERT INTO token (kind, name, hash, created, expires, revoked, actor, principal, verbs, namespaces, maker, parent, worker_groups, worker_slots, uses)
SELECT $1, $2, $3, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, $4, 0, $5, $7, $8, $9, $10, $11, $12, $13, $14
WHERE (SELECT count(*) FROM token) < $6::bigint
RETURNING id, kind, name, hash, created, expires, revoked, actor, principal, verbs, namespaces, maker, parent, replaces, replaced, worker_groups, worker_slots, uses, used, invite;

-- name: withinTokens
SELECT within_tokens($1);

-- name: revokeToken
UPDATE token SET revoked = CASE revoked WHEN 0 THEN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint ELSE revoked END
WHERE id = ANY ($1::bigint[]) AND (SELECT count(*) FROM token WHERE id = ANY ($1::bigint[])) = cardinality($1::bigint[])
RETURNING id, kind, name, hash, created, expires, revoked, actor, principal, verbs, namespaces, maker, parent, replaces, replaced, worker_groups, worker_slots, uses, used, invite;

-- name: lockTokens
-- Rotations come one after the other: the next statement then sees whether a token above the successor was replaced. The order
-- prevents a deadlock.
SELECT id FROM token ORDER BY id FOR UPDATE;

-- name: rotateToken
-- The old token gives its name up before the new one takes it: rows of old are changed before they are read.
WITH RECURSIVE clock AS MATERIALIZED (
  SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now
), line AS (
  SELECT id, parent, revoked, replaced, expires, 0 AS depth FROM token WHERE id = $7
  UNION ALL SELECT p.id, p.parent, p.revoked, p.replaced, p.expires, l.depth + 1 FROM token p JOIN line l ON p.id = l.parent WHERE l.depth < $9
), old AS (
  UPDATE token t SET replaced = c.now, expires = CASE t.expires WHEN 0 THEN c.now + $2 ELSE least(t.expires, c.now + $2) END
  FROM clock c WHERE t.id = $1 AND t.revoked = 0 AND t.replaced = 0 AND (t.expires = 0 OR t.expires > c.now)
    AND (SELECT count(*) FROM token) < $8::bigint
    AND ($7::bigint = 0 OR EXISTS (SELECT FROM line WHERE parent = 0))
    AND NOT EXISTS (SELECT FROM line WHERE revoked <> 0 OR replaced <> 0 OR expires <> 0 AND expires <= c.now)
  RETURNING t.id, t.kind, t.name, t.principal, t.verbs, t.namespaces, c.now
)
INSERT INTO token (kind, name, hash, created, expires, revoked, actor, principal, verbs, namespaces, maker, parent, replaces)
SELECT kind, name, $3, now, $4, 0, $5, principal, verbs, namespaces, $6, $7, id FROM old
RETURNING id, kind, name, hash, created, expires, revoked, actor, principal, verbs, namespaces, maker, parent, replaces, replaced, worker_groups, worker_slots, uses, used, invite;

-- name: joinToken
-- The row of a certificate whose answer was lost stays. An expired row gives its name up before the new one takes it.
WITH RECURSIVE clock AS MATERIALIZED (
  SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now
), again AS (
  SELECT id FROM token WHERE hash = $3 AND invite = $1 AND name = $2 AND revoked = 0
), line AS (
  SELECT id, parent, revoked, expires, 0 AS depth FROM token WHERE id = $1
  UNION ALL SELECT p.id, p.parent, p.revoked, p.expires, l.depth + 1 FROM token p JOIN line l ON p.id = l.parent WHERE l.depth < $6
), usable AS (
  SELECT t.*, c.now FROM token t, clock c WHERE t.id = $1 AND t.kind = 'invite' AND (EXISTS (SELECT FROM again) OR t.used < t.uses
    AND (SELECT count(*) FROM token) < $5::bigint
    AND EXISTS (SELECT FROM line WHERE parent = 0)
    AND NOT EXISTS (SELECT FROM line WHERE revoked <> 0 OR expires <> 0 AND expires <= c.now)
    AND NOT EXISTS (SELECT FROM token o WHERE o.hash = $3)
    AND NOT EXISTS (SELECT FROM token o WHERE o.name = $2 AND o.revoked = 0 AND o.replaced = 0 AND (o.expires = 0 OR o.expires > c.now)))
), old AS (
  UPDATE token t SET revoked = u.now FROM usable u WHERE t.name = $2 AND t.revoked = 0 AND t.replaced = 0 AND NOT EXISTS (SELECT FROM again) RETURNING t.id
), counted AS (
  UPDATE token t SET used = t.used + 1 FROM usable u WHERE t.id = u.id AND NOT EXISTS (SELECT FROM again) RETURNING t.id
)
INSERT INTO token (kind, name, hash, created, expires, revoked, actor, principal, verbs, namespaces, maker, parent, worker_groups, worker_slots, invite)
SELECT 'certificate', $2, $3, now, now + $4, 0, actor, principal, verbs, namespaces, maker, parent, worker_groups, worker_slots, id
FROM usable WHERE (SELECT count(*) FROM old) + (SELECT count(*) FROM counted) >= 0
ON CONFLICT (hash) DO UPDATE SET expires = excluded.expires
RETURNING id, kind, name, hash, created, expires, revoked, actor, principal, verbs, namespaces, maker, parent, replaces, replaced, worker_groups, worker_slots, uses, used, invite;

-- name: moveNode
UPDATE token SET hash = $2, expires = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $3
WHERE kind = 'certificate' AND name = $1 AND revoked = 0 AND replaced = 0 AND NOT EXISTS (SELECT FROM token o WHERE o.hash = $2 AND o.revoked <> 0)
RETURNING id, kind, name, hash, created, expires, revoked, actor, principal, verbs, namespaces, maker, parent, replaces, replaced, worker_groups, worker_slots, uses, used, invite;

-- name: addNode
INSERT INTO token (kind, name, hash, created, expires, revoked, actor, principal, verbs, namespaces, maker, parent, worker_groups, worker_slots, uses)
SELECT 'certificate', $1, $2, c.now, c.now + $3, 0, $1, 0, '', '', 0, 0, '', 0, 0
FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now) c
WHERE NOT EXISTS (SELECT FROM token o WHERE o.hash = $2) AND (SELECT count(*) FROM token) < $4::bigint
RETURNING id, kind, name, hash, created, expires, revoked, actor, principal, verbs, namespaces, maker, parent, replaces, replaced, worker_groups, worker_slots, uses, used, invite;

-- name: renewToken
UPDATE token SET expires = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $2
WHERE id = $1 AND kind = 'certificate' AND revoked = 0 AND expires > (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
RETURNING id, kind, name, hash, created, expires, revoked, actor, principal, verbs, namespaces, maker, parent, replaces, replaced, worker_groups, worker_slots, uses, used, invite;

-- name: tokenByHash
SELECT id, kind, name, hash, created, expires, revoked, actor, principal, verbs, namespaces, maker, parent, replaces, replaced, worker_groups, worker_slots, uses, used, invite FROM token WHERE hash = $1;

-- name: tokens
SELECT id, kind, name, hash, created, expires, revoked, actor, principal, verbs, namespaces, maker, parent, replaces, replaced, worker_groups, worker_slots, uses, used, invite FROM token ORDER BY id;
