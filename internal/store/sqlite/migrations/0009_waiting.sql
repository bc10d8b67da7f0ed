-- Format 9: what it costs a run to wait. Who comes to a line in one transaction is one row of it, not one each: most come and
-- leave together. And a run that waited has the history of the transaction that lets it begin in its row, as it has that of
-- those which insert it and first end it.

ALTER TABLE line RENAME TO line_of_one;
CREATE TABLE line (
  line  TEXT NOT NULL,
  level INTEGER NOT NULL,
  asked INTEGER NOT NULL,
  first INTEGER NOT NULL, -- run.n of the first of them who still stands here
  kept  INTEGER NOT NULL,
  count INTEGER NOT NULL, -- how many do
  runs  TEXT NOT NULL,    -- JSON: how far the run.n of each of these is from first, rising from 0
  PRIMARY KEY (line, level, asked, first)
) WITHOUT ROWID;
INSERT INTO line (line, level, asked, first, kept, count, runs) SELECT line, level, asked, run, kept, 1, '[0]' FROM line_of_one;
DROP TABLE line_of_one;

-- The runs that stand in lines, one by one. A damaged row has none: verify says so.
CREATE VIEW stander AS
SELECT l.line, l.level, l.asked, l.first + j.value AS run, l.kept FROM line l, json_each(iif(json_valid(l.runs), l.runs, '[]')) j;

ALTER TABLE run ADD COLUMN hands_begun BLOB;
ALTER TABLE run ADD COLUMN begun_seq INTEGER;
ALTER TABLE run ADD COLUMN begun_at INTEGER;
ALTER TABLE run ADD COLUMN events_begun BLOB;
