-- The statements of readers. Each runs on a read-only connection, in pages.

-- name: shard
SELECT epoch, seq, owner FROM shard WHERE id = ?1;

-- name: runById
SELECT * FROM run WHERE id = ?1;

-- name: runByKey
SELECT * FROM run WHERE workflow = ?1 AND key = ?2;

-- name: activeRuns
SELECT * FROM run WHERE shard = ?1 AND finished = 0 AND id > ?2 ORDER BY id LIMIT ?3;

-- name: activeRunsNewest
SELECT * FROM run INDEXED BY run_active WHERE shard = ?1 AND finished = 0 AND id < ?2 ORDER BY id DESC LIMIT ?3;

-- name: runsNewest
SELECT * FROM run WHERE id < ?1 ORDER BY id DESC LIMIT ?2;

-- name: runsOfWorkflow
SELECT * FROM run INDEXED BY run_workflow WHERE workflow = ?1 AND id < ?2 ORDER BY id DESC LIMIT ?3;

-- name: runsOfUser
SELECT * FROM run INDEXED BY run_user WHERE user = ?1 AND id < ?2 ORDER BY id DESC LIMIT ?3;

-- name: countActive
SELECT state, count(*) FROM run WHERE shard = ?1 AND finished = 0 GROUP BY state;

-- name: allRuns
SELECT * FROM run ORDER BY id;

-- name: attemptsOfRun
SELECT * FROM attempt WHERE run = ?1 ORDER BY task, token;

-- name: attemptsOfTask
SELECT * FROM attempt WHERE run = ?1 AND task = ?2 ORDER BY token;

-- name: eventsOfRun
SELECT run, seq, at, records FROM event WHERE run = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3;

-- name: handlerById
SELECT id, uuid, node, started FROM handler WHERE id = ?1;

-- name: workflowById
SELECT * FROM workflow WHERE id = ?1;

-- name: workflowByName
SELECT * FROM workflow WHERE namespace = ?1 AND name = ?2 AND state <> 'deleted';

-- name: workflowsOf
SELECT * FROM workflow WHERE state <> 'deleted' AND (?1 = '' OR namespace = ?1)
  AND (namespace, name) > (?2, ?3) ORDER BY namespace, name LIMIT ?4;

-- name: versionOf
SELECT workflow, version, digest, user, created, source, def, graph FROM version WHERE workflow = ?1 AND version = ?2;

-- name: versionsOf
SELECT workflow, version, digest, user, created FROM version WHERE workflow = ?1 AND version < ?2
  ORDER BY version DESC LIMIT ?3;

-- name: filesOf
SELECT name, mode, data FROM version_file WHERE workflow = ?1 AND version = ?2 ORDER BY name;

-- name: requestByKey
SELECT scope, key, hash, answer, created FROM request WHERE scope = ?1 AND key = ?2;

-- name: messagesTo
SELECT id, sender, target, payload, created FROM message WHERE target = ?1 ORDER BY id LIMIT ?2;

-- name: meta
SELECT cluster FROM meta;
