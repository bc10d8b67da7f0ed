-- Format 36: the least level of isolation of the tasks of a namespace. '': the namespace demands none.

ALTER TABLE namespace ADD COLUMN isolation TEXT NOT NULL DEFAULT '';
