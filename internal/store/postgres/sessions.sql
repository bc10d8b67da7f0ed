-- The statements of sessions.

-- name: dropOverSessions
DELETE FROM session WHERE expires <= (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
  OR code = 0 AND used <= (extract(epoch FROM clock_timestamp()) * 1000000)::bigint - $1::bigint;

-- name: dropOldSessions
DELETE FROM session WHERE id IN (
  SELECT id FROM session WHERE principal = $1 AND token = $2 AND code = $3 ORDER BY id DESC OFFSET $4::bigint);

-- name: dropSessionsOf
DELETE FROM session WHERE principal = $1 AND token = 0;

-- name: dropAllSessionsOf
DELETE FROM session WHERE principal = $1;

-- name: insertSession
WITH clock AS (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now)
INSERT INTO session (hash, code, principal, token, created, used, expires, address, agent, parent, origin)
SELECT $1, $2, $3, $4, now, now, $5, $6, $7, $9, $10 FROM clock WHERE (SELECT count(*) FROM session) < $8::bigint
  AND ($9::bigint = 0 OR EXISTS (SELECT FROM session WHERE id = $9))
RETURNING id, hash, code, principal, token, created, used, expires, address, agent, parent, origin;

-- name: useSession
UPDATE session SET used = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint WHERE id = $1;

-- name: endSession
DELETE FROM session WHERE id = $1
RETURNING id, hash, code, principal, token, created, used, expires, address, agent, parent, origin;

-- name: sessions
SELECT id, hash, code, principal, token, created, used, expires, address, agent, parent, origin FROM session ORDER BY id;
