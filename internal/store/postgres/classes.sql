-- The statements of resource classes.

-- name: putClass
INSERT INTO class (name, cpu, memory, actor, created, modified)
SELECT $1, $2, $3, $4, now, now FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now) AS clock
WHERE (SELECT count(*) FROM class WHERE name <> $1) < $5::bigint
ON CONFLICT (name) DO UPDATE SET cpu = excluded.cpu, memory = excluded.memory, actor = excluded.actor, modified = excluded.modified
RETURNING name, cpu, memory, actor, created, modified;

-- name: dropClass
DELETE FROM class WHERE name = $1 RETURNING name, cpu, memory, actor, created, modified;

-- name: classes
SELECT name, cpu, memory, actor, created, modified FROM class ORDER BY name;
