-- The statements of a writer's transaction. Values are bound by position (?1 …).

-- name: fence
UPDATE shard SET seq = seq + 1 WHERE id = ?1 AND epoch = ?2 AND seq = ?3;

-- name: acquire
UPDATE shard SET epoch = epoch + 1, owner = ?2 WHERE id = ?1;

-- name: raise
UPDATE shard SET epoch = ?2 WHERE id = ?1;

-- name: insertRun
INSERT INTO run (id, shard, workflow, version, priority, origin, user, key, key_hash, params, created,
  first_seq, first_at, events_first, state, intent, generation, cause, message, graph, base, final,
  split, started, finished, leader, leader_at, fire, claim, hands, n)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22,
  ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31);

-- name: insertKey
INSERT INTO run_key (workflow, key, run) VALUES (?1, ?2, ?3);

-- name: insertHash
INSERT INTO run_hash (hash, run) VALUES (?1, ?2) ON CONFLICT DO NOTHING;

-- name: insertHashes
INSERT INTO run_hash (hash, run) VALUES (?1, ?2), (?3, ?4), (?5, ?6), (?7, ?8), (?9, ?10), (?11, ?12), (?13, ?14), (?15, ?16)
ON CONFLICT DO NOTHING;

-- name: hashOfRun
SELECT 1 FROM run_hash WHERE hash = ?1 AND run = ?2;

-- name: hashesThere
SELECT 1 FROM (VALUES (?1), (?2), (?3), (?4), (?5), (?6), (?7), (?8)) v CROSS JOIN run_hash h ON h.hash = v.column1 LIMIT 1;

-- name: hashThere
SELECT 1 FROM run_hash WHERE hash = ?1;

-- name: keyTaken
SELECT 1 FROM run_hash h CROSS JOIN run r ON r.n = h.run WHERE h.hash = ?3 AND r.workflow = ?1 AND r.key = ?2
UNION ALL SELECT 1 FROM run_key WHERE workflow = ?1 AND key = ?2;

-- name: expireHash
DELETE FROM run_hash WHERE hash = ?1 AND run = ?2;

-- name: keyed
UPDATE meta SET keyed = ?1;

-- name: keyThere
SELECT 1 FROM run_key WHERE workflow = ?1 AND key = ?2;

-- name: runNumber
SELECT n FROM run WHERE id = ?1;

-- name: updateRun
UPDATE run SET state = ?4, intent = ?5, generation = ?6, cause = ?7, message = ?8, graph = ?9, base = ?10, final = ?11,
  split = ?12, started = ?13, finished = ?14, leader = ?15, leader_at = ?16, claim = ?17
WHERE n = ?1 AND shard = ?2 AND state = ?3;

-- name: beginRun
-- A run that waited, or that another caller than the owner inserted, begins: the history of the
-- transaction goes into the row.
UPDATE run SET state = ?4, intent = ?5, generation = ?6, cause = ?7, message = ?8, graph = ?9, base = ?10, final = ?11,
  split = ?12, started = ?13, finished = ?14, leader = ?15, leader_at = ?16, claim = ?17,
  begun_seq = ?18, begun_at = ?19, events_begun = ?20, hands_begun = ?21
WHERE n = ?1 AND shard = ?2 AND state = ?3 AND generation = 1 AND begun_seq IS NULL;

-- name: fillRun
UPDATE run SET params = ?2 WHERE n = ?1;

-- name: endRun
-- The first end of a run: the history of the transaction goes into the row.
UPDATE run SET state = ?4, intent = ?5, generation = ?6, cause = ?7, message = ?8, graph = ?9, base = ?10, final = ?11,
  split = ?12, started = ?13, finished = ?14, leader = ?15, leader_at = ?16, claim = ?17,
  last_seq = ?18, last_at = ?19, events_last = ?20, ends = ?21
WHERE n = ?1 AND shard = ?2 AND state = ?3 AND generation = 1 AND last_seq IS NULL;

-- name: insertAttempt
INSERT INTO attempt (run, task, token, generation, handler, assigned, state, cause, message, exit_code, signal,
  outputs, started, finished, retry_at, retry_wait)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16);

-- name: firstAttempt
-- The first row of an attempt. If there is a row already, the owner's memory is wrong.
INSERT INTO attempt (run, task, token, generation, handler, assigned, state, cause, message, exit_code, signal,
  outputs, started, finished, retry_at, retry_wait)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16) ON CONFLICT DO NOTHING;

-- name: attemptsThere
SELECT task, token FROM attempt WHERE run = ?1;

-- name: packedOfRun
SELECT hands FROM run WHERE n = ?1 AND hands IS NOT NULL
UNION ALL SELECT ends FROM run WHERE n = ?1 AND ends IS NOT NULL
UNION ALL SELECT hands_begun FROM run WHERE n = ?1 AND hands_begun IS NOT NULL
UNION ALL SELECT hands FROM event WHERE run = ?1 AND hands IS NOT NULL;

-- name: updateAttempt
UPDATE attempt SET state = ?6, cause = ?7, message = ?8, exit_code = ?9, signal = ?10, outputs = ?11, started = ?12,
  finished = ?13, retry_at = ?14, retry_wait = ?15
WHERE run = ?1 AND task = ?2 AND token = ?3 AND handler = ?4 AND state = ?5;

-- name: insertEvent
INSERT INTO event (run, seq, at, records, hands)
VALUES (?1, ?2, ?3, ?4, ?5);

-- name: readRoll
SELECT bits FROM roll WHERE list = ?1 AND page = ?2;

-- name: writeRoll
INSERT INTO roll (list, page, bits) VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET bits = excluded.bits;

-- name: dropRoll
DELETE FROM roll WHERE list = ?1 AND page = ?2;

-- name: insertWorkflow
INSERT INTO workflow (id, shard, namespace, name, state, version, latest, revision, created, modified, max_runs, tags)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12);

-- name: updateWorkflow
UPDATE workflow SET state = ?2, version = ?3, latest = ?4, revision = ?5, modified = ?6, max_runs = ?7, tags = ?8
WHERE id = ?1 AND revision = ?5 - 1;

-- name: insertVersion
INSERT INTO version (workflow, version, source, def, graph, digest, user, created)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8);

-- name: insertFile
INSERT INTO version_file (workflow, version, name, mode, data)
VALUES (?1, ?2, ?3, ?4, ?5);

-- name: insertRequest
INSERT INTO request (scope, key, hash, answer, created)
VALUES (?1, ?2, ?3, ?4, ?5);

-- name: insertMessage
INSERT INTO message (sender, target, payload, created)
VALUES (?1, ?2, ?3, ?4);

-- name: consumeMessage
DELETE FROM message WHERE id = ?1;

-- name: insertHandler
INSERT INTO handler (uuid, node, started) VALUES (?1, ?2, ?3);

-- name: holdShard
UPDATE shard SET owner = owner WHERE id = ?1 AND owner = ?2;

-- name: expireRun
DELETE FROM run WHERE n = ?1 AND finished > 0 AND state = ?2;

-- name: expireKey
DELETE FROM run_key WHERE workflow = ?1 AND key = ?2 AND run = ?3;

-- name: expireAttempts
DELETE FROM attempt WHERE run = ?1;

-- name: expireEvents
DELETE FROM event WHERE run = ?1;

-- name: expireFiles
DELETE FROM version_file WHERE workflow = ?1 AND version IN (
  SELECT v.version FROM version v JOIN workflow w ON w.id = v.workflow
  WHERE v.workflow = ?1 AND v.version < min(?2, w.version, w.latest - ?5 + 1)
    AND EXISTS (SELECT 1 FROM version s WHERE s.workflow = ?1 AND s.version > v.version AND s.created < ?3)
  ORDER BY v.version LIMIT +?4);

-- name: expireVersions
DELETE FROM version WHERE workflow = ?1 AND version IN (
  SELECT v.version FROM version v JOIN workflow w ON w.id = v.workflow
  WHERE v.workflow = ?1 AND v.version < min(?2, w.version, w.latest - ?5 + 1)
    AND EXISTS (SELECT 1 FROM version s WHERE s.workflow = ?1 AND s.version > v.version AND s.created < ?3)
  ORDER BY v.version LIMIT +?4);

-- name: insertToken
INSERT INTO token (kind, name, hash, created, expires, revoked, actor, principal, verbs, namespaces, maker, parent, worker_groups, worker_slots, uses)
SELECT ?1, ?2, ?3, ?4, ?5, 0, ?6, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15 WHERE (SELECT count(*) FROM token) < ?7;

-- name: replaceToken
UPDATE token SET replaced = ?2, expires = iif(expires = 0, ?3, min(expires, ?3))
WHERE id = ?1 AND revoked = 0 AND replaced = 0 AND (expires = 0 OR expires > ?2) AND (SELECT count(*) FROM token) < ?4;

-- name: succeedToken
INSERT INTO token (kind, name, hash, created, expires, revoked, actor, principal, verbs, namespaces, maker, parent, replaces)
SELECT kind, name, ?2, ?3, ?4, 0, ?5, principal, verbs, namespaces, ?6, ?7, id FROM token WHERE id = ?1;

-- name: joinToken
INSERT INTO token (kind, name, hash, created, expires, revoked, actor, principal, verbs, namespaces, maker, parent, worker_groups, worker_slots, invite)
SELECT 'certificate', ?2, ?3, ?4, ?5, 0, actor, principal, verbs, namespaces, maker, parent, worker_groups, worker_slots, id FROM token WHERE id = ?1;

-- name: useInvite
UPDATE token SET used = used + 1 WHERE id = ?1;

-- name: moveNode
UPDATE token SET hash = ?2, expires = ?3 WHERE kind = 'certificate' AND name = ?1 AND revoked = 0 AND replaced = 0
  AND NOT EXISTS (SELECT 1 FROM token WHERE hash = ?2 AND revoked <> 0);

-- name: addNode
INSERT INTO token (kind, name, hash, created, expires, revoked, actor, principal, verbs, namespaces, maker, parent, worker_groups, worker_slots, uses)
SELECT 'certificate', ?1, ?2, ?4, ?3, 0, ?1, 0, '', '', 0, 0, '', 0, 0
WHERE NOT EXISTS (SELECT 1 FROM token WHERE hash = ?2) AND (SELECT count(*) FROM token) < ?5;

-- name: renewToken
UPDATE token SET expires = ?3 WHERE id = ?1 AND kind = 'certificate' AND revoked = 0 AND expires > ?2;

-- name: revokeToken
UPDATE token SET revoked = iif(revoked = 0, ?2, revoked) WHERE id = ?1;

-- name: dropOverSessions
DELETE FROM session WHERE expires <= ?1 OR code = 0 AND used <= ?2;

-- name: dropOldSessions
DELETE FROM session WHERE id IN (
  SELECT id FROM session WHERE principal = ?1 AND token = ?2 AND code = ?3 ORDER BY id DESC LIMIT -1 OFFSET ?4);

-- name: dropSessionsOf
DELETE FROM session WHERE principal = ?1 AND token = 0;

-- name: dropAllSessionsOf
DELETE FROM session WHERE principal = ?1;

-- name: insertSession
INSERT INTO session (hash, code, principal, token, created, used, expires, address, agent, parent, origin)
SELECT ?1, ?2, ?3, ?4, ?5, ?5, ?6, ?7, ?8, ?10, ?11 WHERE (SELECT count(*) FROM session) < ?9
  AND (?10 = 0 OR EXISTS (SELECT 1 FROM session WHERE id = ?10));

-- name: useSession
UPDATE session SET used = ?2 WHERE id = ?1;

-- name: endSession
DELETE FROM session WHERE id = ?1;

-- name: moveRights
UPDATE rights SET revision = revision + 1 WHERE one = 1 AND revision = ?1;

-- name: insertPrincipal
INSERT INTO principal (id, kind, name, state, created, actor) VALUES (?1, ?2, ?3, ?4, ?5, ?6);

-- name: setPrincipal
UPDATE principal SET name = ?2, state = ?3 WHERE id = ?1;

-- name: dropPrincipal
DELETE FROM principal WHERE id = ?1;

-- name: putPassword
INSERT INTO password (principal, hash, changed) SELECT ?1, ?2, ?3 WHERE EXISTS (SELECT 1 FROM principal WHERE id = ?1)
ON CONFLICT (principal) DO UPDATE SET hash = excluded.hash, changed = excluded.changed;

-- name: dropPassword
DELETE FROM password WHERE principal = ?1;

-- name: identify
INSERT INTO identity (principal, issuer, subject, source) SELECT ?1, ?2, ?3, ?4 WHERE EXISTS (SELECT 1 FROM principal WHERE id = ?1)
ON CONFLICT (issuer, subject) DO UPDATE SET principal = excluded.principal, source = excluded.source;

-- name: dropIdentities
DELETE FROM identity WHERE principal = ?1;

-- name: unbindPrincipal
DELETE FROM binding WHERE subject = ?1;

-- name: putRole
INSERT INTO role (name, verbs, created, actor) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (name) DO UPDATE SET verbs = excluded.verbs, actor = excluded.actor;

-- name: dropRole
DELETE FROM role WHERE name = ?1;

-- name: unbindRole
DELETE FROM binding WHERE role = ?1;

-- name: unbind
DELETE FROM binding WHERE subject = ?1 AND role = ?2 AND namespace = ?3;

-- name: bind
INSERT INTO binding (subject, role, namespace, expires, created, actor, source)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7 WHERE EXISTS (SELECT 1 FROM principal WHERE id = ?1)
ON CONFLICT (subject, role, namespace) DO UPDATE SET expires = excluded.expires, actor = excluded.actor, source = excluded.source;

-- name: putSecret
INSERT INTO secret (namespace, name, version, key, wrapped, data, actor, created, modified)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8 WHERE EXISTS (SELECT 1 FROM secret_key WHERE one = 1 AND id = ?4)
  AND ?3 = 1 + ifnull((SELECT version FROM secret WHERE namespace = ?1 AND name = ?2), 0)
  AND (?3 > 1 OR (SELECT count(*) FROM secret) < ?9)
ON CONFLICT (namespace, name) DO UPDATE SET version = excluded.version, key = excluded.key, wrapped = excluded.wrapped,
  data = excluded.data, actor = excluded.actor, modified = excluded.modified;

-- name: rewrapSecret
UPDATE secret SET key = ?5, wrapped = ?6 WHERE namespace = ?1 AND name = ?2 AND version = ?3 AND key = ?4;

-- name: dropSecret
DELETE FROM secret WHERE namespace = ?1 AND name = ?2;

-- name: setSecretKey
INSERT INTO secret_key (one, id, since) SELECT 1, ?1, ?3 WHERE ?2 = ifnull((SELECT id FROM secret_key WHERE one = 1), '')
ON CONFLICT (one) DO UPDATE SET id = excluded.id, since = excluded.since;

-- name: putClass
INSERT INTO class (name, cpu, memory, actor, created, modified)
SELECT ?1, ?2, ?3, ?4, ?5, ?5 WHERE (SELECT count(*) FROM class WHERE name <> ?1) < ?6
ON CONFLICT (name) DO UPDATE SET cpu = excluded.cpu, memory = excluded.memory, actor = excluded.actor, modified = excluded.modified;

-- name: putNamespace
INSERT INTO namespace (name, revision, runs, runs_per_hour, tasks, params_bytes, stored_bytes, versions, triggers, tokens, requests_per_minute, modified, actor, logs_per_day, isolation, allow_read, allow_write, egress, locks, run_as)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?15, ?16, ?17, ?18, ?19, ?20, ?21 WHERE ?2 = 1 + ifnull((SELECT revision FROM namespace WHERE name = ?1), 0)
  AND (?2 > 1 OR (SELECT count(*) FROM namespace) < ?14)
ON CONFLICT (name) DO UPDATE SET revision = excluded.revision, runs = excluded.runs, runs_per_hour = excluded.runs_per_hour,
  tasks = excluded.tasks, params_bytes = excluded.params_bytes, stored_bytes = excluded.stored_bytes,
  versions = excluded.versions, triggers = excluded.triggers, tokens = excluded.tokens,
  requests_per_minute = excluded.requests_per_minute, logs_per_day = excluded.logs_per_day, modified = excluded.modified, actor = excluded.actor,
  isolation = excluded.isolation, allow_read = excluded.allow_read, allow_write = excluded.allow_write, egress = excluded.egress, locks = excluded.locks, run_as = excluded.run_as;

-- name: putUse
INSERT INTO namespace_use (namespace, shard, runs, started, since, logged, day) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (namespace, shard) DO UPDATE SET runs = excluded.runs, started = excluded.started, since = excluded.since,
  logged = excluded.logged, day = excluded.day;

-- name: quotasOf
SELECT runs, runs_per_hour FROM namespace WHERE name = ?1;

-- name: putStock
INSERT INTO namespace_stock (namespace, versions, triggers, bytes) VALUES (?1, 0, 0, ?2)
ON CONFLICT (namespace) DO UPDATE SET bytes = bytes + excluded.bytes;

-- name: stockOf
SELECT n.stored_bytes, n.versions, n.triggers, s.versions, s.triggers, s.bytes
FROM namespace n JOIN namespace_stock s ON s.namespace = n.name WHERE n.name = ?1;

-- name: dropClass
DELETE FROM class WHERE name = ?1;

-- name: insertAudit
INSERT INTO audit (key, idx, hash, at, last, count, principal, kind, token, session, address, verb, action, object, namespace, outcome, request, detail)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18) ON CONFLICT (key) DO NOTHING;

-- name: indexAudit
UPDATE audit SET idx = ?2, hash = ?3 WHERE id = ?1 AND idx < 0;

-- name: moveAuditTree
INSERT INTO audit_tree AS t (one, size, first, head, edge, era, base)
SELECT 1, ?3, ?4, ?5, ?6, ?7, ?8
WHERE ?1 = ifnull((SELECT size FROM audit_tree WHERE one = 1), 0) AND ?2 = ifnull((SELECT first FROM audit_tree WHERE one = 1), 0)
ON CONFLICT (one) DO UPDATE SET size = excluded.size, first = excluded.first, head = excluded.head, edge = excluded.edge,
  era = excluded.era, base = excluded.base;

-- name: dropAudit
DELETE FROM audit WHERE idx >= 0 AND idx < ?1;

-- name: joinMember
INSERT INTO member (handler, uuid, name, version, format, state, slots, busy, beat, started, seen, home, lease, traits)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, coalesce((SELECT started FROM handler WHERE id = ?1), ?9), ?9, ?10, ?11, ?12
WHERE NOT EXISTS (SELECT 1 FROM member WHERE name = ?3 AND handler <> ?1)
ON CONFLICT (handler) DO UPDATE SET version = excluded.version, format = excluded.format, state = excluded.state, slots = excluded.slots,
  busy = excluded.busy, beat = beat + 1, seen = excluded.seen, home = excluded.home, lease = excluded.lease, traits = excluded.traits
WHERE name = excluded.name;

-- name: attachMember
UPDATE member SET home = ?3, slots = ?4, busy = ?5, traits = ?6, seen = ?7, lease = lease + 1, beat = beat + 1
WHERE handler = ?1 AND uuid = ?2 AND name = ?8;

-- name: leaveMember
DELETE FROM member WHERE handler = ?1;
