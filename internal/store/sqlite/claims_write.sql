-- What runs of all shards share: the statements of the writer.

-- name: putInLine
INSERT INTO line (line, level, asked, run, kept) VALUES (?1, ?2, ?3, ?4, ?5);

-- name: putManyInLine
INSERT INTO line (line, level, asked, run, kept) VALUES
  (?1, ?2, ?3, ?4, ?5),
  (?6, ?7, ?8, ?9, ?10),
  (?11, ?12, ?13, ?14, ?15),
  (?16, ?17, ?18, ?19, ?20),
  (?21, ?22, ?23, ?24, ?25),
  (?26, ?27, ?28, ?29, ?30),
  (?31, ?32, ?33, ?34, ?35),
  (?36, ?37, ?38, ?39, ?40);

-- name: putSpanInLine
-- Runs whose numbers follow each other: they are there, so nothing is bound for each.
INSERT INTO line (line, level, asked, run, kept) SELECT ?1, ?2, ?3, n, ?4 FROM run WHERE n >= ?5 AND n <= ?6;

-- name: lineSpan
-- How many stand there, and a sum by which one sees that they are those that one knows: of so many that more say they are not.
SELECT count(*), ifnull(sum(run), 0) FROM (SELECT run FROM line
  WHERE line = ?1 AND level = ?2 AND (asked, run) >= (?3, ?4) AND (asked, run) <= (?5, ?6) LIMIT ?7);

-- name: leaveSpan
DELETE FROM line WHERE line = ?1 AND level = ?2 AND (asked, run) >= (?3, ?4) AND (asked, run) <= (?5, ?6);

-- name: leaveLine
DELETE FROM line WHERE line = ?1 AND level = ?2 AND asked = ?3 AND run = ?4;

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
