-- The statements of alerts that write.

-- name: putAlertChannel
INSERT INTO alert_channel (namespace, name, version, data, actor, created, modified)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?6 WHERE ?3 = 1 + ifnull((SELECT version FROM alert_channel WHERE namespace = ?1 AND name = ?2), 0)
  AND (?3 > 1 OR (SELECT count(*) FROM alert_channel) < ?7)
ON CONFLICT (namespace, name) DO UPDATE SET version = excluded.version, data = excluded.data, actor = excluded.actor, modified = excluded.modified;

-- name: dropAlertChannel
DELETE FROM alert_channel WHERE namespace = ?1 AND name = ?2;

-- name: putAlertRules
INSERT INTO alert_rules (namespace, version, data, actor, created, modified)
SELECT ?1, ?2, ?3, ?4, ?5, ?5 WHERE ?2 = 1 + ifnull((SELECT version FROM alert_rules WHERE namespace = ?1), 0)
ON CONFLICT (namespace) DO UPDATE SET version = excluded.version, data = excluded.data, actor = excluded.actor, modified = excluded.modified;

-- name: forgetLost
DELETE FROM member_lost WHERE at < ?1;

-- name: noteLost
INSERT INTO member_lost (name, worker, handler, at)
SELECT m.name, 1, m.handler, ?2 FROM member m WHERE m.handler = ?1 AND ((SELECT count(*) FROM member_lost) < ?3
  OR EXISTS (SELECT 1 FROM member_lost o WHERE o.name = m.name))
ON CONFLICT (name) DO UPDATE SET handler = excluded.handler, at = excluded.at;

-- name: findMember
DELETE FROM member_lost WHERE name = ?1;

-- name: expireSilences
DELETE FROM alert_silence WHERE until <= ?1 AND (until <= ?1 - ?2 OR (SELECT count(*) FROM alert_silence) >= ?3);

-- name: putSilence
INSERT INTO alert_silence (id, namespace, workflow, rule, until, created, actor, reason)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8 WHERE (SELECT count(*) FROM alert_silence) < ?9;

-- name: endSilence
UPDATE alert_silence SET until = ?2 WHERE id = ?1 AND until > ?2;

-- name: insertIncident
INSERT INTO incident (id, shard, workflow, namespace, rule, state, revision, created, modified, ended, data)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11);

-- name: updateIncident
UPDATE incident SET state = ?3, revision = ?4, modified = ?5, ended = ?6, data = ?7 WHERE id = ?1 AND shard = ?2 AND revision = ?4 - 1;

-- name: insertNotice
INSERT INTO notice (incident, seq, channel, namespace, shard, workflow, state, tries, due, created, ended, error, data)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13);

-- name: noteNotice
UPDATE notice SET state = ?4, tries = ?5, due = ?6, ended = ?7, error = ?8
WHERE incident = ?1 AND seq = ?2 AND channel = ?3 AND ended = 0 AND tries = ?5 - 1;

-- name: endedIncidents
SELECT i.id FROM incident i
WHERE i.ended > 0 AND i.ended < max(?1, ifnull((SELECT k.ended FROM incident k WHERE k.ended > 0 ORDER BY k.ended DESC LIMIT 1 OFFSET +?3 - 1), 0))
  AND NOT EXISTS (SELECT 1 FROM notice n WHERE n.incident = i.id AND n.ended = 0)
ORDER BY i.ended LIMIT +?2;

-- name: expireNotices
DELETE FROM notice WHERE incident = ?1;

-- name: expireIncident
DELETE FROM incident WHERE id = ?1;
