
-- name: queueByName
SELECT * FROM queue WHERE name = ?1;

-- name: queuesOf
SELECT * FROM queue WHERE name > ?1 ORDER BY name LIMIT ?2;

-- name: claimByNumber
SELECT id, shard, workflow, priority, created, claim FROM run WHERE n = ?1;

-- name: lines
SELECT line, level, count(*) FROM line GROUP BY line, level ORDER BY line, level;

-- name: countInLine
SELECT count(*) FROM (SELECT 1 FROM line WHERE line = ?1 AND level = ?2 AND asked < ?3 LIMIT ?4);

-- name: inLine
SELECT r.id, r.shard, r.workflow, r.priority, r.created, r.claim
FROM line l JOIN run r ON r.n = l.run WHERE l.line = ?1 AND l.level = ?2 AND l.asked >= ?3 ORDER BY l.asked, r.n LIMIT ?4;
