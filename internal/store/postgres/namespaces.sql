-- The statements of namespaces and their quotas.

-- name: putNamespace
INSERT INTO namespace AS n (name, revision, runs, runs_per_hour, tasks, params_bytes, stored_bytes, versions, triggers, tokens, requests_per_minute, actor, logs_per_day, modified, isolation, allow_read, allow_write, egress, locks, run_as)
SELECT $1, $2, $3, $4, $5, $6, $9, $10, $11, $12, $13, $7, $14, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, $15, $16, $17, $18, $19, $20
WHERE $2::bigint = 1 + coalesce((SELECT o.revision FROM namespace o WHERE o.name = $1), 0)
  AND ($2::bigint > 1 OR (SELECT count(*) FROM namespace) < $8::bigint)
ON CONFLICT (name) DO UPDATE SET revision = excluded.revision, runs = excluded.runs, runs_per_hour = excluded.runs_per_hour,
  tasks = excluded.tasks, params_bytes = excluded.params_bytes, stored_bytes = excluded.stored_bytes, versions = excluded.versions,
  triggers = excluded.triggers, tokens = excluded.tokens, requests_per_minute = excluded.requests_per_minute, logs_per_day = excluded.logs_per_day, actor = excluded.actor, modified = excluded.modified,
  isolation = excluded.isolation, allow_read = excluded.allow_read, allow_write = excluded.allow_write, egress = excluded.egress, locks = excluded.locks, run_as = excluded.run_as
WHERE n.revision = excluded.revision - 1
RETURNING name, revision, runs, runs_per_hour, tasks, params_bytes, stored_bytes, versions, triggers, tokens, requests_per_minute, modified, actor, logs_per_day, isolation, allow_read, allow_write, egress, locks, run_as;

-- name: namespaces
SELECT name, revision, runs, runs_per_hour, tasks, params_bytes, stored_bytes, versions, triggers, tokens, requests_per_minute, modified, actor, logs_per_day, isolation, allow_read, allow_write, egress, locks, run_as FROM namespace ORDER BY name;

-- name: namespaceUses
SELECT namespace, shard, runs, started, since, logged, day FROM namespace_use WHERE $1::text = '' OR namespace = $1 ORDER BY namespace, shard;

-- name: unfinishedOf
SELECT x.workflow, x.shard, x.runs, s.seq FROM (
  SELECT r.workflow, r.shard, count(*) AS runs FROM unfinished a JOIN run r ON r.id = a.run
    WHERE r.shard = ANY ($1::int[]) AND r.state <> 'submitted' GROUP BY r.workflow, r.shard
  UNION ALL SELECT 0, id, 0 FROM shard WHERE id = ANY ($1::int[])
) x JOIN shard s ON s.id = x.shard ORDER BY x.shard, x.workflow;

-- name: putUse
INSERT INTO namespace_use (namespace, shard, runs, started, since, logged, day) VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (namespace, shard) DO UPDATE SET runs = excluded.runs, started = excluded.started, since = excluded.since,
  logged = excluded.logged, day = excluded.day;

-- name: withinQuotas
SELECT within_quotas($1, $2);

-- name: namespaceStocks
-- After an upgrade, until restock has counted, more can be deleted than was counted.
SELECT namespace, greatest(sum(versions), 0)::bigint, greatest(sum(triggers), 0)::bigint, greatest(sum(bytes), 0)::bigint FROM namespace_stock
WHERE $1::text = '' OR namespace = $1 GROUP BY namespace ORDER BY namespace;

-- name: putStock
INSERT INTO namespace_stock AS s (namespace, shard, part, versions, triggers, bytes) VALUES ($1, $2, $4, 0, 0, $3)
ON CONFLICT (namespace, shard, part) DO UPDATE SET bytes = s.bytes + excluded.bytes;

-- name: withinStock
SELECT within_stock($1, $2);

-- name: stocked
SELECT stocked FROM meta;
