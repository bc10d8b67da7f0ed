
-- name: queueByName
SELECT * FROM queue WHERE name = ?1;

-- name: queuesOf
SELECT * FROM queue WHERE name > ?1 ORDER BY name LIMIT ?2;

-- name: claimsByNumber
SELECT r.id, r.shard, r.workflow, r.priority, r.created, r.claim FROM json_each(?1) l CROSS JOIN run r
WHERE r.n = l.value AND r.claim IS NOT NULL ORDER BY l.id;

-- name: claimsAbout
SELECT r.n, r.claim FROM json_each(?1) l CROSS JOIN run r WHERE r.n = l.value AND instr(r.claim, ?2) > 0;

-- name: lines
SELECT line, level, count(*) FROM line GROUP BY line, level ORDER BY line, level;

-- name: numberOf
SELECT n FROM run WHERE id = ?1;

-- name: countSpan
SELECT count(*) FROM (SELECT 1 FROM line WHERE line = ?1 AND (level, asked, run) >= (?2, ?3, ?4) AND (level, asked, run) < (?5, ?6, ?7) LIMIT ?8);

-- name: inLine
SELECT r.id, r.shard, r.workflow, r.priority, r.created, r.claim
FROM line l JOIN run r ON r.n = l.run WHERE l.line = ?1 AND l.level = ?2 AND l.asked >= ?3 ORDER BY l.asked, r.n LIMIT ?4;
