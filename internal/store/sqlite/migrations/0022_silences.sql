-- Format 22: silences of alerts.

CREATE TABLE alert_silence (
  id        BLOB NOT NULL PRIMARY KEY,
  namespace TEXT NOT NULL,
  workflow  TEXT NOT NULL,
  rule      TEXT NOT NULL,
  until     INTEGER NOT NULL,
  created   INTEGER NOT NULL,
  actor     TEXT NOT NULL,
  reason    TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX incident_last ON incident (workflow, rule, created, id);
