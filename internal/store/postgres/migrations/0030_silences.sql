-- Format 30: silences of alerts. A node of an earlier version tells what is silenced.

CREATE TABLE alert_silence (
  id        uuid   PRIMARY KEY,
  until     bigint NOT NULL,
  created   bigint NOT NULL,
  namespace text   NOT NULL COLLATE "C",
  workflow  text   NOT NULL COLLATE "C",
  rule      text   NOT NULL COLLATE "C",
  actor     text   NOT NULL COLLATE "C",
  reason    text   NOT NULL COLLATE "C"
);
CREATE INDEX incident_last ON incident (workflow, rule, created, id);
