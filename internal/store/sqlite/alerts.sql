-- The statements of alerts that read.

-- name: alertChannels
SELECT namespace, name, version, data, actor, created, modified FROM alert_channel ORDER BY namespace, name;

-- name: alertRules
SELECT namespace, version, data, actor, created, modified FROM alert_rules ORDER BY namespace;

-- name: lostMembers
SELECT name, worker, handler, at FROM member_lost ORDER BY name;

-- name: watched
-- The condition is that of the index.
SELECT w.id, w.version, v.def FROM version v INDEXED BY version_watched JOIN workflow w ON w.id = v.workflow AND w.version = v.version
WHERE instr(v.def, X'22616C65727473223A5B') > 0 AND w.shard IN (SELECT value FROM json_each(?1)) AND w.state <> 'deleted' ORDER BY w.id;

-- name: silences
SELECT id, namespace, workflow, rule, until, created, actor, reason FROM alert_silence ORDER BY created DESC, id DESC;

-- name: lastIncident
SELECT id, shard, workflow, namespace, rule, state, revision, created, modified, ended, data FROM incident
WHERE workflow = ?1 AND rule = ?2 ORDER BY created DESC, id DESC LIMIT 1;

-- name: openIncidents
SELECT id, shard, workflow, namespace, rule, state, revision, created, modified, ended, data FROM incident
WHERE ended = 0 AND shard = ?1 AND id > ?2 ORDER BY id LIMIT +?3;

-- name: incident
SELECT id, shard, workflow, namespace, rule, state, revision, created, modified, ended, data FROM incident WHERE id = ?1;

-- name: incidents
SELECT id, shard, workflow, namespace, rule, state, revision, created, modified, ended, data FROM incident
WHERE created <= ?1 AND (created, id) < (?1, ?2) AND (?3 = '*' OR instr(?3, '<' || namespace || '>') > 0) AND (?4 = 0 OR workflow = ?4)
  AND (?5 OR state NOT IN ('counting', 'passed')) AND (?7 = '' OR state = ?7)
ORDER BY created DESC, id DESC LIMIT +?6;

-- name: incidentsOpen
-- The open ones are few: an index holds only them, and they are sorted.
SELECT id, shard, workflow, namespace, rule, state, revision, created, modified, ended, data FROM incident INDEXED BY incident_open
WHERE ended = 0 AND (created, id) < (?1, ?2) AND (?3 = '*' OR instr(?3, '<' || namespace || '>') > 0) AND (?4 = 0 OR workflow = ?4)
  AND (?5 OR state NOT IN ('counting', 'passed')) AND (?7 = '' OR state = ?7)
ORDER BY created DESC, id DESC LIMIT +?6;

-- name: notices
SELECT incident, seq, channel, namespace, shard, workflow, state, tries, due, created, ended, error, data FROM notice
WHERE incident = ?1 ORDER BY seq, channel;

-- name: dueNotices
-- The shards and the channels are JSON arrays.
SELECT n.incident, n.seq, n.channel, n.namespace, n.shard, n.workflow, n.state, n.tries, n.due, n.created, n.ended, n.error, n.data
FROM json_each(?1) j CROSS JOIN notice n ON n.shard = j.value
WHERE n.ended = 0 AND n.due <= ?2
  AND NOT EXISTS (SELECT 1 FROM notice e WHERE e.incident = n.incident AND e.seq < n.seq AND e.channel = n.channel AND e.ended = 0)
  AND NOT EXISTS (SELECT 1 FROM json_each(?3) c WHERE c.value = n.namespace || '/' || n.channel)
ORDER BY n.due, n.incident, n.seq, n.channel LIMIT +?4;

-- name: nextNotice
SELECT n.due FROM json_each(?1) j CROSS JOIN notice n ON n.shard = j.value
WHERE n.ended = 0
  AND NOT EXISTS (SELECT 1 FROM notice e WHERE e.incident = n.incident AND e.seq < n.seq AND e.channel = n.channel AND e.ended = 0)
ORDER BY n.due LIMIT 1;

-- name: alertTroubles
SELECT namespace, channel, sum(pending), sum(lost), max(error) FROM (
  SELECT namespace, channel, 1 AS pending, 0 AS lost, error FROM notice WHERE ended = 0 AND tries > 0
  UNION ALL SELECT namespace, channel, 0, 1, error FROM notice WHERE ended > 0 AND state <> 'sent' AND ended >= ?1)
GROUP BY namespace, channel ORDER BY namespace, channel;
