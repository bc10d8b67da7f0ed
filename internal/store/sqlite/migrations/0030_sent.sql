-- Format 30: the log of events that were sent to the events API. sent_head has the end of the log.

CREATE TABLE sent_event (
  seq      INTEGER PRIMARY KEY,
  received INTEGER NOT NULL,
  namespace TEXT NOT NULL,
  source   TEXT NOT NULL,
  id       TEXT NOT NULL,
  type     TEXT NOT NULL,
  data     BLOB NOT NULL
);
CREATE UNIQUE INDEX sent_event_id ON sent_event (namespace, source, id);
CREATE INDEX sent_event_received ON sent_event (received, seq);

CREATE TABLE sent_head (
  one      INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
  seq      INTEGER NOT NULL,
  received INTEGER NOT NULL
);
