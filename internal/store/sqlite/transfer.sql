-- The statements of export and import. The columns are those of store.Tables, in their order.

-- name: head
SELECT cluster, created, isolation FROM meta;

-- name: shards
SELECT epoch, seq, watermark FROM shard ORDER BY id;

-- name: counts
SELECT (SELECT count(*) FROM handler), (SELECT count(*) FROM workflow), (SELECT count(*) FROM version),
  (SELECT count(*) FROM version_file), (SELECT count(*) FROM run), (SELECT count(*) FROM attempt),
  (SELECT count(*) FROM event) + (SELECT count(events_begun) FROM run), (SELECT count(*) FROM request), (SELECT count(*) FROM message),
  (SELECT count(*) FROM trigger), (SELECT count(*) FROM trigger_on), (SELECT count(*) FROM fire), (SELECT count(*) FROM fire_day),
  (SELECT count(*) FROM backfill), (SELECT count(*) FROM backfill_run), (SELECT count(*) FROM queue), (SELECT count(*) FROM class),
  (SELECT count(*) FROM secret), (SELECT count(*) FROM secret_key), (SELECT count(*) FROM audit), (SELECT count(*) FROM audit_tree),
  (SELECT count(*) FROM namespace), (SELECT count(*) FROM tally), (SELECT count(*) FROM tally_mark), (SELECT count(*) FROM alert_channel), (SELECT count(*) FROM incident), (SELECT count(*) FROM notice), (SELECT count(*) FROM connection), (SELECT count(*) FROM git_source), (SELECT count(*) FROM alert_silence), (SELECT count(*) FROM alert_rules), (SELECT count(*) FROM sent_event), (SELECT count(*) FROM sent_head),
  (SELECT ifnull(sum(count), 0) FROM line);

-- name: runStates
SELECT state, count(*) FROM run GROUP BY state;

-- name: export handler
SELECT id, unhex(uuid, '-'), node, started FROM handler ORDER BY id;

-- name: import handler
INSERT INTO handler (id, uuid, node, started)
VALUES (?1, lower(substr(hex(?2), 1, 8) || '-' || substr(hex(?2), 9, 4) || '-' || substr(hex(?2), 13, 4) || '-' ||
  substr(hex(?2), 17, 4) || '-' || substr(hex(?2), 21)), ?3, ?4);

-- name: export workflow
-- Deleted workflows come last, because the others are spread over the shards without them.
SELECT id, shard, namespace, name, state, version, latest, max_runs, revision, created, modified, tags FROM workflow
ORDER BY state = 'deleted', id;

-- name: import workflow
INSERT INTO workflow (id, shard, namespace, name, state, version, latest, max_runs, revision, created, modified, tags)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12);

-- name: export version
SELECT workflow, version, source, def, graph, digest, user, created FROM version ORDER BY workflow, version;

-- name: import version
INSERT INTO version (workflow, version, source, def, graph, digest, user, created) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8);

-- name: export version_file
SELECT workflow, version, name, mode, data FROM version_file ORDER BY workflow, version, name;

-- name: import version_file
INSERT INTO version_file (workflow, version, name, mode, data) VALUES (?1, ?2, ?3, ?4, ?5);

-- name: export run
SELECT id, shard, workflow, version, priority, origin, user, key, key_hash, params, fire, created, first_seq, first_at,
  events_first, state, intent, generation, cause, message, graph, base, final, split, started, finished, leader, leader_at,
  last_seq, last_at, events_last, claim, hands, ends
FROM run ORDER BY n;

-- name: import run
INSERT INTO run (id, shard, workflow, version, priority, origin, user, key, key_hash, params, fire, created, first_seq, first_at,
  events_first, state, intent, generation, cause, message, graph, base, final, split, started, finished, leader, leader_at,
  last_seq, last_at, events_last, claim, hands, ends)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26,
  ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?34);

-- name: export attempt
SELECT r.id, a.task, a.token, a.generation, a.handler, a.assigned, a.state, a.cause, a.message, a.exit_code, a.signal, a.outputs,
  a.started, a.finished, a.retry_at, a.retry_wait
FROM attempt a LEFT JOIN run r ON r.n = a.run ORDER BY a.run, a.task, a.token;

-- name: import attempt
INSERT INTO attempt (run, task, token, generation, handler, assigned, state, cause, message, exit_code, signal, outputs,
  started, finished, retry_at, retry_wait)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16);

-- name: export event
-- The events in the rows of runs are exported, too.
SELECT r.id, e.seq, e.at, e.records, e.hands FROM event e LEFT JOIN run r ON r.n = e.run
UNION ALL SELECT id, begun_seq, begun_at, events_begun, hands_begun FROM run WHERE events_begun IS NOT NULL;

-- name: import event
INSERT INTO event (run, seq, at, records, hands) VALUES (?1, ?2, ?3, ?4, ?5);

-- name: export request
SELECT scope, key, hash, answer, created FROM request ORDER BY scope, key;

-- name: import request
INSERT INTO request (scope, key, hash, answer, created) VALUES (?1, ?2, ?3, ?4, ?5);

-- name: export message
SELECT id, sender, target, payload, created FROM message ORDER BY id;

-- name: import message
INSERT INTO message (id, sender, target, payload, created) VALUES (?1, ?2, ?3, ?4, ?5);

-- name: export trigger
SELECT workflow, name, shard, version, kind, state, actor, reason, next, decided, since, fired, max_runs, revision, created,
  modified, hears, data, spec
FROM trigger ORDER BY workflow, name;

-- name: import trigger
INSERT INTO trigger (workflow, name, shard, version, kind, state, actor, reason, next, decided, since, fired, max_runs, revision,
  created, modified, hears, data, spec)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19);

-- name: export trigger_on
SELECT target, workflow, name FROM trigger_on ORDER BY target, workflow, name;

-- name: import trigger_on
INSERT INTO trigger_on (target, workflow, name) VALUES (?1, ?2, ?3);

-- name: export fire
SELECT workflow, trigger, at, key, last, count, outcome, reason, run, decided FROM fire ORDER BY workflow, trigger, at, key;

-- name: import fire
INSERT INTO fire (workflow, trigger, at, key, last, count, outcome, reason, run, decided)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10);

-- name: export fire_day
SELECT workflow, trigger, day, fired, late, skipped, merged, missed, until FROM fire_day ORDER BY workflow, trigger, day;

-- name: import fire_day
INSERT INTO fire_day (workflow, trigger, day, fired, late, skipped, merged, missed, until) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9);

-- name: export backfill
SELECT id, workflow, shard, trigger, state, total, started, ended, failed, parallel, user, revision, created, modified, spec,
  instants
FROM backfill ORDER BY id;

-- name: import backfill
INSERT INTO backfill (id, workflow, shard, trigger, state, total, started, ended, failed, parallel, user, revision, created,
  modified, spec, instants)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16);

-- name: export backfill_run
SELECT backfill, instant, workflow, run FROM backfill_run ORDER BY backfill, instant;

-- name: import backfill_run
INSERT INTO backfill_run (backfill, instant, workflow, run) VALUES (?1, ?2, ?3, ?4);

-- name: export queue
SELECT name, max_runs, per_key, ordering, overflow, rate, each, state, actor, reason, until, paced, revision, created, modified
FROM queue ORDER BY name;

-- name: import queue
INSERT INTO queue (name, max_runs, per_key, ordering, overflow, rate, each, state, actor, reason, until, paced, revision, created,
  modified)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15);

-- name: export class
SELECT name, cpu, memory, actor, created, modified FROM class ORDER BY name;

-- name: import class
INSERT INTO class (name, cpu, memory, actor, created, modified) VALUES (?1, ?2, ?3, ?4, ?5, ?6);

-- name: export secret
SELECT namespace, name, version, key, wrapped, data, actor, created, modified FROM secret ORDER BY namespace, name;

-- name: import secret
INSERT INTO secret (namespace, name, version, key, wrapped, data, actor, created, modified) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9);

-- name: export secret_key
SELECT one, id, since FROM secret_key;

-- name: import secret_key
INSERT INTO secret_key (one, id, since) VALUES (?1, ?2, ?3);

-- name: export audit
SELECT id, key, idx, hash, at, last, count, principal, kind, token, session, address, verb, action, object, namespace, outcome, request, detail FROM audit ORDER BY id;

-- name: import audit
INSERT INTO audit (id, key, idx, hash, at, last, count, principal, kind, token, session, address, verb, action, object, namespace, outcome, request, detail)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19);

-- name: export audit_tree
SELECT one, size, first, head, edge, era, base FROM audit_tree;

-- name: import audit_tree
INSERT INTO audit_tree (one, size, first, head, edge, era, base) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7);

-- name: importStock
INSERT INTO namespace_stock (namespace, versions, triggers, bytes)
SELECT w.namespace, 0, 0, sum(k.kept + iif(ifnull(length(r.params), 0) >= 1024 AND r.state <> 'submitted', length(r.params), 0))
FROM run r JOIN workflow w ON w.id = r.workflow JOIN run_kept k ON k.n = r.n WHERE k.kept <> 0 OR length(r.params) >= 1024 AND r.state <> 'submitted' GROUP BY w.namespace
ON CONFLICT (namespace) DO UPDATE SET bytes = bytes + excluded.bytes;

-- name: export namespace
SELECT name, revision, runs, runs_per_hour, tasks, params_bytes, stored_bytes, versions, triggers, tokens, requests_per_minute, modified, actor, logs_per_day, isolation, allow_read, allow_write, egress, locks, run_as FROM namespace ORDER BY name;

-- name: import namespace
INSERT INTO namespace (name, revision, runs, runs_per_hour, tasks, params_bytes, stored_bytes, versions, triggers, tokens, requests_per_minute, modified, actor, logs_per_day, isolation, allow_read, allow_write, egress, locks, run_as)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20);

-- name: export tally
SELECT workflow, span, at, task, n, data FROM tally ORDER BY workflow, span, task, at;

-- name: import tally
INSERT INTO tally (workflow, span, at, task, n, data) VALUES (?1, ?2, ?3, ?4, ?5, ?6);

-- name: export tally_mark
SELECT shard, workflow, rev, seq, at FROM tally_mark ORDER BY shard, workflow;

-- name: import tally_mark
INSERT INTO tally_mark (shard, workflow, rev, seq, at) VALUES (?1, ?2, ?3, ?4, ?5);

-- name: export alert_channel
SELECT namespace, name, version, data, actor, created, modified FROM alert_channel ORDER BY namespace, name;

-- name: import alert_channel
INSERT INTO alert_channel (namespace, name, version, data, actor, created, modified)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7);

-- name: export incident
SELECT id, shard, workflow, namespace, rule, state, revision, created, modified, ended, data FROM incident ORDER BY id;

-- name: import incident
INSERT INTO incident (id, shard, workflow, namespace, rule, state, revision, created, modified, ended, data)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11);

-- name: export notice
SELECT incident, seq, channel, namespace, shard, workflow, state, tries, due, created, ended, error, data FROM notice ORDER BY incident, seq, channel;

-- name: import notice
INSERT INTO notice (incident, seq, channel, namespace, shard, workflow, state, tries, due, created, ended, error, data)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13);

-- name: export connection
SELECT namespace, name, version, data, actor, created, modified FROM connection ORDER BY namespace, name;

-- name: import connection
INSERT INTO connection (namespace, name, version, data, actor, created, modified)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7);

-- name: export git_source
SELECT namespace, name, version, shard, spec, state, seq, actor, created, modified FROM git_source ORDER BY namespace, name;

-- name: import git_source
INSERT INTO git_source (namespace, name, version, shard, spec, state, seq, actor, created, modified)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10);

-- name: export alert_silence
SELECT id, namespace, workflow, rule, until, created, actor, reason FROM alert_silence ORDER BY id;

-- name: import alert_silence
INSERT INTO alert_silence (id, namespace, workflow, rule, until, created, actor, reason)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8);

-- name: export alert_rules
SELECT namespace, version, data, actor, created, modified FROM alert_rules ORDER BY namespace;

-- name: import alert_rules
INSERT INTO alert_rules (namespace, version, data, actor, created, modified)
VALUES (?1, ?2, ?3, ?4, ?5, ?6);

-- name: export sent_event
SELECT seq, received, namespace, source, id, type, data FROM sent_event ORDER BY seq;

-- name: import sent_event
INSERT INTO sent_event (seq, received, namespace, source, id, type, data) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7);

-- name: export sent_head
SELECT one, seq, received FROM sent_head ORDER BY one;

-- name: import sent_head
INSERT INTO sent_head (one, seq, received) VALUES (?1, ?2, ?3);

-- name: export line
SELECT s.line, s.level, s.asked, r.id, s.kept FROM stander s LEFT JOIN run r ON r.n = s.run ORDER BY s.line, s.level, s.asked, s.run;

-- name: import line
INSERT INTO line (line, level, asked, first, kept, count, runs) VALUES (?1, ?2, ?3, ?4, ?5, 1, '[0]');

-- name: importHead
UPDATE meta SET cluster = ?1, created = ?2, isolation = ?3;

-- name: importKeyed
UPDATE meta SET keyed = (SELECT coalesce(max(n), 0) FROM run);

-- name: importShard
UPDATE shard SET epoch = ?2, seq = ?3, watermark = ?4, owner = 0 WHERE id = ?1;
