-- Format 44: sessions that a code has opened end with the session that made the code (parent; 0: none did).

ALTER TABLE session ADD COLUMN parent bigint NOT NULL DEFAULT 0;
CREATE INDEX session_parent ON session (parent) WHERE parent <> 0;

CREATE FUNCTION session_ended() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM session WHERE parent = OLD.id AND parent <> 0;
  RETURN NULL;
END $$;
CREATE TRIGGER session_ended AFTER DELETE ON session FOR EACH ROW EXECUTE FUNCTION session_ended();
