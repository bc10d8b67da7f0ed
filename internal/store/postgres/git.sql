-- The statements of git sources.

-- name: putGitSource
INSERT INTO git_source AS c (namespace, name, version, shard, spec, state, seq, actor, created, modified)
SELECT $1, $2, $3, $4, $5, NULL, 0, $6, now, now FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now) AS clock
WHERE $3 = 1 + coalesce((SELECT o.version FROM git_source o WHERE o.namespace = $1 AND o.name = $2), 0)
  AND ($3 > 1 OR (SELECT count(*) FROM git_source) < $7::bigint)
ON CONFLICT (namespace, name) DO UPDATE SET version = excluded.version, spec = excluded.spec, actor = excluded.actor, modified = excluded.modified
WHERE c.version = excluded.version - 1
RETURNING namespace, name, version, shard, spec, state, seq, actor, created, modified;

-- name: setGitState
UPDATE git_source SET state = $5, seq = seq + 1 WHERE namespace = $1 AND name = $2 AND version = $3 AND seq = $4
RETURNING namespace, name, version, shard, spec, state, seq, actor, created, modified;

-- name: dropGitSource
DELETE FROM git_source WHERE namespace = $1 AND name = $2
RETURNING namespace, name, version, shard, spec, state, seq, actor, created, modified;

-- name: gitSourceOf
SELECT namespace, name, version, shard, spec, state, seq, actor, created, modified FROM git_source WHERE namespace = $1 AND name = $2;

-- name: gitSourceList
SELECT namespace, name, version, shard, spec, state, seq, actor, created, modified FROM git_source WHERE (namespace, name) > ($1, $2)
ORDER BY namespace, name LIMIT $3;
