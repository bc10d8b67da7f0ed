-- Format 16: the runs that ended failed, stopped or skipped are listed by state: they are few, and people ask for them. It
-- is a table for the reason that active is one: an index of run on what its end changes costs every run.

CREATE TABLE unsuccessful (
  run      uuid   NOT NULL,
  workflow bigint NOT NULL,
  state    text   NOT NULL COLLATE "C",
  PRIMARY KEY (state, run)
);
CREATE INDEX unsuccessful_workflow ON unsuccessful (workflow, state, run);

-- Programs of older formats do not keep this list. Once there are none, the runs that are there are listed from the newest
-- to the oldest, in small steps beside everything else: those with smaller ids than listed are still to come. NULL: all are
-- listed, and queries go by the list.
ALTER TABLE meta ADD COLUMN listed uuid;
UPDATE meta SET listed = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

-- What dies is cleared before it is a fifth of a table: of a large one that is too much.
ALTER TABLE run SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
ALTER TABLE attempt SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
ALTER TABLE event SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
ALTER TABLE log SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
ALTER TABLE fire SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
