-- Format 40: the log of events that were sent to the events API. sent_head has the end of the log. Its row is
-- locked by each transaction that appends, so numbers are seen in their order.

CREATE TABLE sent_event (
  seq      bigint PRIMARY KEY,
  received bigint NOT NULL,
  namespace text  NOT NULL COLLATE "C",
  source   text   NOT NULL COLLATE "C",
  id       text   NOT NULL COLLATE "C",
  type     text   NOT NULL COLLATE "C",
  data     bytea  NOT NULL
);
CREATE UNIQUE INDEX sent_event_id ON sent_event (namespace, source, id);
CREATE INDEX sent_event_received ON sent_event (received, seq);

CREATE TABLE sent_head (
  one      bigint PRIMARY KEY CHECK (one = 1),
  seq      bigint NOT NULL,
  received bigint NOT NULL
);
