-- Format 13: what plainly ends in a transaction lies packed beside what it hands over (event.hands), or in the row of the run
-- that first ends in it. It is written so as soon as the database has this format, and read always.

ALTER TABLE run ADD ends bytea;
