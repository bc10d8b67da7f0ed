-- Format 34: sessions that a code has opened end with the session that made the code (parent; 0: none did).

ALTER TABLE session ADD COLUMN parent INTEGER NOT NULL DEFAULT 0;
CREATE INDEX session_parent ON session (parent) WHERE parent <> 0;

CREATE TRIGGER session_ended AFTER DELETE ON session BEGIN
  DELETE FROM session WHERE parent = OLD.id AND parent <> 0;
END;
