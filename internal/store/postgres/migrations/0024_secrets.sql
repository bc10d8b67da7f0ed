-- Format 24: sealed secrets, and which key new ones are sealed with. The key itself is not in the database.

CREATE TABLE secret (
  version   bigint NOT NULL,
  created   bigint NOT NULL,
  modified  bigint NOT NULL,
  namespace text   NOT NULL COLLATE "C",
  name      text   NOT NULL COLLATE "C",
  key       text   NOT NULL COLLATE "C",
  actor     text   NOT NULL COLLATE "C",
  wrapped   bytea  NOT NULL,
  data      bytea  NOT NULL,
  PRIMARY KEY (namespace, name)
);

CREATE TABLE secret_key (
  one   bigint PRIMARY KEY,
  since bigint NOT NULL,
  id    text   NOT NULL COLLATE "C"
);
