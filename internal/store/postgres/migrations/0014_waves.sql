-- Format 14: the runs that a large transaction starts are one row on the list of unfinished runs, which goes when the last of
-- them has ended. It is written so as soon as the database has this format, and read always.

CREATE TABLE wave (
  shard integer NOT NULL,
  seq   bigint  NOT NULL, -- the shard's transaction that started them
  runs  uuid[]  NOT NULL,
  PRIMARY KEY (shard, seq)
);
ALTER TABLE wave ALTER runs SET STORAGE EXTERNAL; -- ids do not compress

-- The unfinished runs, each once.
CREATE VIEW unfinished AS
SELECT run, shard FROM active
UNION ALL
SELECT r.id, w.shard FROM wave w CROSS JOIN LATERAL unnest(w.runs) x (run) JOIN run r ON r.id = x.run
WHERE r.finished = 0 AND NOT EXISTS (SELECT FROM active a WHERE a.shard = w.shard AND a.run = x.run);
