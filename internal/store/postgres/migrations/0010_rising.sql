-- Format 10: the format is what every node must know; it rises when all that are listed know the
-- next. applied is how many migrations have been carried out: they only add, so that whoever
-- knows the format works on, whatever was applied.

ALTER TABLE meta ADD COLUMN applied integer NOT NULL DEFAULT 10;

-- A node that began to join before the format rose is refused here, whatever its program knows of
-- this. 0: who joins does not say.
CREATE FUNCTION member_knows() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  needed integer;
BEGIN
  IF NEW.worker OR NEW.format = 0 THEN
    RETURN NEW;
  END IF;
  SELECT format INTO needed FROM meta FOR SHARE;
  IF NEW.format < needed THEN
    RAISE EXCEPTION 'the database has format %, % knows up to %; use a newer skein', needed, NEW.name, NEW.format USING ERRCODE = 'invalid_schema_name';
  END IF;
  RETURN NEW;
END $$;

CREATE TRIGGER member_knows BEFORE INSERT ON member FOR EACH ROW EXECUTE FUNCTION member_knows();
