-- Format 49: the level of isolation of tasks that require none, on workers whose setting leaves it to the database. A
-- database that an earlier version has made keeps the level none ('').

ALTER TABLE meta ADD COLUMN isolation text NOT NULL DEFAULT '';
