-- The statements of secrets.

-- A change of keys waits for this lock. Otherwise a secret with the old key could appear after the change has
-- sealed all others again.
-- name: putSecret
WITH present AS MATERIALIZED (SELECT id FROM secret_key WHERE one = 1 AND id = $4 FOR SHARE)
INSERT INTO secret AS s (namespace, name, version, key, wrapped, data, actor, created, modified)
SELECT $1, $2, $3, $4, $5, $6, $7, now, now FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now) AS clock
WHERE EXISTS (SELECT 1 FROM present)
  AND $3 = 1 + coalesce((SELECT o.version FROM secret o WHERE o.namespace = $1 AND o.name = $2), 0)
  AND ($3 > 1 OR (SELECT count(*) FROM secret) < $8::bigint)
ON CONFLICT (namespace, name) DO UPDATE SET version = excluded.version, key = excluded.key, wrapped = excluded.wrapped,
  data = excluded.data, actor = excluded.actor, modified = excluded.modified
WHERE s.version = excluded.version - 1
RETURNING namespace, name, version, key, wrapped, data, actor, created, modified;

-- name: rewrapSecret
UPDATE secret SET key = $5, wrapped = $6 WHERE namespace = $1 AND name = $2 AND version = $3 AND key = $4
RETURNING namespace, name, version, key, wrapped, data, actor, created, modified;

-- name: dropSecret
DELETE FROM secret WHERE namespace = $1 AND name = $2
RETURNING namespace, name, version, key, wrapped, data, actor, created, modified;

-- name: secret
SELECT namespace, name, version, key, wrapped, data, actor, created, modified FROM secret WHERE namespace = $1 AND name = $2;

-- name: secrets
SELECT namespace, name, version, key, wrapped, data, actor, created, modified FROM secret
WHERE (namespace, name) > ($1, $2) ORDER BY namespace, name LIMIT $3::bigint;

-- name: secretKey
SELECT id, since FROM secret_key WHERE one = 1;

-- name: setSecretKey
INSERT INTO secret_key AS k (one, id, since)
SELECT 1, $1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
WHERE $2::text = coalesce((SELECT o.id FROM secret_key o WHERE o.one = 1), '')
ON CONFLICT (one) DO UPDATE SET id = excluded.id, since = excluded.since WHERE k.id = $2::text
RETURNING id, since;
