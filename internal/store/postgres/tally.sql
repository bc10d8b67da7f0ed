-- The statements of the tally.

-- name: tallyMarks
SELECT shard, workflow, rev, seq, at FROM tally_mark WHERE shard = $1 ORDER BY workflow;

-- name: tallyHolds
SELECT must(count(*) = 1, 'the shard is not as the tally knows it') FROM shard WHERE id = $1 AND owner = $2 AND epoch = $3 AND seq >= $4;

-- name: tallyBegins
WITH i AS (
  INSERT INTO tally_mark (shard, workflow, rev, seq, at) VALUES ($1, 0, 1, greatest($2::bigint, 0), $3) ON CONFLICT DO NOTHING RETURNING 1
)
SELECT must(count(*) = 1, 'another step began the tally of the shard') FROM i;

-- name: tallyMoves
WITH u AS (
  UPDATE tally_mark SET rev = rev + 1, seq = CASE WHEN $2::bigint < 0 THEN seq ELSE $2 END, at = CASE WHEN $2 < 0 THEN at ELSE $3 END
  WHERE shard = $1 AND workflow = 0 AND rev = $4 RETURNING 1
)
SELECT must(count(*) = 1, 'another step of the tally was faster') FROM u;

-- name: tallyUnmarks
DELETE FROM tally_mark WHERE shard = $1 AND workflow <> 0;

-- name: tallyPutMark
INSERT INTO tally_mark (shard, workflow, rev, seq, at) VALUES ($1, $2, 0, $3, $4)
ON CONFLICT (shard, workflow) DO UPDATE SET seq = excluded.seq, at = excluded.at;

-- name: tallyDrops
DELETE FROM tally WHERE workflow = $1;

-- name: tallyPut
INSERT INTO tally (workflow, span, at, task, n, data) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (workflow, span, task, at) DO UPDATE SET n = excluded.n, data = excluded.data;

-- name: tallyRows
SELECT workflow, span::bigint, at::bigint, task, n, data FROM tally
WHERE workflow = $1 AND span = $2 AND at BETWEEN $3 AND $4 AND (task, at) > ($6, $5::int) AND ($7::boolean OR task = $8)
ORDER BY task, at LIMIT $9;

-- name: tallyExpires
WITH old AS (
  SELECT span, task, at FROM tally WHERE workflow = $1 AND at < CASE span WHEN 1 THEN $3::int ELSE $2::int END LIMIT $4::bigint
), gone AS (
  DELETE FROM tally t USING old o WHERE t.workflow = $1 AND t.span = o.span AND t.task = o.task AND t.at = o.at RETURNING 1
)
SELECT count(*) FROM gone;
