-- The statements of namespaces and their quotas.

-- name: putNamespace
INSERT INTO namespace AS n (name, revision, runs, runs_per_hour, tasks, params_bytes, actor, modified)
SELECT $1, $2, $3, $4, $5, $6, $7, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
WHERE $2::bigint = 1 + coalesce((SELECT o.revision FROM namespace o WHERE o.name = $1), 0)
  AND ($2::bigint > 1 OR (SELECT count(*) FROM namespace) < $8::bigint)
ON CONFLICT (name) DO UPDATE SET revision = excluded.revision, runs = excluded.runs, runs_per_hour = excluded.runs_per_hour,
  tasks = excluded.tasks, params_bytes = excluded.params_bytes, actor = excluded.actor, modified = excluded.modified
WHERE n.revision = excluded.revision - 1
RETURNING name, revision, runs, runs_per_hour, tasks, params_bytes, modified, actor;

-- name: namespaces
SELECT name, revision, runs, runs_per_hour, tasks, params_bytes, modified, actor FROM namespace ORDER BY name;

-- name: namespaceUses
SELECT namespace, shard, runs, started, since FROM namespace_use WHERE $1::text = '' OR namespace = $1 ORDER BY namespace, shard;

-- name: unfinishedOf
SELECT r.workflow, r.shard, count(*) FROM unfinished a JOIN run r ON r.id = a.run
WHERE r.shard = ANY ($1::int[]) AND r.state <> 'submitted' GROUP BY r.workflow, r.shard ORDER BY r.shard, r.workflow;

-- name: putUse
INSERT INTO namespace_use (namespace, shard, runs, started, since) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (namespace, shard) DO UPDATE SET runs = excluded.runs, started = excluded.started, since = excluded.since;

-- name: withinQuotas
SELECT within_quotas($1, $2);
