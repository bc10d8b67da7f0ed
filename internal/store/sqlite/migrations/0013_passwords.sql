-- Format 13: hashes of the passwords of principals.

CREATE TABLE password (
  principal INTEGER PRIMARY KEY,
  hash      TEXT NOT NULL,
  changed   INTEGER NOT NULL
);
