-- Format 27: channels, incidents of alert rules, and what channels are told about them. A node of an earlier
-- version opens no incidents.

CREATE TABLE alert_channel (
  version   bigint NOT NULL,
  created   bigint NOT NULL,
  modified  bigint NOT NULL,
  namespace text   NOT NULL COLLATE "C",
  name      text   NOT NULL COLLATE "C",
  actor     text   NOT NULL COLLATE "C",
  data      bytea  NOT NULL,
  PRIMARY KEY (namespace, name)
);

CREATE TABLE incident (
  id        uuid   PRIMARY KEY,
  workflow  bigint NOT NULL,
  revision  bigint NOT NULL,
  created   bigint NOT NULL,
  modified  bigint NOT NULL,
  ended     bigint NOT NULL,
  shard     int    NOT NULL,
  namespace text   NOT NULL COLLATE "C",
  rule      text   NOT NULL COLLATE "C",
  state     text   NOT NULL COLLATE "C",
  data      bytea  NOT NULL
);
CREATE UNIQUE INDEX incident_rule ON incident (workflow, rule) WHERE ended = 0;
CREATE INDEX incident_open ON incident (shard, id) WHERE ended = 0;
CREATE INDEX incident_created ON incident (created, id);
CREATE INDEX incident_ended ON incident (ended) WHERE ended > 0;

CREATE TABLE notice (
  incident  uuid   NOT NULL,
  workflow  bigint NOT NULL,
  due       bigint NOT NULL,
  created   bigint NOT NULL,
  ended     bigint NOT NULL,
  seq       int    NOT NULL,
  shard     int    NOT NULL,
  tries     int    NOT NULL,
  channel   text   NOT NULL COLLATE "C",
  namespace text   NOT NULL COLLATE "C",
  state     text   NOT NULL COLLATE "C",
  error     text   NOT NULL COLLATE "C",
  data      bytea  NOT NULL,
  PRIMARY KEY (incident, seq, channel)
);
CREATE INDEX notice_due ON notice (shard, due) WHERE ended = 0;
CREATE INDEX notice_lost ON notice (ended) WHERE ended > 0 AND state <> 'sent';
