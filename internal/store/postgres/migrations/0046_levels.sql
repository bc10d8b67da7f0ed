-- Format 46: the least level of isolation of the tasks of a namespace. '': the namespace demands none. While nodes of
-- earlier versions run, no level can be set: they would place the tasks of the namespace without it.

ALTER TABLE namespace ADD COLUMN isolation text NOT NULL DEFAULT '' COLLATE "C";
