-- The statements of git sources that read.

-- name: gitSourceOf
SELECT namespace, name, version, shard, spec, state, seq, actor, created, modified FROM git_source WHERE namespace = ?1 AND name = ?2;

-- name: gitSourceList
SELECT namespace, name, version, shard, spec, state, seq, actor, created, modified FROM git_source WHERE (namespace, name) > (?1, ?2)
ORDER BY namespace, name LIMIT +?3;
