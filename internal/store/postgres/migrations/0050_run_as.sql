-- Format 50: the Unix user of the tasks of a namespace; '': each worker chooses one. While nodes of earlier versions run, none
-- can be set.

ALTER TABLE namespace ADD COLUMN run_as text NOT NULL DEFAULT '' COLLATE "C";
