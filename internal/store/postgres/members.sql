-- The statements of a cluster: its members and the owners of shards. An owner that is no member owns
-- nothing: its shards count as free, whatever their rows say. Rows of shards are locked in the order of
-- their ids, as the fence does, and after those of members.

-- name: lockNamed
-- A node that deposes the earlier life locks the rows in this order, too.
SELECT handler FROM member WHERE name = $1 FOR UPDATE;

-- name: freeNamed
-- It frees the shards of earlier lives of a name.
WITH held AS MATERIALIZED (
  SELECT s.id FROM shard s WHERE s.owner = ANY (ARRAY(SELECT handler FROM member WHERE name = $1 AND handler <> $2))
  ORDER BY s.id FOR NO KEY UPDATE OF s
)
UPDATE shard s SET owner = 0 FROM held WHERE s.id = held.id;

-- name: join
-- The counter begins with the clock. A member that was deposed and joins again under its handler must not
-- look silent to members that have not read its row meanwhile.
INSERT INTO member (handler, uuid, name, address, version, format, state, slots, busy, beat, started, seen, worker, home, lease, traits)
SELECT $1::bigint, $2::text::uuid, $3::text, $4::text, $5::text, $6::int, $7::text, $8::int, $9::int, now.at,
  coalesce(h.started, now.at), now.at, $10::bool, $11::bigint, $12::bigint, $13::text
FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS at OFFSET 0) now LEFT JOIN handler h ON h.id = $1::bigint
ON CONFLICT (name) DO UPDATE SET handler = excluded.handler, uuid = excluded.uuid, address = excluded.address,
  version = excluded.version, format = excluded.format, state = excluded.state, slots = excluded.slots, busy = excluded.busy,
  beat = member.beat + 1, started = excluded.started, seen = excluded.seen, worker = excluded.worker, home = excluded.home,
  lease = excluded.lease, traits = excluded.traits;

-- name: joinWorker
-- The name belongs to its holder: a row of another handler does not change, and nothing is returned.
INSERT INTO member (handler, uuid, name, address, version, format, state, slots, busy, beat, started, seen, worker, home, lease, traits)
SELECT $1::bigint, $2::text::uuid, $3::text, $4::text, $5::text, $6::int, $7::text, $8::int, $9::int, now.at,
  coalesce(h.started, now.at), now.at, $10::bool, $11::bigint, $12::bigint, $13::text
FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS at OFFSET 0) now LEFT JOIN handler h ON h.id = $1::bigint
ON CONFLICT (name) DO UPDATE SET handler = excluded.handler, uuid = excluded.uuid, address = excluded.address,
  version = excluded.version, format = excluded.format, state = excluded.state, slots = excluded.slots, busy = excluded.busy,
  beat = member.beat + 1, started = excluded.started, seen = excluded.seen, worker = excluded.worker, home = excluded.home,
  lease = excluded.lease, traits = excluded.traits
WHERE member.handler = excluded.handler
RETURNING handler;

-- name: lockMeta
-- A node that joins meanwhile waits, and is checked against the new format.
SELECT format FROM meta FOR UPDATE;

-- name: nodeKey
SELECT node_key FROM meta;

-- name: rise
UPDATE meta SET format = greatest(format, least(applied,
  coalesce((SELECT min(m.format) FROM member m WHERE NOT m.worker AND m.format > 0), applied)))
RETURNING format;

-- name: rewant
-- Shards that were to move to a node go to its new life. Two lives never join under one name at once.
WITH held AS MATERIALIZED (
  SELECT s.id FROM shard s JOIN handler h ON h.id = s.wanted WHERE h.node = $1 AND s.wanted <> $2
  ORDER BY s.id FOR NO KEY UPDATE OF s
)
UPDATE shard s SET wanted = $2 FROM held WHERE s.id = held.id;

-- name: reshift
-- Shifts follow a node to its new life, too.
WITH was AS MATERIALIZED (
  SELECT f.shard, coalesce(p.node = $1, false) AS placed, coalesce(c.node = $1, false) AS counts, coalesce(t.node = $1, false) AS taken
  FROM shift f LEFT JOIN handler p ON p.id = f.placed LEFT JOIN handler c ON c.id = f.counts LEFT JOIN handler t ON t.id = f.taken_from
)
UPDATE shift f SET placed = CASE WHEN w.placed THEN $2 ELSE f.placed END, counts = CASE WHEN w.counts THEN $2 ELSE f.counts END,
  taken_from = CASE WHEN w.taken THEN $2 ELSE f.taken_from END
FROM was w WHERE w.shard = f.shard AND (w.placed OR w.counts OR w.taken);

-- name: renew
UPDATE member SET beat = beat + 1, state = $2, busy = $3, traits = $6, seen = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
WHERE handler = $1 AND home = $4 AND lease = $5 RETURNING handler;

-- name: attach
UPDATE member SET home = $3, lease = lease + 1, slots = $4, busy = $5, traits = $6, beat = beat + 1,
  seen = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
WHERE handler = $1 AND uuid = $2::text::uuid AND name = $7 AND worker RETURNING lease;

-- name: members
SELECT m.handler, m.uuid::text, m.name, m.address, m.version, m.format, m.state, m.slots, m.busy, m.beat, m.started, m.seen,
  EXISTS (SELECT FROM node_order o WHERE o.node = m.name AND o.what = 'cordon'),
  EXISTS (SELECT FROM node_order o WHERE o.node = ANY (ARRAY['', m.name]) AND o.what = 'stop'),
  m.worker, m.home, m.lease, m.traits
FROM member m ORDER BY m.handler;

-- name: shards
SELECT s.id, s.epoch, coalesce(m.handler, 0), s.wanted, s.workflows, s.seq,
  coalesce(f.at, 0), coalesce(f.taken_from, 0), coalesce(f.placed, 0), coalesce(f.counts, 0), coalesce(f.why, '')
FROM shard s LEFT JOIN member m ON m.handler = s.owner LEFT JOIN shift f ON f.shard = s.id ORDER BY s.id;

-- name: depose
-- The member is noted as lost in the same transaction. Notes are bounded in age ($3) and number ($4).
WITH gone AS (
  DELETE FROM member WHERE handler = $1 AND ($2::bigint < 0 OR beat = $2::bigint) RETURNING handler, name, worker
), clock AS MATERIALIZED (
  SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now
), old AS (
  DELETE FROM member_lost l USING clock WHERE l.at < clock.now - $3::bigint AND l.name <> ALL (SELECT name FROM gone)
), noted AS (
  INSERT INTO member_lost (handler, at, worker, name) SELECT gone.handler, clock.now, gone.worker, gone.name FROM gone, clock
  WHERE (SELECT count(*) FROM member_lost) < $4::bigint OR EXISTS (SELECT FROM member_lost o WHERE o.name = gone.name)
  ON CONFLICT (name) DO UPDATE SET handler = excluded.handler, at = excluded.at, worker = excluded.worker
)
SELECT handler FROM gone;

-- name: find
DELETE FROM member_lost WHERE name = $1;

-- name: leave
DELETE FROM member WHERE handler = $1;

-- name: freeGone
-- It frees the shards of a handler that is no member. It is a statement of its own: it sees the members
-- and shards after the member's row is deleted.
WITH held AS MATERIALIZED (
  SELECT s.id FROM shard s WHERE s.owner = $1 AND NOT EXISTS (SELECT FROM member WHERE handler = $1)
  ORDER BY s.id FOR NO KEY UPDATE OF s
)
UPDATE shard s SET owner = 0 FROM held WHERE s.id = held.id;

-- name: claim
-- Only a member gets shards: a deposed one takes nothing back. The statement waits for writers with locks.
-- It leaves out a shard whose owner has changed during that wait, because the members were read before it.
WITH open AS MATERIALIZED (
  SELECT s.id, s.owner FROM shard s
  WHERE s.id = ANY ($1::int[]) AND EXISTS (SELECT FROM member WHERE handler = $2)
    AND (s.owner = 0 OR s.owner = $2 OR NOT EXISTS (SELECT FROM member m WHERE m.handler = s.owner))
), held AS MATERIALIZED (
  SELECT s.id, s.owner FROM shard s JOIN open o ON o.id = s.id AND o.owner = s.owner ORDER BY s.id FOR UPDATE OF s
)
UPDATE shard s SET epoch = next_epoch(s.epoch), owner = $2 FROM held WHERE s.id = held.id
RETURNING s.id, s.epoch, s.seq, s.watermark, held.owner, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

-- name: release
WITH held AS MATERIALIZED (
  SELECT s.id FROM shard s JOIN unnest($1::int[], $2::bigint[]) x (id, epoch) ON s.id = x.id AND s.epoch = x.epoch
  ORDER BY s.id FOR NO KEY UPDATE OF s
)
UPDATE shard s SET owner = 0 FROM held WHERE s.id = held.id;

-- name: move
UPDATE shard SET wanted = $2 WHERE id = $1 RETURNING id;

-- name: unshift
DELETE FROM shift WHERE shard = $1;

-- name: shift
-- lockMeta comes first, so that this statement sees the shifts of all transactions before. A time after the
-- present, of a clock that was set back, counts as long ago.
INSERT INTO shift (shard, at, taken_from, placed, counts, why)
SELECT s.id, now.at, $3::bigint, $4::bigint, $5::bigint, $6::text
FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS at OFFSET 0) now JOIN shard s ON s.id = $1::int
WHERE s.epoch = $2::bigint AND s.owner = $3::bigint AND s.wanted = 0
  AND EXISTS (SELECT FROM member WHERE handler = $3::bigint AND NOT worker)
  AND EXISTS (SELECT FROM member WHERE handler = $4::bigint AND NOT worker)
  AND NOT EXISTS (SELECT FROM shift f WHERE f.at > now.at - $7::bigint AND f.at <= now.at)
  AND EXISTS (SELECT FROM meta WHERE format >= $8::bigint)
ON CONFLICT (shard) DO UPDATE SET at = excluded.at, taken_from = excluded.taken_from, placed = excluded.placed,
  counts = excluded.counts, why = excluded.why
RETURNING shard;

-- name: order
INSERT INTO node_order (node, what, actor, at) VALUES ($1, $2, $3, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
ON CONFLICT DO NOTHING RETURNING node;

-- name: withdraw
DELETE FROM node_order WHERE node = $1 AND what = $2 RETURNING node;

-- name: orders
SELECT node, what, actor, at FROM node_order ORDER BY node, what;

-- name: await
INSERT INTO submitted (run, shard) SELECT x.run, coalesce(x.shard, $3) FROM unnest($1::uuid[], $2::int[]) x (run, shard)
ON CONFLICT DO NOTHING;

-- name: met
DELETE FROM submitted t USING unnest($1::uuid[], $2::int[]) x (run, shard) WHERE t.shard = coalesce(x.shard, $3) AND t.run = x.run;

-- name: submitted
-- The oldest runs of each shard, merged.
SELECT r.run FROM unnest($1::int[]) s (id) CROSS JOIN LATERAL (
  SELECT run FROM submitted WHERE shard = s.id ORDER BY run LIMIT $2) r
ORDER BY r.run LIMIT $2;

-- name: straySubmitted
SELECT s.run FROM submitted s LEFT JOIN run r ON r.id = s.run AND r.shard = s.shard AND r.state = 'submitted'
WHERE r.id IS NULL ORDER BY s.shard, s.run LIMIT $1;

-- name: missingSubmitted
SELECT r.id FROM unfinished a JOIN run r ON r.id = a.run
WHERE r.state = 'submitted' AND NOT EXISTS (SELECT FROM submitted s WHERE s.shard = r.shard AND s.run = r.id)
ORDER BY a.shard, a.run LIMIT $1;

-- name: miscounted
SELECT s.id, s.workflows, count(w.id)
FROM shard s LEFT JOIN (SELECT id, shard FROM workflow WHERE state <> 'deleted' ORDER BY namespace, name) w ON w.shard = s.id
GROUP BY s.id HAVING s.workflows <> count(w.id) ORDER BY s.id;
