-- The statements of the export of traces.

-- name: traceMark
SELECT shard, seq, at FROM trace_mark WHERE shard = ?1;

-- name: putTraceMark
INSERT INTO trace_mark (shard, seq, at) SELECT id, ?4, ?5 FROM shard WHERE id = ?1 AND owner = ?2 AND epoch = ?3 AND seq >= ?4
ON CONFLICT DO UPDATE SET seq = excluded.seq, at = excluded.at;
