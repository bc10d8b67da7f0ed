-- The statements of export and import. The columns are those of store.Tables, in their order.

-- name: head
SELECT cluster::text, created, coalesce(to_jsonb(meta) ->> 'isolation', '') FROM meta;

-- name: shards
SELECT epoch, seq, watermark FROM shard ORDER BY id;

-- name: counts
SELECT (SELECT count(*) FROM handler), (SELECT count(*) FROM workflow), (SELECT count(*) FROM version),
  (SELECT count(*) FROM version_file), (SELECT count(*) FROM run), (SELECT count(*) FROM attempt),
  (SELECT count(*) FROM event), (SELECT count(*) FROM request), (SELECT count(*) FROM message),
  (SELECT count(*) FROM trigger), (SELECT count(*) FROM trigger_on), (SELECT count(*) FROM fire), (SELECT count(*) FROM fire_day),
  (SELECT count(*) FROM backfill), (SELECT count(*) FROM backfill_run), (SELECT count(*) FROM queue), (SELECT count(*) FROM class),
  (SELECT count(*) FROM secret), (SELECT count(*) FROM secret_key), (SELECT count(*) FROM audit), (SELECT count(*) FROM audit_tree),
  (SELECT count(*) FROM namespace), (SELECT count(*) FROM tally), (SELECT count(*) FROM tally_mark), (SELECT count(*) FROM alert_channel), (SELECT count(*) FROM incident), (SELECT count(*) FROM notice), (SELECT count(*) FROM connection), (SELECT count(*) FROM git_source), (SELECT count(*) FROM alert_silence), (SELECT count(*) FROM alert_rules), (SELECT count(*) FROM sent_event), (SELECT count(*) FROM sent_head),
  (SELECT count(*) FROM line);

-- name: runStates
SELECT state, count(*) FROM run GROUP BY state;

-- name: readAll
-- Sessions of readers are bounded and made for small pages. This transaction reads everything, once.
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = 0;
SET LOCAL idle_in_transaction_session_timeout = '10min'; SET LOCAL enable_seqscan = on; SET LOCAL enable_hashjoin = on;

-- name: fillAll
-- The lock keeps nodes from registering, so no node works on the database while it is filled.
BEGIN; SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = '10min'; SET LOCAL enable_seqscan = on;
LOCK TABLE handler IN EXCLUSIVE MODE;

-- name: derive
-- Derived data, and the sequences of the database. The eras of the epochs before are no longer compared.
DELETE FROM era;
INSERT INTO active (run, shard) SELECT id, shard FROM run WHERE finished = 0;
INSERT INTO submitted (run, shard) SELECT id, shard FROM run WHERE finished = 0 AND state = 'submitted';
INSERT INTO unsuccessful (run, workflow, state) SELECT id, workflow, state FROM run WHERE state IN ('failed', 'stopped', 'skipped');
INSERT INTO run_tag (tag, run) SELECT t, id FROM run, run_tags(fire) t;
SELECT restock();
UPDATE meta SET listed = NULL WHERE format >= 16; -- no program is left that does not write the list
SELECT setval(pg_get_serial_sequence('handler', 'id'), greatest(max(id), 1), max(id) IS NOT NULL) FROM handler;
SELECT setval(pg_get_serial_sequence('audit', 'id'), greatest(max(id), 1), max(id) IS NOT NULL) FROM audit;
SELECT setval(pg_get_serial_sequence('message', 'id'), greatest(max(id), 1), max(id) IS NOT NULL) FROM message;

-- name: importHead
UPDATE meta SET cluster = $1::text::uuid, created = $2, isolation = $3;

-- name: importShard
UPDATE shard SET epoch = $2, seq = $3, watermark = $4, owner = 0 WHERE id = $1;

-- name: export handler
SELECT id, uuid, node, started FROM handler ORDER BY id;

-- name: import handler
COPY handler (id, uuid, node, started) FROM STDIN (FORMAT binary);

-- name: export workflow
-- Deleted workflows come last, because the others are spread over the shards without them.
SELECT id, shard, namespace, name, state, version, latest, max_runs, revision, created, modified, tags FROM workflow
ORDER BY state = 'deleted', id;

-- name: import workflow
COPY workflow (id, shard, namespace, name, state, version, latest, max_runs, revision, created, modified, tags) FROM STDIN (FORMAT binary);

-- name: export version
SELECT workflow, version, source, def, graph, digest, username, created FROM version ORDER BY workflow, version;

-- name: import version
COPY version (workflow, version, source, def, graph, digest, username, created) FROM STDIN (FORMAT binary);

-- name: export version_file
SELECT workflow, version, name, mode, data FROM version_file ORDER BY workflow, version, name;

-- name: import version_file
COPY version_file (workflow, version, name, mode, data) FROM STDIN (FORMAT binary);

-- name: export run
SELECT id, shard, workflow, version, priority, origin, username, key, key_hash, params, fire, created, first_seq, first_at,
  events_first, state, intent, generation, cause, message, graph, base, final, split, started, finished, leader, leader_at,
  last_seq, last_at, events_last, claim, hands, ends
FROM run ORDER BY id;

-- name: import run
COPY run (id, shard, workflow, version, priority, origin, username, key, key_hash, params, fire, created, first_seq, first_at,
  events_first, state, intent, generation, cause, message, graph, base, final, split, started, finished, leader, leader_at,
  last_seq, last_at, events_last, claim, hands, ends) FROM STDIN (FORMAT binary);

-- name: export attempt
SELECT run, task, token, generation, handler, assigned, state, cause, message, exit_code, signal, outputs, started, finished,
  retry_at, retry_wait
FROM attempt ORDER BY run, task, token;

-- name: import attempt
COPY attempt (run, task, token, generation, handler, assigned, state, cause, message, exit_code, signal, outputs, started, finished,
  retry_at, retry_wait) FROM STDIN (FORMAT binary);

-- name: export event
SELECT run, seq, at, records, hands FROM event ORDER BY run, seq;

-- name: import event
COPY event (run, seq, at, records, hands) FROM STDIN (FORMAT binary);

-- name: export request
SELECT scope, key, hash, answer, created FROM request ORDER BY scope, key;

-- name: import request
COPY request (scope, key, hash, answer, created) FROM STDIN (FORMAT binary);

-- name: export message
SELECT id, sender, target, payload, created FROM message ORDER BY id;

-- name: import message
COPY message (id, sender, target, payload, created) FROM STDIN (FORMAT binary);

-- name: export trigger
SELECT workflow, name, shard, version, kind, state, actor, reason, next, decided, since, fired, max_runs, revision, created,
  modified, hears, data, spec
FROM trigger ORDER BY workflow, name;

-- name: import trigger
COPY trigger (workflow, name, shard, version, kind, state, actor, reason, next, decided, since, fired, max_runs, revision, created,
  modified, hears, data, spec) FROM STDIN (FORMAT binary);

-- name: export trigger_on
SELECT target, workflow, name FROM trigger_on ORDER BY workflow, name, target;

-- name: import trigger_on
COPY trigger_on (target, workflow, name) FROM STDIN (FORMAT binary);

-- name: export fire
SELECT workflow, trigger, at, key, last, count, outcome, reason, run, decided FROM fire ORDER BY workflow, trigger, at, key;

-- name: import fire
COPY fire (workflow, trigger, at, key, last, count, outcome, reason, run, decided) FROM STDIN (FORMAT binary);

-- name: export fire_day
SELECT workflow, trigger, day, fired, late, skipped, merged, missed, until FROM fire_day ORDER BY workflow, trigger, day;

-- name: import fire_day
COPY fire_day (workflow, trigger, day, fired, late, skipped, merged, missed, until) FROM STDIN (FORMAT binary);

-- name: export backfill
SELECT id, workflow, shard, trigger, state, total, started, ended, failed, parallel, username, revision, created, modified, spec,
  instants
FROM backfill ORDER BY id;

-- name: import backfill
COPY backfill (id, workflow, shard, trigger, state, total, started, ended, failed, parallel, username, revision, created, modified,
  spec, instants) FROM STDIN (FORMAT binary);

-- name: export backfill_run
SELECT backfill, instant, workflow, run FROM backfill_run ORDER BY backfill, instant;

-- name: import backfill_run
COPY backfill_run (backfill, instant, workflow, run) FROM STDIN (FORMAT binary);

-- name: export queue
SELECT name, max_runs, per_key, ordering, overflow, rate, each, state, actor, reason, until, paced, revision, created, modified
FROM queue ORDER BY name;

-- name: import queue
COPY queue (name, max_runs, per_key, ordering, overflow, rate, each, state, actor, reason, until, paced, revision, created, modified)
FROM STDIN (FORMAT binary);

-- name: export class
SELECT name, cpu, memory, actor, created, modified FROM class ORDER BY name;

-- name: import class
COPY class (name, cpu, memory, actor, created, modified) FROM STDIN (FORMAT binary);

-- name: export secret
SELECT namespace, name, version, key, wrapped, data, actor, created, modified FROM secret ORDER BY namespace, name;

-- name: import secret
COPY secret (namespace, name, version, key, wrapped, data, actor, created, modified) FROM STDIN (FORMAT binary);

-- name: export secret_key
SELECT one, id, since FROM secret_key;

-- name: import secret_key
COPY secret_key (one, id, since) FROM STDIN (FORMAT binary);

-- name: export audit
SELECT id, key, idx, hash, at, last, count, principal, kind, token, session, address, verb, action, object, namespace, outcome, request, detail FROM audit ORDER BY id;

-- name: import audit
COPY audit (id, key, idx, hash, at, last, count, principal, kind, token, session, address, verb, action, object, namespace, outcome, request, detail) FROM STDIN (FORMAT binary);

-- name: export audit_tree
SELECT one, size, first, head, edge, era, base FROM audit_tree;

-- name: import audit_tree
COPY audit_tree (one, size, first, head, edge, era, base) FROM STDIN (FORMAT binary);

-- name: export namespace
SELECT name, revision, runs, runs_per_hour, tasks, params_bytes, stored_bytes, versions, triggers, tokens, requests_per_minute, modified, actor, logs_per_day, isolation, allow_read, allow_write, egress, locks, run_as FROM namespace ORDER BY name;

-- name: import namespace
COPY namespace (name, revision, runs, runs_per_hour, tasks, params_bytes, stored_bytes, versions, triggers, tokens, requests_per_minute, modified, actor, logs_per_day, isolation, allow_read, allow_write, egress, locks, run_as) FROM STDIN (FORMAT binary);

-- name: export tally
SELECT workflow, span, at, task, n, data FROM tally ORDER BY workflow, span, task, at;

-- name: import tally
COPY tally (workflow, span, at, task, n, data) FROM STDIN (FORMAT binary);

-- name: export tally_mark
SELECT shard, workflow, rev, seq, at FROM tally_mark ORDER BY shard, workflow;

-- name: import tally_mark
COPY tally_mark (shard, workflow, rev, seq, at) FROM STDIN (FORMAT binary);

-- name: export alert_channel
SELECT namespace, name, version, data, actor, created, modified FROM alert_channel ORDER BY namespace, name;

-- name: import alert_channel
COPY alert_channel (namespace, name, version, data, actor, created, modified) FROM STDIN (FORMAT binary);

-- name: export incident
SELECT id, shard, workflow, namespace, rule, state, revision, created, modified, ended, data FROM incident ORDER BY id;

-- name: import incident
COPY incident (id, shard, workflow, namespace, rule, state, revision, created, modified, ended, data) FROM STDIN (FORMAT binary);

-- name: export notice
SELECT incident, seq, channel, namespace, shard, workflow, state, tries, due, created, ended, error, data FROM notice ORDER BY incident, seq, channel;

-- name: import notice
COPY notice (incident, seq, channel, namespace, shard, workflow, state, tries, due, created, ended, error, data) FROM STDIN (FORMAT binary);

-- name: export connection
SELECT namespace, name, version, data, actor, created, modified FROM connection ORDER BY namespace, name;

-- name: import connection
COPY connection (namespace, name, version, data, actor, created, modified) FROM STDIN (FORMAT binary);

-- name: export git_source
SELECT namespace, name, version, shard, spec, state, seq, actor, created, modified FROM git_source ORDER BY namespace, name;

-- name: import git_source
COPY git_source (namespace, name, version, shard, spec, state, seq, actor, created, modified) FROM STDIN (FORMAT binary);

-- name: export alert_silence
SELECT id, namespace, workflow, rule, until, created, actor, reason FROM alert_silence ORDER BY id;

-- name: import alert_silence
COPY alert_silence (id, namespace, workflow, rule, until, created, actor, reason) FROM STDIN (FORMAT binary);

-- name: export alert_rules
SELECT namespace, version, data, actor, created, modified FROM alert_rules ORDER BY namespace;

-- name: import alert_rules
COPY alert_rules (namespace, version, data, actor, created, modified) FROM STDIN (FORMAT binary);

-- name: export sent_event
SELECT seq, received, namespace, source, id, type, data FROM sent_event ORDER BY seq;

-- name: import sent_event
COPY sent_event (seq, received, namespace, source, id, type, data) FROM STDIN (FORMAT binary);

-- name: export sent_head
SELECT one, seq, received FROM sent_head ORDER BY one;

-- name: import sent_head
COPY sent_head (one, seq, received) FROM STDIN (FORMAT binary);

-- name: export line
SELECT line, level, asked, run, kept FROM line ORDER BY line, level, asked, run;

-- name: import line
COPY line (line, level, asked, run, kept) FROM STDIN (FORMAT binary);
