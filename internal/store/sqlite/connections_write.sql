-- The statements of connections that write.

-- name: putConnection
INSERT INTO connection (namespace, name, version, data, actor, created, modified)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?6 WHERE ?3 = 1 + ifnull((SELECT version FROM connection WHERE namespace = ?1 AND name = ?2), 0)
  AND (?3 > 1 OR (SELECT count(*) FROM connection) < ?7)
ON CONFLICT (namespace, name) DO UPDATE SET version = excluded.version, data = excluded.data, actor = excluded.actor, modified = excluded.modified;

-- name: dropConnection
DELETE FROM connection WHERE namespace = ?1 AND name = ?2;
