-- Format 24: namespaces with quotas (0: no bound), and what the shards use of them.

CREATE TABLE namespace (
  name          TEXT PRIMARY KEY,
  revision      INTEGER NOT NULL,
  runs          INTEGER NOT NULL,
  runs_per_hour INTEGER NOT NULL,
  tasks         INTEGER NOT NULL,
  params_bytes  INTEGER NOT NULL,
  modified      INTEGER NOT NULL,
  actor         TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE namespace_use (
  namespace TEXT NOT NULL,
  shard     INTEGER NOT NULL,
  runs      INTEGER NOT NULL,
  started   INTEGER NOT NULL,
  since     INTEGER NOT NULL,
  PRIMARY KEY (namespace, shard)
) WITHOUT ROWID;
