-- Format 20: hashes of the passwords of principals.

CREATE TABLE password (
  principal bigint NOT NULL PRIMARY KEY,
  changed   bigint NOT NULL,
  hash      text   NOT NULL COLLATE "C"
);
