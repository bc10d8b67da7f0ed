-- Format 5: runs of a backfill stay while it goes on.
CREATE INDEX backfill_unfinished ON backfill (workflow) WHERE state IN ('running', 'paused');
