-- The statements of the log of events that read.

-- name: sentOf
SELECT seq, received FROM sent_event WHERE namespace = ?1 AND source = ?2 AND id = ?3;

-- name: sentAfter
SELECT seq, received, namespace, source, id, type, data FROM sent_event WHERE seq > ?1 ORDER BY seq LIMIT +?2;

-- name: sentLog
SELECT ifnull((SELECT min(seq) FROM sent_event), h.seq + 1), h.seq FROM (SELECT ifnull((SELECT seq FROM sent_head), 0) AS seq) h;

-- name: sentUntil
SELECT ifnull((SELECT seq FROM sent_event WHERE received <= ?1 ORDER BY received DESC, seq DESC LIMIT 1),
  ifnull((SELECT min(seq) FROM sent_event) - 1, ifnull((SELECT seq FROM sent_head), 0)));

-- name: expireSent
DELETE FROM sent_event WHERE seq IN (SELECT seq FROM sent_event
  WHERE seq <= max(ifnull((SELECT seq FROM sent_event WHERE received < ?1 ORDER BY received DESC, seq DESC LIMIT 1), 0),
    ifnull((SELECT seq FROM sent_head) - ?2, 0)) ORDER BY seq LIMIT +?3);

-- name: moveSent
INSERT INTO sent_head (one, seq, received) VALUES (1, 1, ?1)
ON CONFLICT (one) DO UPDATE SET seq = seq + 1, received = max(received, excluded.received);

-- name: insertSent
INSERT INTO sent_event (seq, received, namespace, source, id, type, data) SELECT seq, received, ?1, ?2, ?3, ?4, ?5 FROM sent_head;
