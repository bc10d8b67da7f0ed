-- The statements of readers. Each runs on a read-only connection, in pages.

-- name: shard
SELECT epoch, seq, owner, watermark FROM shard WHERE id = ?1;

-- name: runById
SELECT * FROM run WHERE id = ?1;

-- name: runByKey
SELECT r.* FROM run_key k CROSS JOIN run r ON r.n = k.run WHERE k.workflow = ?1 AND k.key = ?2;

-- name: runByHash
SELECT r.* FROM run_hash h CROSS JOIN run r ON r.n = h.run WHERE h.hash = ?3 AND r.workflow = ?1 AND r.key = ?2;

-- name: lateRunByKey
SELECT * FROM run WHERE n = ?3 AND workflow = ?1 AND key = ?2;

-- name: runByLateKey
-- For a process that only reads, and so does not know the keys that are not in the index.
SELECT * FROM run WHERE n > (SELECT keyed FROM meta) AND workflow = ?1 AND key = ?2;

-- name: numberOfRun
SELECT n, hands, ends, hands_begun FROM run WHERE id = ?1;

-- name: numberBefore
-- A run, or the newest run before its id if it has been deleted.
SELECT n, id = ?1 FROM run WHERE id <= ?1 ORDER BY id DESC LIMIT 1;

-- name: numbersOfRuns
-- The least number of a run, and one that is greater than all.
SELECT coalesce((SELECT min(n) FROM run), 0), coalesce((SELECT max(n) FROM run), 0) + 1;

-- name: createdFrom
SELECT n, created FROM run WHERE n >= ?1 ORDER BY n LIMIT 1;

-- name: idFrom
SELECT id FROM run WHERE n >= ?1 ORDER BY n LIMIT 1;

-- name: nameOfWorkflow
SELECT namespace || '/' || name FROM workflow WHERE id = ?1;

-- name: nameOfNode
SELECT node FROM handler WHERE id = ?1;

-- name: runByNumber
SELECT * FROM run WHERE n = ?1;

-- name: runsNewest
SELECT * FROM run WHERE n < ?1 AND n >= ?3 ORDER BY n DESC LIMIT +?2;

-- name: rollUp
SELECT page, bits FROM roll WHERE list = ?1 AND page >= ?2 ORDER BY page;

-- name: rollFinished
-- The pages of a list, each beside that of the runs that have not ended.
SELECT r.page, r.bits, a.bits FROM roll r LEFT JOIN roll a ON a.list = ?2 AND a.page = r.page WHERE r.list = ?1 ORDER BY r.page DESC;

-- name: rollBelow
SELECT page FROM roll WHERE list = ?1 AND page <= ?2 ORDER BY page DESC LIMIT 1;

-- name: rollPage
SELECT bits FROM roll WHERE list = ?1 AND page = ?2;

-- name: stateByNumber
SELECT state FROM run WHERE n = ?1;

-- name: begunByNumber
SELECT workflow FROM run WHERE n = ?1 AND state <> 'submitted';

-- name: namespaces
SELECT name, revision, runs, runs_per_hour, tasks, params_bytes, stored_bytes, versions, triggers, tokens, requests_per_minute, modified, actor, logs_per_day, isolation, allow_read, allow_write, egress, locks, run_as FROM namespace ORDER BY name;

-- name: namespaceUses
SELECT namespace, shard, runs, started, since, logged, day FROM namespace_use WHERE ?1 = '' OR namespace = ?1 ORDER BY namespace, shard;

-- name: seqOfShard
SELECT seq FROM shard WHERE id = 0;

-- name: namespaceStocks
SELECT namespace, versions, triggers, bytes FROM namespace_stock WHERE ?1 = '' OR namespace = ?1 ORDER BY namespace;

-- name: wrongStocks
-- The counts of namespaces that differ from their rows.
SELECT namespace, sum(k.was_versions), sum(k.versions), sum(k.was_triggers), sum(k.triggers), sum(k.was_bytes), sum(k.bytes) FROM (
  SELECT namespace, versions AS was_versions, 0 AS versions, triggers AS was_triggers, 0 AS triggers, bytes AS was_bytes, 0 AS bytes FROM namespace_stock
  UNION ALL SELECT w.namespace, 0, 1, 0, 0, 0, length(v.source) + length(v.def) + length(v.graph) FROM version v JOIN workflow w ON w.id = v.workflow
  UNION ALL SELECT w.namespace, 0, 0, 0, 0, 0, length(f.data) FROM version_file f JOIN workflow w ON w.id = f.workflow
  UNION ALL SELECT w.namespace, 0, 0, 0, 1, 0, 0 FROM trigger t JOIN workflow w ON w.id = t.workflow
  UNION ALL SELECT w.namespace, 0, 0, 0, 0, 0, k.kept + iif(ifnull(length(r.params), 0) >= 1024 AND r.state <> 'submitted', length(r.params), 0)
    FROM run r JOIN workflow w ON w.id = r.workflow JOIN run_kept k ON k.n = r.n WHERE k.kept <> 0 OR length(r.params) >= 1024 AND r.state <> 'submitted'
) k GROUP BY namespace
HAVING sum(k.was_versions) <> sum(k.versions) OR sum(k.was_triggers) <> sum(k.triggers) OR sum(k.was_bytes) <> sum(k.bytes);

-- name: allRuns
SELECT * FROM run ORDER BY n;

-- name: attemptsOfRun
SELECT ?2, task, token, generation, handler, assigned, state, cause, message, exit_code, signal,
  outputs, started, finished, retry_at, retry_wait
FROM attempt WHERE run = ?1 ORDER BY task, token;

-- name: packedBetween
-- The packed attempts of transactions whose history has rows of its own.
SELECT hands FROM event WHERE run = ?1 AND hands IS NOT NULL;

-- name: attemptsOfTask
SELECT ?2, task, token, generation, handler, assigned, state, cause, message, exit_code, signal,
  outputs, started, finished, retry_at, retry_wait
FROM attempt WHERE run = ?1 AND task = ?3 ORDER BY token;

-- name: eventsOfRun
SELECT ?2, seq, at, records FROM event WHERE run = ?1 AND seq > ?3
UNION ALL SELECT ?2, first_seq, first_at, events_first FROM run WHERE n = ?1 AND events_first IS NOT NULL AND first_seq > ?3
UNION ALL SELECT ?2, begun_seq, begun_at, events_begun FROM run WHERE n = ?1 AND events_begun IS NOT NULL AND begun_seq > ?3
UNION ALL SELECT ?2, last_seq, last_at, events_last FROM run WHERE n = ?1 AND events_last IS NOT NULL AND last_seq > ?3
ORDER BY 2 LIMIT +?4;

-- name: handlerById
SELECT id, uuid, node, started FROM handler WHERE id = ?1;

-- name: workflowById
SELECT * FROM workflow WHERE id = ?1;

-- name: workflowByName
SELECT * FROM workflow WHERE namespace = ?1 AND name = ?2 AND state <> 'deleted';

-- name: workflowsOf
SELECT * FROM workflow w WHERE state <> 'deleted' AND (?1 = '' OR namespace = ?1) AND (?5 = '' OR namespace <> ?5)
  AND (?6 = '[]' OR NOT EXISTS (SELECT 1 FROM json_each(?6) t WHERE instr(char(10) || w.tags || char(10), char(10) || t.value || char(10)) = 0))
  AND (namespace, name) > (?2, ?3) ORDER BY namespace, name LIMIT +?4;

-- name: versionOf
SELECT workflow, version, digest, user, created, source, def, graph FROM version WHERE workflow = ?1 AND version = ?2;

-- name: versionsOf
SELECT workflow, version, digest, user, created FROM version WHERE workflow = ?1 AND version < ?2
  ORDER BY version DESC LIMIT +?3;

-- name: fileHeadsOf
SELECT name, mode, length(data) FROM version_file WHERE workflow = ?1 AND version = ?2 ORDER BY name;

-- name: filesOf
SELECT name, mode, data FROM version_file WHERE workflow = ?1 AND version = ?2 ORDER BY name;

-- name: requestByKey
SELECT scope, key, hash, answer, created FROM request WHERE scope = ?1 AND key = ?2;

-- name: messagesTo
SELECT id, sender, target, payload, created FROM message WHERE target = ?1 ORDER BY id LIMIT +?2;

-- name: meta
SELECT cluster, isolation FROM meta;

-- name: allRolls
SELECT list, page, bits FROM roll;

-- name: runLists
SELECT n, workflow, user, finished, n IN (SELECT run FROM stander WHERE kept = 0), state, fire FROM run;

-- name: allLines
SELECT line, level, asked, first, count, runs FROM line;

-- name: allStanders
SELECT s.run, s.line, s.level, s.asked, s.kept, r.claim FROM stander s LEFT JOIN run r ON r.n = s.run;

-- name: allClaims
SELECT n, claim FROM run WHERE claim IS NOT NULL;

-- name: wrongKeys
-- Runs with keys that are not in the index although they are not among the newest, newest runs with keys of other runs,
-- and keys in the index without such a run.
SELECT r.n, r.key FROM run r WHERE r.key IS NOT NULL AND r.n <= (SELECT keyed FROM meta)
  AND NOT EXISTS (SELECT 1 FROM run_hash h WHERE h.hash = hash_of(r.workflow, r.key) AND h.run = r.n)
  AND NOT EXISTS (SELECT 1 FROM run_key k WHERE k.workflow = r.workflow AND k.key = r.key AND k.run = r.n)
UNION ALL
SELECT r.n, r.key FROM run r WHERE r.key IS NOT NULL AND r.n > (SELECT keyed FROM meta) AND (
  EXISTS (SELECT 1 FROM run_hash h JOIN run o ON o.n = h.run
    WHERE h.hash = hash_of(r.workflow, r.key) AND o.n <> r.n AND o.workflow = r.workflow AND o.key = r.key)
  OR EXISTS (SELECT 1 FROM run_key k WHERE k.workflow = r.workflow AND k.key = r.key AND k.run <> r.n))
UNION ALL
SELECT max(n), key FROM run WHERE key IS NOT NULL AND n > (SELECT keyed FROM meta)
  GROUP BY workflow, key HAVING count(*) > 1
UNION ALL
SELECT h.run, '' FROM run_hash h WHERE NOT EXISTS (SELECT 1 FROM run r WHERE r.n = h.run AND hash_of(r.workflow, r.key) = h.hash)
UNION ALL
SELECT k.run, k.key FROM run_key k WHERE NOT EXISTS (SELECT 1 FROM run r WHERE r.n = k.run AND r.workflow = k.workflow AND r.key = k.key)
LIMIT 100;

-- name: finishedRun
-- The last column tells whether all ends of the run have a seq up to ?2.
SELECT id, finished, coalesce(key, ''), origin, user, state, generation, coalesce(last_seq, first_seq) <= ?2
  AND (generation = 1 OR NOT EXISTS (SELECT 1 FROM event WHERE run = ?1 AND seq > ?2)), fire FROM run WHERE n = ?1 AND finished > 0;

-- name: versionOfRun
SELECT version FROM run WHERE n = ?1;

-- name: backfillGoesOn
SELECT 1 FROM backfill WHERE workflow = ?1 AND state IN ('running', 'paused') LIMIT 1;

-- name: rightsRevision
SELECT revision FROM rights WHERE one = 1;

-- name: principals
SELECT id, kind, name, state, created, actor FROM principal ORDER BY id;

-- name: roles
SELECT name, verbs, created, actor FROM role ORDER BY name;

-- name: bindings
SELECT subject, role, namespace, expires, created, actor, source FROM binding ORDER BY subject, role, namespace;

-- name: identities
SELECT principal, issuer, subject, source FROM identity ORDER BY issuer, subject;

-- name: passwordOf
SELECT principal, hash, changed FROM password WHERE principal = ?1;

-- name: sessions
SELECT id, hash, code, principal, token, created, used, expires, address, agent, parent, origin FROM session ORDER BY id;

-- name: tokenByHash
SELECT id, kind, name, hash, created, expires, revoked, actor, principal, verbs, namespaces, maker, parent, replaces, replaced, worker_groups, worker_slots, uses, used, invite FROM token WHERE hash = ?1;

-- name: tokens
SELECT id, kind, name, hash, created, expires, revoked, actor, principal, verbs, namespaces, maker, parent, replaces, replaced, worker_groups, worker_slots, uses, used, invite FROM token ORDER BY id;

-- name: secret
SELECT namespace, name, version, key, wrapped, data, actor, created, modified FROM secret WHERE namespace = ?1 AND name = ?2;

-- name: secrets
SELECT namespace, name, version, key, wrapped, data, actor, created, modified FROM secret
WHERE (namespace, name) > (?1, ?2) ORDER BY namespace, name LIMIT +?3;

-- name: secretKey
SELECT id, since FROM secret_key WHERE one = 1;

-- name: class
SELECT name, cpu, memory, actor, created, modified FROM class WHERE name = ?1;

-- name: classes
SELECT name, cpu, memory, actor, created, modified FROM class ORDER BY name;

-- name: standingHands
-- The runs have not ended, or have begun again, so the packed attempts of their first end count.
SELECT j.value, r.hands FROM json_each(?1) j CROSS JOIN run r ON r.n = j.value WHERE r.hands IS NOT NULL
UNION ALL SELECT j.value, r.ends FROM json_each(?1) j CROSS JOIN run r ON r.n = j.value WHERE r.ends IS NOT NULL
UNION ALL SELECT j.value, r.hands_begun FROM json_each(?1) j CROSS JOIN run r ON r.n = j.value WHERE r.hands_begun IS NOT NULL
UNION ALL SELECT j.value, e.hands FROM json_each(?1) j CROSS JOIN event e ON e.run = j.value WHERE e.hands IS NOT NULL;

-- name: standingRuns
-- The numbers are a JSON array.
SELECT r.n, r.id, r.shard, r.workflow, r.state, r.intent, r.created, r.split, r.started,
  CASE r.origin WHEN 'parent' THEN r.fire END, r.claim
FROM json_each(?1) j CROSS JOIN run r ON r.n = j.value;

-- name: standingAttempts
SELECT a.run, a.task, a.token, a.handler, a.state, a.assigned, a.started, a.finished, a.retry_at
FROM json_each(?1) j CROSS JOIN attempt a ON a.run = j.value;

-- name: auditFresh
SELECT id, key, idx, hash, at, last, count, principal, kind, token, session, address, verb, action, object, namespace, outcome, request, detail FROM audit WHERE idx < 0 ORDER BY id LIMIT +?1;

-- name: auditTree
SELECT size, first, head, edge, era, base FROM audit_tree WHERE one = 1;

-- name: auditLeaves
SELECT id, key, idx, hash, at, last, count, principal, kind, token, session, address, verb, action, object, namespace, outcome, request, detail FROM audit WHERE idx >= 0 AND idx >= ?1 ORDER BY idx LIMIT +?2;

-- name: auditRows
SELECT id, key, idx, hash, at, last, count, principal, kind, token, session, address, verb, action, object, namespace, outcome, request, detail FROM audit
WHERE (at, id) < (?1, ?2) AND at >= ?3 AND (?4 = '' OR principal = ?4) AND (?5 = '' OR verb = ?5)
  AND (?6 = '*' OR instr(?6, '<' || namespace || '>') > 0)
ORDER BY at DESC, id DESC LIMIT +?7;

-- name: members
SELECT handler, uuid, name, version, format, state, slots, busy, beat, started, seen, home, lease, traits FROM member ORDER BY handler;

-- name: owners
SELECT id, epoch, seq, owner, (SELECT count(*) FROM workflow w WHERE w.shard = s.id AND w.state <> 'deleted') FROM shard s ORDER BY id;
