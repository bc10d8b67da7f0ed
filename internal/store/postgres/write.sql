-- The statements of writers. Rows are sent by columns: an array for a column whose values differ. For
-- another column it is NULL and, as the next parameter, the one value of all rows. The first column is
-- always an array. must raises an error if an update does not find every row in the state that its owner
-- expects.

-- name: fence
-- The rows are locked in the order of their ids first, because an UPDATE takes its rows in any order. The
-- watermark only rises.
WITH held AS MATERIALIZED (
  SELECT s.id FROM shard s JOIN unnest($1::int[], $2::bigint[], $4::bigint[]) x (id, epoch, seq)
    ON s.id = x.id AND s.epoch = coalesce(x.epoch, $3) AND s.seq = coalesce(x.seq, $5)
  ORDER BY s.id FOR NO KEY UPDATE OF s
), moved AS (
  UPDATE shard s SET seq = s.seq + 1, watermark = greatest(s.watermark, $6) FROM held WHERE s.id = held.id RETURNING 1
)
SELECT must(count(*) = cardinality($1), 'a shard is not as its owner believes') FROM moved;

-- name: attemptsThere
SELECT run, task, token FROM attempt WHERE run = ANY ($1::uuid[]);

-- name: held
-- It tells whether a fence would hold.
SELECT must(count(*) = cardinality($1), 'a shard is not as its owner believes')
FROM unnest($1::int[], $2::bigint[], $3::bigint[]) x (id, epoch, seq) JOIN shard s ON s.id = x.id AND s.epoch = x.epoch AND s.seq = x.seq;

-- name: hold
-- A transaction that is written ahead begins with this statement, and its fence comes last. A new owner of
-- a shard waits for it. The transaction before it does not.
WITH held AS MATERIALIZED (
  SELECT s.id FROM shard s JOIN unnest($1::int[], $2::bigint[]) x (id, epoch) ON s.id = x.id AND s.epoch = x.epoch ORDER BY s.id FOR KEY SHARE OF s
)
SELECT must(count(*) = cardinality($1), 'a shard is not as its owner believes') FROM held;

-- name: clock
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

-- name: insertRun
INSERT INTO run (id, shard, workflow, version, priority, origin, username, key, key_hash, params, fire, created, first_seq,
  first_at, events_first, state, intent, generation, cause, message, graph, base, final, split, started, finished,
  leader, leader_at, claim, hands)
SELECT x.id, coalesce(x.shard, $3), coalesce(x.workflow, $5), coalesce(x.version, $7), coalesce(x.priority, $9),
  coalesce(x.origin, $11), coalesce(x.username, $13), coalesce(x.key, $15), coalesce(x.key_hash, $17),
  coalesce(x.params, $19), coalesce(x.fire, $21), coalesce(x.created, $23), coalesce(x.first_seq, $25),
  coalesce(x.first_at, $27), coalesce(x.events_first, $29), coalesce(x.state, $31), coalesce(x.intent, $33),
  coalesce(x.generation, $35), coalesce(x.cause, $37), coalesce(x.message, $39), coalesce(x.graph, $41),
  coalesce(x.base, $43), coalesce(x.final, $45), coalesce(x.split, $47), coalesce(x.started, $49),
  coalesce(x.finished, $51), coalesce(x.leader, $53), coalesce(x.leader_at, $55),
  coalesce(x.claim, $57), coalesce(x.hands, $59)
FROM unnest($1::uuid[], $2::int[], $4::bigint[], $6::int[], $8::text[], $10::text[], $12::text[], $14::text[], $16::bytea[],
  $18::bytea[], $20::bytea[], $22::bigint[], $24::bigint[], $26::bigint[], $28::bytea[], $30::text[], $32::text[],
  $34::int[], $36::text[], $38::text[], $40::bytea[], $42::bytea[], $44::bytea[], $46::bigint[], $48::bigint[],
  $50::bigint[], $52::bigint[], $54::bigint[], $56::bytea[], $58::bytea[])
  x (id, shard, workflow, version, priority, origin, username, key, key_hash, params, fire, created, first_seq,
  first_at, events_first, state, intent, generation, cause, message, graph, base, final, split, started, finished,
  leader, leader_at, claim, hands);

-- name: updateRun
-- The history of a run's first end is written into its row, once.
WITH changed AS (
  UPDATE run r SET state = coalesce(x.state, $7), intent = coalesce(x.intent, $9), generation = coalesce(x.generation, $11),
    cause = coalesce(x.cause, $13), message = coalesce(x.message, $15), graph = coalesce(x.graph, $17),
    base = coalesce(x.base, $19), final = coalesce(x.final, $21), split = coalesce(x.split, $23),
    started = coalesce(x.started, $25), finished = coalesce(x.finished, $27), leader = coalesce(x.leader, $29),
    leader_at = coalesce(x.leader_at, $31), last_seq = coalesce(x.last_seq, $33, r.last_seq),
    last_at = coalesce(x.last_at, $35, r.last_at), events_last = coalesce(x.events_last, $37, r.events_last),
    claim = coalesce(x.claim, $39), ends = coalesce(x.ends, $41, r.ends)
  FROM unnest($1::uuid[], $2::int[], $4::text[], $6::text[], $8::text[], $10::int[], $12::text[], $14::text[], $16::bytea[],
    $18::bytea[], $20::bytea[], $22::bigint[], $24::bigint[], $26::bigint[], $28::bigint[], $30::bigint[],
    $32::bigint[], $34::bigint[], $36::bytea[], $38::bytea[], $40::bytea[])
    x (id, shard, was, state, intent, generation, cause, message, graph, base, final, split, started, finished, leader,
    leader_at, last_seq, last_at, events_last, claim, ends)
  WHERE r.id = x.id AND r.shard = coalesce(x.shard, $3) AND r.state = coalesce(x.was, $5)
    AND (r.last_seq IS NULL OR coalesce(x.last_seq, $33) IS NULL)
  RETURNING 1
)
SELECT must(count(*) = cardinality($1), 'a run is not as its owner believes') FROM changed;

-- name: fillRun
-- The parameters as skein_enqueue gave them are counted already. Only a start of it is completed, so this costs no other run.
WITH x AS MATERIALIZED (
  SELECT x.id, coalesce(x.params, $3) AS params FROM unnest($1::uuid[], $2::bytea[]) x (id, params)
), more AS MATERIALIZED (
  SELECT w.namespace, r.shard, sum(CASE WHEN octet_length(x.params) >= 1024 THEN octet_length(x.params) ELSE 0 END
    - CASE WHEN octet_length(r.params) >= 1024 THEN octet_length(r.params) ELSE 0 END) AS bytes
  FROM x JOIN run r ON r.id = x.id JOIN workflow w ON w.id = r.workflow GROUP BY w.namespace, r.shard
), filled AS (
  UPDATE run r SET params = x.params FROM x WHERE r.id = x.id
)
INSERT INTO namespace_stock AS s (namespace, shard, part, versions, triggers, bytes)
SELECT namespace, shard, 0, 0, 0, bytes FROM more WHERE bytes <> 0 ORDER BY namespace, shard
ON CONFLICT (namespace, shard, part) DO UPDATE SET bytes = s.bytes + excluded.bytes;

-- name: enlist
INSERT INTO active (run, shard) SELECT x.run, coalesce(x.shard, $3) FROM unnest($1::uuid[], $2::int[]) x (run, shard);

-- name: strike
DELETE FROM active a USING unnest($1::uuid[], $2::int[]) x (run, shard) WHERE a.shard = coalesce(x.shard, $3) AND a.run = x.run;

-- name: unpackWaves
WITH gone AS (DELETE FROM wave WHERE shard = ANY ($1::int[]) RETURNING shard, runs)
INSERT INTO active (run, shard)
SELECT r.id, g.shard FROM gone g CROSS JOIN LATERAL unnest(g.runs) u (run) JOIN run r ON r.id = u.run WHERE r.finished = 0
ON CONFLICT DO NOTHING;

-- name: unpackOwned
-- It unpacks only the waves of shards that the new owner has.
WITH gone AS (DELETE FROM wave WHERE shard IN (SELECT id FROM shard WHERE id = ANY ($1::int[]) AND owner = $2) RETURNING shard, runs)
INSERT INTO active (run, shard)
SELECT r.id, g.shard FROM gone g CROSS JOIN LATERAL unnest(g.runs) u (run) JOIN run r ON r.id = u.run WHERE r.finished = 0
ON CONFLICT DO NOTHING;

-- name: insertWave
INSERT INTO wave (shard, seq, runs) VALUES ($1, $2, $3);

-- name: dropWaves
DELETE FROM wave w USING unnest($1::int[], $2::bigint[]) g (shard, seq) WHERE w.shard = g.shard AND w.seq = g.seq;

-- name: relist
INSERT INTO active (run, shard) SELECT x.run, coalesce(x.shard, $3) FROM unnest($1::uuid[], $2::int[]) x (run, shard)
ON CONFLICT DO NOTHING;

-- name: insertAttempt, firstAttempt
-- firstAttempt writes the row of an attempt that was assigned without a row. If there is a row, the
-- statement is refused: the attempt is not in the state that its owner expects.
INSERT INTO attempt (run, task, token, generation, handler, assigned, state, cause, message, exit_code, signal,
  outputs, started, finished, retry_at, retry_wait)
SELECT x.run, coalesce(x.task, $3), coalesce(x.token, $5), coalesce(x.generation, $7), coalesce(x.handler, $9),
  coalesce(x.assigned, $11), coalesce(x.state, $13), coalesce(x.cause, $15), coalesce(x.message, $17),
  coalesce(x.exit_code, $19), coalesce(x.signal, $21), coalesce(x.outputs, $23), coalesce(x.started, $25),
  coalesce(x.finished, $27), coalesce(x.retry_at, $29), coalesce(x.retry_wait, $31)
FROM unnest($1::uuid[], $2::int[], $4::int[], $6::int[], $8::bigint[], $10::bigint[], $12::text[], $14::text[],
  $16::text[], $18::int[], $20::text[], $22::bytea[], $24::bigint[], $26::bigint[], $28::bigint[], $30::bigint[])
  x (run, task, token, generation, handler, assigned, state, cause, message, exit_code, signal, outputs, started,
  finished, retry_at, retry_wait);

-- name: updateAttempt
WITH changed AS (
  UPDATE attempt a SET state = coalesce(x.state, $11), cause = coalesce(x.cause, $13), message = coalesce(x.message, $15),
    exit_code = coalesce(x.exit_code, $17), signal = coalesce(x.signal, $19), outputs = coalesce(x.outputs, $21),
    started = coalesce(x.started, $23), finished = coalesce(x.finished, $25), retry_at = coalesce(x.retry_at, $27),
    retry_wait = coalesce(x.retry_wait, $29)
  FROM unnest($1::uuid[], $2::int[], $4::int[], $6::bigint[], $8::text[], $10::text[], $12::text[], $14::text[],
    $16::int[], $18::text[], $20::bytea[], $22::bigint[], $24::bigint[], $26::bigint[], $28::bigint[])
    x (run, task, token, handler, was, state, cause, message, exit_code, signal, outputs, started, finished, retry_at,
    retry_wait)
  WHERE a.run = x.run AND a.task = coalesce(x.task, $3) AND a.token = coalesce(x.token, $5)
    AND a.handler = coalesce(x.handler, $7) AND a.state = coalesce(x.was, $9)
  RETURNING 1
)
SELECT must(count(*) = cardinality($1), 'an attempt is not as its owner believes') FROM changed;

-- name: insertEvent
-- The history of a run is numbered by its shard. The fence comes first and has moved that number already.
WITH written AS (
  INSERT INTO event (run, seq, at, records, hands)
  SELECT r.id, s.seq, coalesce(x.at, $3), coalesce(x.records, $5), coalesce(x.hands, $7)
  FROM unnest($1::uuid[], $2::bigint[], $4::bytea[], $6::bytea[]) x (run, at, records, hands)
    JOIN run r ON r.id = x.run JOIN shard s ON s.id = r.shard AND s.id = ANY ($8::int[])
  RETURNING 1
)
SELECT must(count(*) = cardinality($1), 'a run of these events is not its owner''s') FROM written;

-- name: insertEventAhead
-- The same statement before the fence: it uses the numbers that the fence will give.
WITH written AS (
  INSERT INTO event (run, seq, at, records, hands)
  SELECT r.id, s.seq, coalesce(x.at, $3), coalesce(x.records, $5), coalesce(x.hands, $7)
  FROM unnest($1::uuid[], $2::bigint[], $4::bytea[], $6::bytea[]) x (run, at, records, hands)
    JOIN run r ON r.id = x.run JOIN (SELECT unnest($8::int[]) AS id, unnest($9::bigint[]) AS seq) s ON s.id = r.shard
  RETURNING 1
)
SELECT must(count(*) = cardinality($1), 'a run of these events is not its owner''s') FROM written;

-- name: insertWorkflow
INSERT INTO workflow (id, shard, namespace, name, state, version, latest, max_runs, revision, created, modified, tags)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12);

-- name: updateWorkflow
WITH changed AS (
  UPDATE workflow SET state = $2, version = $3, latest = $4, max_runs = $5, revision = $6, modified = $7, tags = $8
  WHERE id = $1 AND revision = $6::bigint - 1 RETURNING 1
)
SELECT must(count(*) = 1, 'a workflow is not as its owner believes') FROM changed;

-- name: insertVersion
INSERT INTO version (workflow, version, source, def, graph, digest, username, created)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8);

-- name: insertFile
INSERT INTO version_file (name, workflow, version, mode, data)
SELECT x.name, coalesce(x.workflow, $3), coalesce(x.version, $5), coalesce(x.mode, $7), coalesce(x.data, $9)
FROM unnest($1::text[], $2::bigint[], $4::int[], $6::bigint[], $8::bytea[]) x (name, workflow, version, mode, data);

-- name: insertRequest
INSERT INTO request (scope, key, hash, answer, created)
SELECT x.scope, coalesce(x.key, $3), coalesce(x.hash, $5), coalesce(x.answer, $7), coalesce(x.created, $9)
FROM unnest($1::text[], $2::text[], $4::bytea[], $6::bytea[], $8::bigint[]) x (scope, key, hash, answer, created);

-- name: insertMessage
-- The ids rise in the order of the batch.
INSERT INTO message (sender, target, payload, created)
SELECT coalesce(x.sender, $3), coalesce(x.target, $5), coalesce(x.payload, $7), coalesce(x.created, $9)
FROM unnest($1::int[], $2::int[], $4::int[], $6::bytea[], $8::bigint[]) x (n, sender, target, payload, created)
ORDER BY x.n;

-- name: consumeMessages
WITH gone AS (DELETE FROM message WHERE id = ANY ($1::bigint[]) AND target = ANY ($2::int[]) RETURNING 1)
SELECT must(count(*) = cardinality($1), 'a message is gone, or another shard''s') FROM gone;

-- name: raise
-- The era is the upper half of every epoch, and its floor the upper 12 bits of the rest: see store.EpochOf.
-- The statement waits for writers with locks, and reads the epochs after that.
WITH held AS MATERIALIZED (SELECT id, epoch FROM shard ORDER BY id FOR UPDATE),
is_now AS (SELECT max(epoch) / 4294967296 AS era, max(epoch) % 4294967296 / 1048576 AS floor FROM held),
raised AS (
  UPDATE shard s SET epoch = $2::bigint * 4294967296 + CASE WHEN $1::bigint = $2::bigint THEN ($2::bigint + 1) * 1048576 ELSE 0 END
  FROM held, is_now WHERE s.id = held.id AND is_now.era = $1::bigint AND ($1::bigint <> $2::bigint OR is_now.floor NOT IN (0, $2::bigint + 1))
  RETURNING s.id
), told AS (
  INSERT INTO message (sender, target, payload, created)
  SELECT id, id, $3::bytea, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint FROM raised WHERE $3::bytea IS NOT NULL
)
SELECT CASE WHEN EXISTS (SELECT FROM raised) THEN $2::bigint ELSE era END FROM is_now;

-- name: firstEra
INSERT INTO era (era, system, timeline, made, began, epochs, seqs)
SELECT coalesce(max(epoch), 0) / 4294967296, $1::text, $2::bigint, made_of('shard'),
  (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, '{}', '{}' FROM shard;

-- name: nameSystem
-- The user that began the era could not read the identifier of the server.
UPDATE era SET system = $1::text WHERE era = (SELECT max(era) FROM era) AND system = '' AND timeline = $2::bigint AND timeline > 0;

-- name: beginEra
-- It raises the epochs of all shards as raise does, keeps the floor, and keeps the marks at the end of the
-- era before. Those of eras before the floor are not compared again. A row of this era or of a later one is of
-- a history that the rows of the shards do not continue.
WITH held AS MATERIALIZED (SELECT id, epoch, seq FROM shard ORDER BY id FOR UPDATE),
top AS (SELECT max(epoch) / 4294967296 AS era, max(epoch) % 4294967296 / 1048576 AS floor FROM held),
is_now AS (SELECT era, CASE floor WHEN 0 THEN era ELSE floor - 1 END AS floor FROM top),
raised AS (
  UPDATE shard s SET epoch = $2::bigint * 4294967296 + (is_now.floor + 1) * 1048576
  FROM held, is_now WHERE s.id = held.id AND is_now.era = $1::bigint RETURNING s.id
), old AS (
  DELETE FROM era e USING is_now WHERE (e.era <= is_now.floor OR e.era > $2::bigint) AND is_now.era = $1::bigint
), new AS (
  INSERT INTO era (era, system, timeline, made, began, epochs, seqs)
  SELECT $2::bigint, $3::text, $4::bigint, made_of('shard'), (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
    (SELECT array_agg(epoch ORDER BY id) FROM held), (SELECT array_agg(seq ORDER BY id) FROM held)
  FROM is_now WHERE is_now.era = $1::bigint
  ON CONFLICT (era) DO UPDATE SET system = excluded.system, timeline = excluded.timeline, made = excluded.made,
    began = excluded.began, epochs = excluded.epochs, seqs = excluded.seqs
)
SELECT count(*) FROM raised;

-- name: acquire
-- The rows are locked in the order of their ids, as the fence does. The statement waits for writers with
-- locks, also for those of hold.
WITH held AS MATERIALIZED (SELECT id, owner FROM shard WHERE id = ANY ($1::int[]) ORDER BY id FOR UPDATE)
UPDATE shard s SET epoch = next_epoch(s.epoch), owner = $2 FROM held WHERE s.id = held.id
RETURNING s.id, s.epoch, s.seq, s.watermark, held.owner, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

-- name: insertHandler
INSERT INTO handler (uuid, node, started)
VALUES ($1::text::uuid, $2, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
RETURNING id, uuid::text, node, started;

-- The following statements write triggers, their ledger and backfills.

-- name: insertTrigger
INSERT INTO trigger (name, workflow, shard, created, kind, state, hears, revision, version, actor, reason, next, decided, since, fired,
  max_runs, modified, data, spec)
SELECT x.name, coalesce(x.workflow, $3), coalesce(x.shard, $5), coalesce(x.created, $7), coalesce(x.kind, $9),
  coalesce(x.state, $11), coalesce(x.hears, $13), coalesce(x.revision, $15), coalesce(x.version, $17),
  coalesce(x.actor, $19), coalesce(x.reason, $21), coalesce(x.next, $23), coalesce(x.decided, $25),
  coalesce(x.since, $27), coalesce(x.fired, $29), coalesce(x.max_runs, $31), coalesce(x.modified, $33),
  coalesce(x.data, $35), coalesce(x.spec, $37)
FROM unnest($1::text[], $2::bigint[], $4::int[], $6::bigint[], $8::text[], $10::text[], $12::text[], $14::bigint[], $16::int[],
  $18::text[], $20::text[], $22::bigint[], $24::bigint[], $26::bigint[], $28::bigint[], $30::int[], $32::bigint[],
  $34::bytea[], $36::bytea[])
  x (name, workflow, shard, created, kind, state, hears, revision, version, actor, reason, next, decided, since, fired,
  max_runs, modified, data, spec);

-- name: updateTrigger
WITH changed AS (
  UPDATE trigger t SET kind = coalesce(x.kind, $5), state = coalesce(x.state, $7), hears = coalesce(x.hears, $9),
    revision = coalesce(x.revision, $11), version = coalesce(x.version, $13), actor = coalesce(x.actor, $15),
    reason = coalesce(x.reason, $17), next = coalesce(x.next, $19), decided = coalesce(x.decided, $21),
    since = coalesce(x.since, $23), fired = coalesce(x.fired, $25), max_runs = coalesce(x.max_runs, $27),
    modified = coalesce(x.modified, $29), data = coalesce(x.data, $31), spec = coalesce(x.spec, $33)
  FROM unnest($1::text[], $2::bigint[], $4::text[], $6::text[], $8::text[], $10::bigint[], $12::int[], $14::text[],
    $16::text[], $18::bigint[], $20::bigint[], $22::bigint[], $24::bigint[], $26::int[], $28::bigint[], $30::bytea[],
    $32::bytea[])
    x (name, workflow, kind, state, hears, revision, version, actor, reason, next, decided, since, fired, max_runs,
    modified, data, spec)
  WHERE t.name = x.name AND t.workflow = coalesce(x.workflow, $3) AND t.revision = coalesce(x.revision, $11) - 1
  RETURNING 1
)
SELECT must(count(*) = cardinality($1), 'a trigger is not as its owner believes') FROM changed;

-- name: deleteTrigger
WITH gone AS (
  DELETE FROM trigger t USING unnest($1::text[], $2::bigint[], $4::bigint[]) x (name, workflow, revision)
  WHERE t.name = x.name AND t.workflow = coalesce(x.workflow, $3) AND t.revision = coalesce(x.revision, $5)
  RETURNING 1
)
SELECT must(count(*) = cardinality($1), 'a trigger is not as its owner believes') FROM gone;

-- name: unhear
DELETE FROM trigger_on t USING unnest($1::text[], $2::bigint[]) x (name, workflow)
WHERE t.name = x.name AND t.workflow = coalesce(x.workflow, $3);

-- name: hear
INSERT INTO trigger_on (name, workflow, target)
SELECT x.name, coalesce(x.workflow, $3), coalesce(x.target, $5)
FROM unnest($1::text[], $2::bigint[], $4::text[])
  x (name, workflow, target)
ON CONFLICT DO NOTHING;

-- name: insertFire
INSERT INTO fire (trigger, workflow, at, key, last, count, outcome, reason, run, decided)
SELECT x.trigger, coalesce(x.workflow, $3), coalesce(x.at, $5), coalesce(x.key, $7), coalesce(x.last, $9),
  coalesce(x.count, $11), coalesce(x.outcome, $13), coalesce(x.reason, $15), coalesce(x.run, $17),
  coalesce(x.decided, $19)
FROM unnest($1::text[], $2::bigint[], $4::bigint[], $6::text[], $8::bigint[], $10::bigint[], $12::text[], $14::text[],
  $16::uuid[], $18::bigint[])
  x (trigger, workflow, at, key, last, count, outcome, reason, run, decided);

-- name: updateFire
WITH changed AS (
  UPDATE fire t SET last = coalesce(x.last, $13), count = coalesce(x.count, $15), outcome = coalesce(x.outcome, $17),
    reason = coalesce(x.reason, $19), run = coalesce(x.run, $21), decided = coalesce(x.decided, $23)
  FROM unnest($1::text[], $2::bigint[], $4::bigint[], $6::text[], $8::text[], $10::bigint[], $12::bigint[], $14::bigint[],
    $16::text[], $18::text[], $20::uuid[], $22::bigint[])
    x (trigger, workflow, at, key, was_outcome, was_count, last, count, outcome, reason, run, decided)
  WHERE t.trigger = x.trigger AND t.workflow = coalesce(x.workflow, $3) AND t.at = coalesce(x.at, $5) AND t.key = coalesce(x.key, $7) AND t.outcome = coalesce(x.was_outcome, $9) AND t.count = coalesce(x.was_count, $11)
  RETURNING 1
)
SELECT must(count(*) = cardinality($1), 'a line of the ledger is not as its owner believes') FROM changed;

-- name: insertBackfill
INSERT INTO backfill (id, state, started, ended, failed, parallel, revision, modified, workflow, shard, trigger, total, username,
  created, spec, instants)
SELECT x.id, coalesce(x.state, $3), coalesce(x.started, $5), coalesce(x.ended, $7), coalesce(x.failed, $9),
  coalesce(x.parallel, $11), coalesce(x.revision, $13), coalesce(x.modified, $15), coalesce(x.workflow, $17),
  coalesce(x.shard, $19), coalesce(x.trigger, $21), coalesce(x.total, $23), coalesce(x.username, $25),
  coalesce(x.created, $27), coalesce(x.spec, $29), coalesce(x.instants, $31)
FROM unnest($1::bigint[], $2::text[], $4::bigint[], $6::bigint[], $8::bigint[], $10::int[], $12::bigint[], $14::bigint[],
  $16::bigint[], $18::int[], $20::text[], $22::bigint[], $24::text[], $26::bigint[], $28::bytea[], $30::bytea[])
  x (id, state, started, ended, failed, parallel, revision, modified, workflow, shard, trigger, total, username,
  created, spec, instants);

-- name: updateBackfill
WITH changed AS (
  UPDATE backfill t SET state = coalesce(x.state, $3), started = coalesce(x.started, $5), ended = coalesce(x.ended, $7),
    failed = coalesce(x.failed, $9), parallel = coalesce(x.parallel, $11), revision = coalesce(x.revision, $13),
    modified = coalesce(x.modified, $15)
  FROM unnest($1::bigint[], $2::text[], $4::bigint[], $6::bigint[], $8::bigint[], $10::int[], $12::bigint[], $14::bigint[])
    x (id, state, started, ended, failed, parallel, revision, modified)
  WHERE t.id = x.id AND t.revision = coalesce(x.revision, $13) - 1
  RETURNING 1
)
SELECT must(count(*) = cardinality($1), 'a backfill is not as its owner believes') FROM changed;

-- name: insertBackfillRun
INSERT INTO backfill_run (backfill, instant, workflow, run)
SELECT x.backfill, coalesce(x.instant, $3), coalesce(x.workflow, $5), coalesce(x.run, $7)
FROM unnest($1::bigint[], $2::bigint[], $4::bigint[], $6::uuid[])
  x (backfill, instant, workflow, run);

-- name: listStates
-- It lists the next older runs. NOWAIT makes it fail if another transaction holds a row: to wait with
-- locked rows could cause a deadlock.
WITH at AS (
  SELECT listed FROM meta WHERE listed < 'ffffffff-ffff-ffff-ffff-ffffffffffff' FOR UPDATE SKIP LOCKED
), page AS MATERIALIZED (
  SELECT r.id FROM at CROSS JOIN LATERAL (SELECT id FROM run WHERE id < at.listed ORDER BY id DESC LIMIT $1) r
), found AS MATERIALIZED (
  SELECT r.id, r.workflow, r.state FROM page JOIN run r ON r.id = page.id WHERE r.state IN ('failed', 'stopped', 'skipped') FOR SHARE OF r NOWAIT
), listed AS (
  INSERT INTO unsuccessful (run, workflow, state) SELECT id, workflow, state FROM found ON CONFLICT DO NOTHING
)
UPDATE meta SET listed = (SELECT id FROM page ORDER BY id LIMIT 1) FROM at RETURNING meta.listed IS NOT NULL;

-- name: listState
INSERT INTO unsuccessful (run, workflow, state) SELECT r.id, r.workflow, coalesce(x.state, $3)
FROM unnest($1::uuid[], $2::text[]) x (run, state) JOIN run r ON r.id = x.run
ON CONFLICT DO NOTHING;

-- name: listTag
INSERT INTO run_tag (run, tag) SELECT x.run, coalesce(x.tag, $3) FROM unnest($1::uuid[], $2::bytea[]) x (run, tag);

-- name: unlistState
DELETE FROM unsuccessful u USING unnest($1::uuid[], $2::text[]) x (run, state) WHERE u.state = coalesce(x.state, $3) AND u.run = x.run;
