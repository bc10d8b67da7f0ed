-- The statements of principals, roles and bindings.

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

-- name: moveRights
WITH changed AS (UPDATE rights SET revision = revision + 1 WHERE one = 1 AND revision = $1 RETURNING 1)
SELECT must(count(*) = 1, 'the rights have changed meanwhile') FROM changed;

-- name: insertPrincipal
INSERT INTO principal (id, kind, name, state, created, actor)
VALUES ($1, $2, $3, $4, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, $5);

-- name: setPrincipal
WITH changed AS (UPDATE principal SET name = $2, state = $3 WHERE id = $1 RETURNING 1)
SELECT must(count(*) = 1, 'the principal is not there') FROM changed;

-- name: dropPrincipal
WITH gone AS (DELETE FROM principal WHERE id = $1 RETURNING 1)
SELECT must(count(*) = 1, 'the principal is not there') FROM gone;

-- name: passwordOf
SELECT principal, hash, changed FROM password WHERE principal = $1;

-- name: putPassword
WITH changed AS (
  INSERT INTO password (principal, hash, changed)
  SELECT $1, $2, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint WHERE EXISTS (SELECT FROM principal WHERE id = $1)
  ON CONFLICT (principal) DO UPDATE SET hash = excluded.hash, changed = excluded.changed RETURNING 1)
SELECT must(count(*) = 1, 'the principal is not there') FROM changed;

-- name: dropPassword
DELETE FROM password WHERE principal = $1;

-- name: identify
WITH changed AS (
  INSERT INTO identity (principal, issuer, subject, source) SELECT $1, $2, $3, $4 WHERE EXISTS (SELECT FROM principal WHERE id = $1)
  ON CONFLICT (issuer, subject) DO UPDATE SET principal = excluded.principal, source = excluded.source RETURNING 1)
SELECT must(count(*) = 1, 'the principal is not there') FROM changed;

-- name: dropIdentities
DELETE FROM identity WHERE principal = $1;

-- name: unbindPrincipal
DELETE FROM binding WHERE subject = $1;

-- name: putRole
INSERT INTO role (name, verbs, created, actor) VALUES ($1, $2, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, $3)
ON CONFLICT (name) DO UPDATE SET verbs = excluded.verbs, actor = excluded.actor;

-- name: dropRole
WITH gone AS (DELETE FROM role WHERE name = $1 RETURNING 1)
SELECT must(count(*) = 1, 'the role is not there') FROM gone;

-- name: unbindRole
DELETE FROM binding WHERE role = $1;

-- name: unbind
WITH gone AS (DELETE FROM binding WHERE subject = $1 AND role = $2 AND namespace = $3 RETURNING 1)
SELECT must(count(*) = 1, 'the binding is not there') FROM gone;

-- name: bind
WITH changed AS (
  INSERT INTO binding (subject, role, namespace, expires, created, actor, source)
  SELECT $1, $2, $3, $4, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, $5, $6
  WHERE EXISTS (SELECT FROM principal WHERE id = $1)
  ON CONFLICT (subject, role, namespace) DO UPDATE SET expires = excluded.expires, actor = excluded.actor, source = excluded.source RETURNING 1)
SELECT must(count(*) = 1, 'the principal is not there') FROM changed;
