-- Format 23: accounts of people at identity providers, and which roles the groups of a provider give. A node of an earlier
-- version that deletes a user leaves the row of its account; the next sign-in gives the row another user.

CREATE TABLE identity (
  principal bigint NOT NULL,
  issuer    text   NOT NULL COLLATE "C",
  subject   text   NOT NULL COLLATE "C",
  source    text   NOT NULL COLLATE "C",
  PRIMARY KEY (issuer, subject)
);
ALTER TABLE binding ADD COLUMN source text NOT NULL DEFAULT '' COLLATE "C";
