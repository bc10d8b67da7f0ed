-- Format 28: alert rules about the cluster, the workers that were declared dead, and an index of the versions with
-- alert rules: "alerts":[ is in the JSON of their definition.

CREATE TABLE alert_rules (
  namespace TEXT NOT NULL PRIMARY KEY,
  version   INTEGER NOT NULL,
  data      BLOB NOT NULL,
  actor     TEXT NOT NULL,
  created   INTEGER NOT NULL,
  modified  INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE member_lost (
  name    TEXT NOT NULL PRIMARY KEY,
  worker  INTEGER NOT NULL,
  handler INTEGER NOT NULL,
  at      INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX version_watched ON version (workflow) WHERE instr(def, X'22616C65727473223A5B') > 0;
