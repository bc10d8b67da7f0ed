-- The writer's statements for what runs of all shards share.

-- name: comeToLine
INSERT INTO line (line, level, asked, first, kept, count, runs) VALUES (?1, ?2, ?3, ?4, ?5, ?6, CAST(?7 AS TEXT));

-- name: lineUpTo
-- The rows with runs of one instant, up to a run.
SELECT first, runs FROM line WHERE line = ?1 AND level = ?2 AND asked = ?3 AND kept = ?4 AND first <= ?5;

-- name: thinLine
UPDATE line SET first = ?5, count = ?6, runs = CAST(?7 AS TEXT) WHERE line = ?1 AND level = ?2 AND asked = ?3 AND first = ?4;

-- name: dropLine
DELETE FROM line WHERE line = ?1 AND level = ?2 AND asked = ?3 AND first = ?4;

-- name: insertQueue
INSERT INTO queue (name, max_runs, per_key, ordering, overflow, rate, each, state, actor, reason, until, paced, revision, created, modified)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15);

-- name: updateQueue
UPDATE queue SET max_runs = ?2, per_key = ?3, ordering = ?4, overflow = ?5, rate = ?6, each = ?7, state = ?8, actor = ?9,
  reason = ?10, until = ?11, revision = ?12, modified = ?13
WHERE name = ?1 AND revision = ?12 - 1;

-- name: deleteQueue
DELETE FROM queue WHERE name = ?1 AND revision = ?2;

-- name: paceQueue
UPDATE queue SET paced = ?2 WHERE name = ?1;
