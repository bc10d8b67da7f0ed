-- Format 33: the histories of the server in which eras began. A node of an earlier version does not look
-- whether its connection belongs to the history in which the present era began.

CREATE TABLE era (
  timeline bigint   NOT NULL, -- of the server that began the era; 0: unknown
  made     bigint   NOT NULL, -- the number of the table of shards: a restored dump has another one
  began    bigint   NOT NULL,
  era      int      PRIMARY KEY,
  system   text     NOT NULL COLLATE "C", -- '': unknown
  epochs   bigint[] NOT NULL, -- of the shards, by id, when the era before ended
  seqs     bigint[] NOT NULL
);
