-- Format 37: alert rules about the cluster, and the members that were declared dead. Nodes build the index
-- version_watched while they run. A node of an earlier version notes no lost members.

CREATE TABLE alert_rules (
  version   bigint NOT NULL,
  created   bigint NOT NULL,
  modified  bigint NOT NULL,
  namespace text   PRIMARY KEY COLLATE "C",
  actor     text   NOT NULL COLLATE "C",
  data      bytea  NOT NULL
);

CREATE TABLE member_lost (
  handler bigint NOT NULL,
  at      bigint NOT NULL,
  worker  bool   NOT NULL,
  name    text   PRIMARY KEY COLLATE "C"
);
