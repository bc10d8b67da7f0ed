-- Format 2: the members of a cluster, and the runs that others than their owners inserted.

CREATE TABLE member (
  handler bigint  PRIMARY KEY,
  beat    bigint  NOT NULL,
  started bigint  NOT NULL,
  seen    bigint  NOT NULL,
  uuid    uuid    NOT NULL,
  format  integer NOT NULL,
  slots   integer NOT NULL,
  busy    integer NOT NULL,
  name    text    NOT NULL COLLATE "C" UNIQUE,
  address text    NOT NULL COLLATE "C",
  version text    NOT NULL COLLATE "C",
  state   text    NOT NULL COLLATE "C" CHECK (state IN ('active', 'leaving'))
) WITH (fillfactor = 50);

-- workflows is how many belong to the shard and are not deleted. Every node reads it twice a
-- second, so it is counted where it changes: by the database, which no writer can forget. The
-- shard's row is its writer's already, by the fence.
ALTER TABLE shard ADD wanted bigint NOT NULL DEFAULT 0, ADD workflows bigint NOT NULL DEFAULT 0;

CREATE FUNCTION count_workflow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP <> 'INSERT' AND OLD.state <> 'deleted' THEN
    UPDATE shard SET workflows = workflows - 1 WHERE id = OLD.shard;
  END IF;
  IF TG_OP <> 'DELETE' AND NEW.state <> 'deleted' THEN
    UPDATE shard SET workflows = workflows + 1 WHERE id = NEW.shard;
  END IF;
  RETURN NULL;
END $$;

CREATE TRIGGER workflow_count AFTER INSERT OR DELETE ON workflow FOR EACH ROW EXECUTE FUNCTION count_workflow();
CREATE TRIGGER workflow_recount AFTER UPDATE ON workflow FOR EACH ROW
  WHEN (OLD.shard <> NEW.shard OR (OLD.state = 'deleted') <> (NEW.state = 'deleted')) EXECUTE FUNCTION count_workflow();

UPDATE shard s SET workflows = (SELECT count(*) FROM workflow w WHERE w.shard = s.id AND w.state <> 'deleted');

-- The unfinished runs in state submitted: others than the owner have inserted them, and the
-- owner looks here for them. It is a table for the reason that active is one.
CREATE TABLE submitted (
  run   uuid    NOT NULL,
  shard integer NOT NULL,
  PRIMARY KEY (shard, run)
);
INSERT INTO submitted (run, shard) SELECT r.id, r.shard FROM active a JOIN run r ON r.id = a.run WHERE r.state = 'submitted';
