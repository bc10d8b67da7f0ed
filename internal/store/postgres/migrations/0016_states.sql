-- Format 16: runs that ended failed, stopped or skipped are listed by state. They are few, and people often
-- ask for them. The list is a table, as active is one: an index of run on a column that changes at the end of
-- a run would cost every run.

CREATE TABLE unsuccessful (
  run      uuid   NOT NULL,
  workflow bigint NOT NULL,
  state    text   NOT NULL COLLATE "C",
  PRIMARY KEY (state, run)
);
CREATE INDEX unsuccessful_workflow ON unsuccessful (workflow, state, run);

-- Programs of older formats do not write this list. Once no such program is left, Upgrade adds the existing
-- runs, from the newest to the oldest, in small steps. listed says how far it has come: only runs with ids
-- from listed on are in the list. If listed is NULL, the list is complete, and queries use it.
ALTER TABLE meta ADD COLUMN listed uuid;
UPDATE meta SET listed = 'ffffffff-ffff-ffff-ffff-ffffffffffff';
