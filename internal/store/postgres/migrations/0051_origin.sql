-- Format 51: the session at an identity provider by which a person signed in (a hash; '': not known). Nodes of
-- earlier versions write ''.

ALTER TABLE session ADD COLUMN origin text NOT NULL DEFAULT '' COLLATE "C";
