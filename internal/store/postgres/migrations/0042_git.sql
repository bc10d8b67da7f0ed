-- Format 42: git sources, from whose repositories namespaces get workflows. Nodes of earlier versions look at
-- no repository.

CREATE TABLE git_source (
  version   bigint NOT NULL,
  shard     bigint NOT NULL,
  seq       bigint NOT NULL,
  created   bigint NOT NULL,
  modified  bigint NOT NULL,
  namespace text   NOT NULL COLLATE "C",
  name      text   NOT NULL COLLATE "C",
  actor     text   NOT NULL COLLATE "C",
  spec      bytea  NOT NULL,
  state     bytea,
  PRIMARY KEY (namespace, name)
);
