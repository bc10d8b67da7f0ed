-- Format 31: audit rows by their time. Upgrade builds the index audit_at of a table that has rows: nodes of
-- the version before write to it all the time.

DO $$ BEGIN
  IF NOT EXISTS (SELECT FROM audit) THEN
    CREATE INDEX audit_at ON audit (at, id);
  END IF;
END $$;
