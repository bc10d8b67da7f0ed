-- Format 23: audit rows by their time, so that a list since an instant reads only rows that are not older.

CREATE INDEX audit_at ON audit (at, id);
