-- Format 6. What a transaction hands over of a run lies packed in the row that has its history: attempts
-- get rows of their own when they change.
ALTER TABLE run ADD COLUMN hands BLOB; -- of the transaction that inserted it
ALTER TABLE event ADD COLUMN hands BLOB;
