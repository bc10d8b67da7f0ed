-- Format 38: a shard that was moved because of its load has a row here. Nodes of an earlier version do not follow
-- these rows, so no shard is shifted before all nodes know this format. A shard's own row is written by every
-- transaction, so it does not have these columns.

CREATE TABLE shift (
  at         bigint  NOT NULL,
  taken_from bigint  NOT NULL,
  placed     bigint  NOT NULL,
  counts     bigint  NOT NULL,
  shard      integer PRIMARY KEY,
  why        text    NOT NULL
);
