-- Format 18: the audit log. A row gets its index in the tree (idx; -1: none yet) and its hash after its transaction.

CREATE TABLE audit (
  id        INTEGER PRIMARY KEY AUTOINCREMENT,
  key       BLOB NOT NULL UNIQUE,
  idx       INTEGER NOT NULL,
  hash      BLOB,
  at        INTEGER NOT NULL,
  last      INTEGER NOT NULL,
  count     INTEGER NOT NULL,
  principal TEXT NOT NULL,
  kind      TEXT NOT NULL,
  token     INTEGER NOT NULL,
  session   INTEGER NOT NULL,
  address   TEXT NOT NULL,
  verb      TEXT NOT NULL,
  action    TEXT NOT NULL,
  object    TEXT NOT NULL,
  namespace TEXT NOT NULL,
  outcome   TEXT NOT NULL,
  request   TEXT NOT NULL,
  detail    TEXT NOT NULL
);
CREATE UNIQUE INDEX audit_index ON audit (idx) WHERE idx >= 0;
CREATE INDEX audit_fresh ON audit (id) WHERE idx < 0;

CREATE TABLE audit_tree (
  one   INTEGER PRIMARY KEY,
  size  INTEGER NOT NULL,
  first INTEGER NOT NULL,
  head  BLOB NOT NULL,
  edge  BLOB NOT NULL,
  era   INTEGER NOT NULL,
  base  INTEGER NOT NULL
);
