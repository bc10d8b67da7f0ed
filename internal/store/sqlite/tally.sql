-- The statements of the tally.

-- name: tallyMarks
SELECT shard, workflow, rev, seq, at FROM tally_mark WHERE shard = ?1 ORDER BY workflow;

-- name: tallyHolds
UPDATE shard SET owner = owner WHERE id = ?1 AND owner = ?2 AND epoch = ?3 AND seq >= ?4;

-- name: tallyBegins
INSERT INTO tally_mark (shard, workflow, rev, seq, at) VALUES (?1, 0, 1, max(?2, 0), ?3) ON CONFLICT DO NOTHING;

-- name: tallyMoves
UPDATE tally_mark SET rev = rev + 1, seq = CASE WHEN ?2 < 0 THEN seq ELSE ?2 END, at = CASE WHEN ?2 < 0 THEN at ELSE ?3 END
WHERE shard = ?1 AND workflow = 0 AND rev = ?4;

-- name: tallyUnmarks
DELETE FROM tally_mark WHERE shard = ?1 AND workflow <> 0;

-- name: tallyPutMark
INSERT INTO tally_mark (shard, workflow, rev, seq, at) VALUES (?1, ?2, 0, ?3, ?4)
ON CONFLICT DO UPDATE SET seq = excluded.seq, at = excluded.at;

-- name: tallyDrops
DELETE FROM tally WHERE workflow = ?1;

-- name: tallyPut
INSERT INTO tally (workflow, span, at, task, n, data) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT DO UPDATE SET n = excluded.n, data = excluded.data;

-- name: tallyGone
INSERT INTO tally (workflow, span, at, task, n, data) VALUES (?1, 2, ?2, ?3, 1, x'') ON CONFLICT DO UPDATE SET n = n + 1;

-- name: tallyRows
SELECT workflow, span, at, task, n, data FROM tally
WHERE workflow = ?1 AND span = ?2 AND at BETWEEN ?3 AND ?4 AND (task, at) > (?6, ?5) AND (?7 OR task = ?8)
ORDER BY task, at LIMIT +?9;

-- name: tallyHasOld
SELECT owner, EXISTS (SELECT 1 FROM tally WHERE workflow = ?2 AND span = 0 AND at < ?3)
  OR EXISTS (SELECT 1 FROM tally WHERE workflow = ?2 AND span = 2 AND at < ?3)
  OR EXISTS (SELECT 1 FROM tally WHERE workflow = ?2 AND span = 1 AND at < ?4) FROM shard WHERE id = ?1;

-- name: tallyExpires
DELETE FROM tally WHERE (workflow, span, at, task) IN (SELECT workflow, span, at, task FROM tally
  WHERE workflow = ?1 AND at < CASE span WHEN 1 THEN ?3 ELSE ?2 END LIMIT +?4);

-- name: dropTally
DELETE FROM tally WHERE workflow = ?1 AND (span, at, task) IN (SELECT span, at, task FROM tally WHERE workflow = ?1 LIMIT +?2);

-- name: dropTallyMarks
DELETE FROM tally_mark WHERE workflow = ?1 AND (shard, workflow) IN (SELECT shard, workflow FROM tally_mark WHERE workflow = ?1 LIMIT +?2);
