-- Format 11: resource classes of one's own.

CREATE TABLE class (
  cpu      bigint NOT NULL,
  memory   bigint NOT NULL,
  created  bigint NOT NULL,
  modified bigint NOT NULL,
  name     text   NOT NULL COLLATE "C" PRIMARY KEY,
  actor    text   NOT NULL COLLATE "C"
);
