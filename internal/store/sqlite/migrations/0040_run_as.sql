-- Format 40: the Unix user of the tasks of a namespace; '': each worker chooses one.

ALTER TABLE namespace ADD COLUMN run_as TEXT NOT NULL DEFAULT '';
