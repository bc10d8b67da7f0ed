-- Format 33: the histories of the server in which eras began. A node of an earlier version does not look
-- whether its connection belongs to the history in which the present era began.

CREATE TABLE era (
  timeline bigint   NOT NULL, -- of the server that began the era; 0: unknown
  made     bigint   NOT NULL, -- see made_of
  began    bigint   NOT NULL,
  era      int      PRIMARY KEY,
  system   text     NOT NULL COLLATE "C", -- '': unknown
  epochs   bigint[] NOT NULL, -- of the shards, by id, when the era before ended
  seqs     bigint[] NOT NULL
);

-- The numbers of a table and of its database: a restored dump has another table, and a database that was
-- created from a template has another number itself.
CREATE OR REPLACE FUNCTION made_of(made regclass) RETURNS bigint LANGUAGE sql STABLE AS $$
  SELECT (oid::bigint << 32) | made::oid::bigint FROM pg_database WHERE datname = current_database()
$$;

-- The lower 20 bits of an epoch count how often the shard was taken in its era. They must not be carried into
-- the floor of the era.
CREATE OR REPLACE FUNCTION next_epoch(epoch bigint) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
  IF epoch % 1048576 = 1048575 THEN
    RAISE EXCEPTION USING ERRCODE = 'SK004',
      MESSAGE = 'a shard was taken 1,048,575 times in this era, which is the limit; run skein db recovered, which begins the next era';
  END IF;
  RETURN epoch + 1;
END $$;
