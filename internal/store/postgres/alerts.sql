-- The statements of alerts.

-- name: putAlertChannel
INSERT INTO alert_channel AS c (namespace, name, version, data, actor, created, modified)
SELECT $1, $2, $3, $4, $5, now, now FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now) AS clock
WHERE $3 = 1 + coalesce((SELECT o.version FROM alert_channel o WHERE o.namespace = $1 AND o.name = $2), 0)
  AND ($3 > 1 OR (SELECT count(*) FROM alert_channel) < $6::bigint)
ON CONFLICT (namespace, name) DO UPDATE SET version = excluded.version, data = excluded.data, actor = excluded.actor, modified = excluded.modified
WHERE c.version = excluded.version - 1
RETURNING namespace, name, version, data, actor, created, modified;

-- name: dropAlertChannel
DELETE FROM alert_channel WHERE namespace = $1 AND name = $2
RETURNING namespace, name, version, data, actor, created, modified;

-- name: alertChannels
SELECT namespace, name, version, data, actor, created, modified FROM alert_channel ORDER BY namespace, name;

-- name: putAlertRules
INSERT INTO alert_rules AS c (namespace, version, data, actor, created, modified)
SELECT $1, $2, $3, $4, now, now FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now) AS clock
WHERE $2 = 1 + coalesce((SELECT o.version FROM alert_rules o WHERE o.namespace = $1), 0)
ON CONFLICT (namespace) DO UPDATE SET version = excluded.version, data = excluded.data, actor = excluded.actor, modified = excluded.modified
WHERE c.version = excluded.version - 1
RETURNING namespace, version, data, actor, created, modified;

-- name: alertRules
SELECT namespace, version, data, actor, created, modified FROM alert_rules ORDER BY namespace;

-- name: lostMembers
SELECT name, worker, handler, at FROM member_lost ORDER BY name;

-- name: watched
-- The condition is that of the index version_watched. The text is "alerts":[ in the JSON of a definition: a quote in a
-- text has a backslash there.
SELECT w.id, w.version, v.def FROM version v JOIN workflow w ON w.id = v.workflow AND w.version = v.version
WHERE position('\x22616c65727473223a5b'::bytea IN v.def) > 0 AND w.shard = ANY ($1::int[]) AND w.state <> 'deleted' ORDER BY w.id;

-- name: expireSilences
DELETE FROM alert_silence d USING (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now) AS clock
WHERE d.until <= clock.now AND (d.until <= clock.now - $1::bigint OR (SELECT count(*) FROM alert_silence) >= $2::bigint);

-- name: putSilence
INSERT INTO alert_silence (id, namespace, workflow, rule, until, created, actor, reason)
SELECT $1, $2, $3, $4, $5, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, $6, $7
WHERE (SELECT count(*) FROM alert_silence) < $8::bigint
RETURNING id, namespace, workflow, rule, until, created, actor, reason;

-- name: endSilence
UPDATE alert_silence SET until = clock.now FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now) AS clock
WHERE id = $1 AND until > clock.now
RETURNING id, namespace, workflow, rule, until, created, actor, reason;

-- name: silences
SELECT id, namespace, workflow, rule, until, created, actor, reason FROM alert_silence ORDER BY created DESC, id DESC;

-- name: lastIncident
SELECT id, shard, workflow, namespace, rule, state, revision, created, modified, ended, data FROM incident
WHERE workflow = $1 AND rule = $2 ORDER BY created DESC, id DESC LIMIT 1;

-- name: insertIncident
INSERT INTO incident (id, shard, workflow, namespace, rule, state, revision, created, modified, ended, data)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11);

-- name: updateIncident
WITH changed AS (
  UPDATE incident SET state = $3, revision = $4, modified = $5, ended = $6, data = $7
  WHERE id = $1 AND shard = $2 AND revision = $4::bigint - 1 RETURNING 1
)
SELECT must(count(*) = 1, 'an incident is not as its owner believes') FROM changed;

-- name: insertNotice
INSERT INTO notice (incident, seq, channel, namespace, shard, workflow, state, tries, due, created, ended, error, data)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13);

-- name: noteNotice
WITH changed AS (
  UPDATE notice SET state = $4, tries = $5, due = $6, ended = $7, error = $8
  WHERE incident = $1 AND seq = $2 AND channel = $3 AND ended = 0 AND tries = $5::int - 1 RETURNING 1
)
SELECT must(count(*) = 1, 'a notice is not as its sender believes') FROM changed;

-- name: openIncidents
SELECT id, shard, workflow, namespace, rule, state, revision, created, modified, ended, data FROM incident
WHERE ended = 0 AND shard = $1 AND id > $2 ORDER BY id LIMIT $3::bigint;

-- name: incident
SELECT id, shard, workflow, namespace, rule, state, revision, created, modified, ended, data FROM incident WHERE id = $1;

-- name: incidents
SELECT id, shard, workflow, namespace, rule, state, revision, created, modified, ended, data FROM incident
WHERE (created, id) < ($1::bigint, $2::uuid) AND ($3::text = '*' OR strpos($3, '<' || namespace || '>') > 0) AND ($4::bigint = 0 OR workflow = $4)
  AND ($5::boolean OR state NOT IN ('counting', 'passed')) AND ($7::text = '' OR state = $7)
ORDER BY created DESC, id DESC LIMIT $6::bigint;

-- name: incidentsOpen
-- The open ones are few: an index holds only them, and they are sorted. The sum keeps the planner from the index of all incidents.
SELECT id, shard, workflow, namespace, rule, state, revision, created, modified, ended, data FROM incident
WHERE ended = 0 AND (created + 0, id) < ($1::bigint, $2::uuid) AND ($3::text = '*' OR strpos($3, '<' || namespace || '>') > 0) AND ($4::bigint = 0 OR workflow = $4)
  AND ($5::boolean OR state NOT IN ('counting', 'passed')) AND ($7::text = '' OR state = $7)
ORDER BY created + 0 DESC, id DESC LIMIT $6::bigint;

-- name: notices
SELECT incident, seq, channel, namespace, shard, workflow, state, tries, due, created, ended, error, data FROM notice
WHERE incident = $1 ORDER BY seq, channel;

-- name: dueNotices
SELECT n.incident, n.seq, n.channel, n.namespace, n.shard, n.workflow, n.state, n.tries, n.due, n.created, n.ended, n.error, n.data
FROM notice n
WHERE n.ended = 0 AND n.shard = ANY ($1::int[]) AND n.due <= $2
  AND NOT EXISTS (SELECT FROM notice e WHERE e.incident = n.incident AND e.seq < n.seq AND e.channel = n.channel AND e.ended = 0)
  AND n.namespace || '/' || n.channel <> ALL ($3::text[])
ORDER BY n.due, n.incident, n.seq, n.channel LIMIT $4::bigint;

-- name: nextNotice
SELECT n.due FROM notice n
WHERE n.ended = 0 AND n.shard = ANY ($1::int[])
  AND NOT EXISTS (SELECT FROM notice e WHERE e.incident = n.incident AND e.seq < n.seq AND e.channel = n.channel AND e.ended = 0)
ORDER BY n.due LIMIT 1;

-- name: alertTroubles
SELECT namespace, channel, sum(pending)::bigint, sum(lost)::bigint, max(error) FROM (
  SELECT namespace, channel, 1 AS pending, 0 AS lost, error FROM notice WHERE ended = 0 AND tries > 0
  UNION ALL SELECT namespace, channel, 0, 1, error FROM notice WHERE ended > 0 AND state <> 'sent' AND ended >= $1) n
GROUP BY namespace, channel ORDER BY namespace, channel;

-- name: expireIncidents
WITH gone AS MATERIALIZED (
  SELECT i.id FROM incident i WHERE i.ended > 0
    AND i.ended < greatest($1::bigint, (SELECT k.ended FROM incident k WHERE k.ended > 0 ORDER BY k.ended DESC LIMIT 1 OFFSET $3::bigint - 1))
    AND NOT EXISTS (SELECT FROM notice n WHERE n.incident = i.id AND n.ended = 0)
  ORDER BY i.ended LIMIT $2::bigint
), told AS (DELETE FROM notice WHERE incident = ANY (ARRAY(SELECT id FROM gone))
), did AS (DELETE FROM incident WHERE id = ANY (ARRAY(SELECT id FROM gone)) RETURNING 1)
SELECT count(*) FROM did;
