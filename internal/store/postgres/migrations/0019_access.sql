-- Format 19: principals, roles and bindings. The API tokens of earlier versions belong to the first service, which has the role
-- cluster in all namespaces; so do those that a node of an earlier version makes on this database.

CREATE TABLE rights (
  revision bigint  NOT NULL,
  one      integer NOT NULL PRIMARY KEY CHECK (one = 1)
);
CREATE TABLE principal (
  id      bigint NOT NULL PRIMARY KEY,
  created bigint NOT NULL,
  kind    text   NOT NULL COLLATE "C",
  name    text   NOT NULL COLLATE "C" UNIQUE,
  state   text   NOT NULL COLLATE "C",
  actor   text   NOT NULL COLLATE "C"
);
CREATE TABLE role (
  created bigint NOT NULL,
  name    text   NOT NULL COLLATE "C" PRIMARY KEY,
  verbs   text   NOT NULL COLLATE "C",
  actor   text   NOT NULL COLLATE "C"
);
CREATE TABLE binding (
  subject   bigint NOT NULL,
  expires   bigint NOT NULL,
  created   bigint NOT NULL,
  role      text   NOT NULL COLLATE "C",
  namespace text   NOT NULL COLLATE "C",
  actor     text   NOT NULL COLLATE "C",
  PRIMARY KEY (subject, role, namespace)
);
INSERT INTO rights (one, revision) VALUES (1, 1);
INSERT INTO principal (id, kind, name, state, created, actor) VALUES (1, 'service', 'api', 'active', (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, 'skein');
INSERT INTO binding (subject, role, namespace, expires, created, actor) VALUES (1, 'cluster', '*', 0, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, 'skein');

ALTER TABLE token ADD COLUMN principal  bigint NOT NULL DEFAULT 1,
                  ADD COLUMN maker      bigint NOT NULL DEFAULT 0,
                  ADD COLUMN verbs      text   NOT NULL DEFAULT '*' COLLATE "C",
                  ADD COLUMN namespaces text   NOT NULL DEFAULT '*' COLLATE "C";
