-- Format 31: git sources, from whose repositories namespaces get workflows.

CREATE TABLE git_source (
  namespace TEXT NOT NULL,
  name      TEXT NOT NULL,
  version   INTEGER NOT NULL,
  shard     INTEGER NOT NULL,
  spec      BLOB NOT NULL,
  state     BLOB,
  seq       INTEGER NOT NULL,
  actor     TEXT NOT NULL,
  created   INTEGER NOT NULL,
  modified  INTEGER NOT NULL,
  PRIMARY KEY (namespace, name)
) WITHOUT ROWID;
