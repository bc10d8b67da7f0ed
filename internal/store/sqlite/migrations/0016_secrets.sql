-- Format 16: sealed secrets, and which key new ones are sealed with. The key itself is not in the database.

CREATE TABLE secret (
  namespace TEXT NOT NULL,
  name      TEXT NOT NULL,
  version   INTEGER NOT NULL,
  key       TEXT NOT NULL,
  wrapped   BLOB NOT NULL,
  data      BLOB NOT NULL,
  actor     TEXT NOT NULL,
  created   INTEGER NOT NULL,
  modified  INTEGER NOT NULL,
  PRIMARY KEY (namespace, name)
) WITHOUT ROWID;

CREATE TABLE secret_key (
  one   INTEGER PRIMARY KEY,
  id    TEXT NOT NULL,
  since INTEGER NOT NULL
);
