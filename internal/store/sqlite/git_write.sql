-- The statements of git sources that write.

-- name: putGitSource
INSERT INTO git_source (namespace, name, version, shard, spec, state, seq, actor, created, modified)
SELECT ?1, ?2, ?3, ?4, ?5, NULL, 0, ?6, ?7, ?7 WHERE ?3 = 1 + ifnull((SELECT version FROM git_source WHERE namespace = ?1 AND name = ?2), 0)
  AND (?3 > 1 OR (SELECT count(*) FROM git_source) < ?8)
ON CONFLICT (namespace, name) DO UPDATE SET version = excluded.version, spec = excluded.spec, actor = excluded.actor, modified = excluded.modified;

-- name: setGitState
UPDATE git_source SET state = ?5, seq = seq + 1 WHERE namespace = ?1 AND name = ?2 AND version = ?3 AND seq = ?4;

-- name: dropGitSource
DELETE FROM git_source WHERE namespace = ?1 AND name = ?2;
