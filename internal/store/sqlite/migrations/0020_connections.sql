-- Format 20: connections, by which tasks reach other systems.

CREATE TABLE connection (
  namespace TEXT NOT NULL,
  name      TEXT NOT NULL,
  version   INTEGER NOT NULL,
  data      BLOB NOT NULL,
  actor     TEXT NOT NULL,
  created   INTEGER NOT NULL,
  modified  INTEGER NOT NULL,
  PRIMARY KEY (namespace, name)
) WITHOUT ROWID;
