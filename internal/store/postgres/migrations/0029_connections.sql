-- Format 29: connections, by which tasks reach other systems. A node of an earlier version sends a request
-- that names a connection to no address: the task fails.

CREATE TABLE connection (
  version   bigint NOT NULL,
  created   bigint NOT NULL,
  modified  bigint NOT NULL,
  namespace text   NOT NULL COLLATE "C",
  name      text   NOT NULL COLLATE "C",
  actor     text   NOT NULL COLLATE "C",
  data      bytea  NOT NULL,
  PRIMARY KEY (namespace, name)
);
