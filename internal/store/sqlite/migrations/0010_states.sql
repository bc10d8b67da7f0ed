-- Format 10: the runs that ended failed, stopped or skipped are lists of their own (roll: 's/' || state). Those that exist
-- are listed before this step, a bounded number of runs in a transaction (states.go).
SELECT 1;
