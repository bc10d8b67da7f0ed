-- The statements of connections that read.

-- name: connectionOf
SELECT namespace, name, version, data, actor, created, modified FROM connection WHERE namespace = ?1 AND name = ?2;

-- name: connectionList
SELECT namespace, name, version, data, actor, created, modified FROM connection WHERE (namespace, name) > (?1, ?2)
ORDER BY namespace, name LIMIT +?3;
