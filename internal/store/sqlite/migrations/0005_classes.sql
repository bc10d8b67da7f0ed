-- Format 5: resource classes of one's own.

CREATE TABLE class (
  name     TEXT PRIMARY KEY,
  cpu      INTEGER NOT NULL,
  memory   INTEGER NOT NULL,
  actor    TEXT NOT NULL,
  created  INTEGER NOT NULL,
  modified INTEGER NOT NULL
) WITHOUT ROWID;
