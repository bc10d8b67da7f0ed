-- Format 14: sessions of people who have signed in, and one-time codes. Only the hash of what a holder shows is here.

CREATE TABLE session (
  id        INTEGER PRIMARY KEY AUTOINCREMENT,
  hash      BLOB NOT NULL UNIQUE,
  code      INTEGER NOT NULL,
  principal INTEGER NOT NULL,
  token     INTEGER NOT NULL,
  created   INTEGER NOT NULL,
  used      INTEGER NOT NULL,
  expires   INTEGER NOT NULL,
  address   TEXT NOT NULL,
  agent     TEXT NOT NULL
);
