-- The statements of connections.

-- name: putConnection
INSERT INTO connection AS c (namespace, name, version, data, actor, created, modified)
SELECT $1, $2, $3, $4, $5, now, now FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now) AS clock
WHERE $3 = 1 + coalesce((SELECT o.version FROM connection o WHERE o.namespace = $1 AND o.name = $2), 0)
  AND ($3 > 1 OR (SELECT count(*) FROM connection) < $6::bigint)
ON CONFLICT (namespace, name) DO UPDATE SET version = excluded.version, data = excluded.data, actor = excluded.actor, modified = excluded.modified
WHERE c.version = excluded.version - 1
RETURNING namespace, name, version, data, actor, created, modified;

-- name: dropConnection
DELETE FROM connection WHERE namespace = $1 AND name = $2
RETURNING namespace, name, version, data, actor, created, modified;

-- name: connectionOf
SELECT namespace, name, version, data, actor, created, modified FROM connection WHERE namespace = $1 AND name = $2;

-- name: connectionList
SELECT namespace, name, version, data, actor, created, modified FROM connection WHERE (namespace, name) > ($1, $2)
ORDER BY namespace, name LIMIT $3;
