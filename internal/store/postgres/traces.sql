-- The statements of the export of traces.

-- name: traceMark
SELECT shard, seq, at FROM trace_mark WHERE shard = $1;

-- name: putTraceMark
WITH i AS (
  INSERT INTO trace_mark (shard, seq, at) SELECT id, $4::bigint, $5::bigint FROM shard WHERE id = $1 AND owner = $2 AND epoch = $3 AND seq >= $4
  ON CONFLICT (shard) DO UPDATE SET seq = excluded.seq, at = excluded.at RETURNING 1
)
SELECT must(count(*) = 1, 'the shard is not as the export of traces knows it') FROM i;
