-- Format 21: sessions of people who have signed in, and one-time codes. Only the hash of what a holder shows is here.

CREATE TABLE session (
  id        bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
  principal bigint NOT NULL,
  token     bigint NOT NULL,
  created   bigint NOT NULL,
  used      bigint NOT NULL,
  expires   bigint NOT NULL,
  code      bigint NOT NULL,
  hash      bytea  NOT NULL UNIQUE,
  address   text   NOT NULL COLLATE "C",
  agent     text   NOT NULL COLLATE "C"
);
