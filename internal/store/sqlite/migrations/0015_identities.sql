-- Format 15: accounts of people at identity providers, and which roles the groups of a provider give.

CREATE TABLE identity (
  issuer    TEXT NOT NULL,
  subject   TEXT NOT NULL,
  source    TEXT NOT NULL,
  principal INTEGER NOT NULL,
  PRIMARY KEY (issuer, subject)
) WITHOUT ROWID;
ALTER TABLE binding ADD COLUMN source TEXT NOT NULL DEFAULT '';
