-- Format 3: rights to call. Only the hash of what a holder shows is here.

CREATE TABLE token (
  id      INTEGER PRIMARY KEY,
  kind    TEXT NOT NULL,
  name    TEXT NOT NULL,
  hash    BLOB NOT NULL UNIQUE,
  created INTEGER NOT NULL,
  expires INTEGER NOT NULL,
  revoked INTEGER NOT NULL,
  actor   TEXT NOT NULL
);
CREATE UNIQUE INDEX token_name ON token (name) WHERE revoked = 0;
