-- The statements of the log of events.

-- name: lockSent
INSERT INTO sent_head AS h (one, seq, received) VALUES (1, 0, 0) ON CONFLICT (one) DO UPDATE SET seq = h.seq;

-- name: addSent
-- The row of sent_head is locked by lockSent, so this statement sees all events that others have added.
WITH known AS (
  SELECT seq, received FROM sent_event WHERE namespace = $1 AND source = $2 AND id = $3
), moved AS (
  UPDATE sent_head h SET seq = h.seq + 1, received = greatest(h.received, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
  WHERE NOT EXISTS (SELECT FROM known) RETURNING h.seq, h.received
), added AS (
  INSERT INTO sent_event (seq, received, namespace, source, id, type, data) SELECT seq, received, $1, $2, $3, $4, $5 FROM moved
)
SELECT seq, received, 1::bigint FROM known UNION ALL SELECT seq, received, 0::bigint FROM moved;

-- name: sentAfter
SELECT seq, received, namespace, source, id, type, data FROM (
  SELECT *, sum(octet_length(data)) OVER (ORDER BY seq) - octet_length(data) AS before FROM (
    SELECT seq, received, namespace, source, id, type, data FROM sent_event WHERE seq > $1 ORDER BY seq LIMIT $2
  ) page
) sized WHERE before = 0 OR before + octet_length(data) <= $3::bigint ORDER BY seq;

-- name: sentLog
SELECT coalesce((SELECT min(seq) FROM sent_event), h.seq + 1), h.seq FROM (SELECT coalesce((SELECT seq FROM sent_head), 0) AS seq) h;

-- name: sentUntil
SELECT coalesce((SELECT seq FROM sent_event WHERE received <= $1 ORDER BY received DESC, seq DESC LIMIT 1),
  (SELECT min(seq) FROM sent_event) - 1, (SELECT seq FROM sent_head), 0);

-- name: expireSent
WITH page AS MATERIALIZED (
  SELECT seq FROM sent_event
  WHERE seq <= greatest((SELECT seq FROM sent_event WHERE received < $1::bigint ORDER BY received DESC, seq DESC LIMIT 1),
    (SELECT seq FROM sent_head) - $2::bigint)
  ORDER BY seq LIMIT $3::bigint
), gone AS (
  DELETE FROM sent_event e USING page p WHERE e.seq = p.seq RETURNING 1
)
SELECT count(*) FROM gone;
