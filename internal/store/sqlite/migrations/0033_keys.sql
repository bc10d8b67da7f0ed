-- Format 33: a smaller index of keys, which gets keys late. The key of each run with a number up to meta.keyed is in
-- run_hash. If another key has the same hash, and for keys of earlier formats, it is in run_key. The keys of later runs
-- may be in neither table: the rows of the runs have them, and the process that writes knows them.
CREATE TABLE run_hash (
  hash INTEGER PRIMARY KEY, -- of workflow and key
  run  INTEGER NOT NULL     -- run.n
);
ALTER TABLE meta ADD COLUMN keyed INTEGER NOT NULL DEFAULT 0;
UPDATE meta SET keyed = (SELECT coalesce(max(n), 0) FROM run);
