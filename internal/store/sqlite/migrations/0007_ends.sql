-- Format 7. What plainly ends in a transaction lies packed beside what it hands over (event.hands), or here.
ALTER TABLE run ADD COLUMN ends BLOB; -- of the transaction that first ended it
