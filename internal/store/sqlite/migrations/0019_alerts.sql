-- Format 19: channels, incidents of alert rules, and what channels are told about them.

CREATE TABLE alert_channel (
  namespace TEXT NOT NULL,
  name      TEXT NOT NULL,
  version   INTEGER NOT NULL,
  data      BLOB NOT NULL,
  actor     TEXT NOT NULL,
  created   INTEGER NOT NULL,
  modified  INTEGER NOT NULL,
  PRIMARY KEY (namespace, name)
) WITHOUT ROWID;

CREATE TABLE incident (
  id        BLOB NOT NULL PRIMARY KEY,
  shard     INTEGER NOT NULL,
  workflow  INTEGER NOT NULL,
  namespace TEXT NOT NULL,
  rule      TEXT NOT NULL,
  state     TEXT NOT NULL,
  revision  INTEGER NOT NULL,
  created   INTEGER NOT NULL,
  modified  INTEGER NOT NULL,
  ended     INTEGER NOT NULL,
  data      BLOB NOT NULL
) WITHOUT ROWID;
CREATE UNIQUE INDEX incident_rule ON incident (workflow, rule) WHERE ended = 0;
CREATE INDEX incident_open ON incident (shard, id) WHERE ended = 0;
CREATE INDEX incident_created ON incident (created, id);
CREATE INDEX incident_ended ON incident (ended) WHERE ended > 0;

CREATE TABLE notice (
  incident  BLOB NOT NULL,
  seq       INTEGER NOT NULL,
  channel   TEXT NOT NULL,
  namespace TEXT NOT NULL,
  shard     INTEGER NOT NULL,
  workflow  INTEGER NOT NULL,
  state     TEXT NOT NULL,
  tries     INTEGER NOT NULL,
  due       INTEGER NOT NULL,
  created   INTEGER NOT NULL,
  ended     INTEGER NOT NULL,
  error     TEXT NOT NULL,
  data      BLOB NOT NULL,
  PRIMARY KEY (incident, seq, channel)
) WITHOUT ROWID;
CREATE INDEX notice_due ON notice (shard, due) WHERE ended = 0;
CREATE INDEX notice_lost ON notice (ended) WHERE ended > 0 AND state <> 'sent';
