
-- name: queueByName
SELECT * FROM queue WHERE name = ?1;

-- name: queuesOf
SELECT * FROM queue WHERE name > ?1 ORDER BY name LIMIT +?2;

-- name: claimsByNumber
SELECT r.id, r.shard, r.workflow, r.priority, r.created, r.claim FROM json_each(?1) l CROSS JOIN run r
WHERE r.n = l.value AND length(r.claim) > iif(substr(r.claim, 1, 1) = x'03', 9, 0) ORDER BY l.id;

-- name: claimsAbout
SELECT r.n, r.claim FROM json_each(?1) l CROSS JOIN run r WHERE r.n = l.value AND instr(r.claim, ?2) > 0;

-- name: lines
SELECT line, level, sum(count) FROM line GROUP BY line, level ORDER BY line, level;

-- name: numberOf
SELECT n FROM run WHERE id = ?1;

-- name: countSpan
-- It counts from a seat, ?2 to ?4, up to another one, ?5 to ?7, without that: whole rows in between, and
-- single runs of the rows of both seats.
SELECT (SELECT ifnull(sum(count), 0) FROM (SELECT count FROM line WHERE line = ?1 AND (level, asked) > (?2, ?3) AND (level, asked) < (?5, ?6) LIMIT +?8))
  + (SELECT count(*) FROM stander WHERE line = ?1 AND level = ?2 AND asked = ?3 AND run >= ?4 AND (?2, ?3, run) < (?5, ?6, ?7))
  + (SELECT count(*) FROM stander WHERE line = ?1 AND level = ?5 AND asked = ?6 AND run < ?7 AND (?2, ?3) < (?5, ?6));

-- name: inLine
SELECT r.id, r.shard, r.workflow, r.priority, r.created, r.claim
FROM stander s JOIN run r ON r.n = s.run WHERE s.line = ?1 AND s.level = ?2 AND s.asked >= ?3 ORDER BY s.asked, r.n LIMIT +?4;
