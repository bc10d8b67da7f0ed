-- Format 6: rights to call. Only the hash of what a holder shows is here.

CREATE TABLE token (
  id      bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
  created bigint NOT NULL,
  expires bigint NOT NULL,
  revoked bigint NOT NULL,
  hash    bytea  NOT NULL UNIQUE,
  kind    text   NOT NULL COLLATE "C",
  name    text   NOT NULL COLLATE "C",
  actor   text   NOT NULL COLLATE "C"
);
CREATE UNIQUE INDEX token_name ON token (name) WHERE revoked = 0;
