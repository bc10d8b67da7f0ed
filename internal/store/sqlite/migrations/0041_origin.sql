-- Format 41: the session at an identity provider by which a person signed in (a hash; '': not known).

ALTER TABLE session ADD COLUMN origin TEXT NOT NULL DEFAULT '';
