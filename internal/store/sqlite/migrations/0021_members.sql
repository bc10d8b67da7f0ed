-- Format 21: the workers that are attached to this node. The node itself has no row.

CREATE TABLE member (
  handler INTEGER NOT NULL PRIMARY KEY,
  uuid    TEXT NOT NULL,
  name    TEXT NOT NULL UNIQUE,
  version TEXT NOT NULL,
  format  INTEGER NOT NULL,
  state   TEXT NOT NULL,
  slots   INTEGER NOT NULL,
  busy    INTEGER NOT NULL,
  beat    INTEGER NOT NULL,
  started INTEGER NOT NULL,
  seen    INTEGER NOT NULL,
  home    INTEGER NOT NULL,
  lease   INTEGER NOT NULL,
  traits  TEXT NOT NULL
);
