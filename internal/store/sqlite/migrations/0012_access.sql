-- Format 12: principals, roles and bindings. The API tokens of earlier versions belong to the first service, which has the role
-- cluster in all namespaces.

CREATE TABLE rights (
  one      INTEGER PRIMARY KEY CHECK (one = 1),
  revision INTEGER NOT NULL
);
CREATE TABLE principal (
  id      INTEGER PRIMARY KEY,
  kind    TEXT NOT NULL,
  name    TEXT NOT NULL UNIQUE,
  state   TEXT NOT NULL,
  created INTEGER NOT NULL,
  actor   TEXT NOT NULL
);
CREATE TABLE role (
  name    TEXT NOT NULL PRIMARY KEY,
  verbs   TEXT NOT NULL,
  created INTEGER NOT NULL,
  actor   TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE binding (
  subject   INTEGER NOT NULL,
  role      TEXT NOT NULL,
  namespace TEXT NOT NULL,
  expires   INTEGER NOT NULL,
  created   INTEGER NOT NULL,
  actor     TEXT NOT NULL,
  PRIMARY KEY (subject, role, namespace)
) WITHOUT ROWID;
INSERT INTO rights VALUES (1, 1);
INSERT INTO principal VALUES (1, 'service', 'api', 'active', CAST(unixepoch('subsec') * 1000000 AS INTEGER), 'skein');
INSERT INTO binding VALUES (1, 'cluster', '*', 0, CAST(unixepoch('subsec') * 1000000 AS INTEGER), 'skein');

ALTER TABLE token ADD COLUMN principal INTEGER NOT NULL DEFAULT 1;
ALTER TABLE token ADD COLUMN verbs TEXT NOT NULL DEFAULT '*';
ALTER TABLE token ADD COLUMN namespaces TEXT NOT NULL DEFAULT '*';
ALTER TABLE token ADD COLUMN maker INTEGER NOT NULL DEFAULT 0;
