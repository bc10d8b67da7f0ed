-- Format 15: nothing is stored in another form. Under it transactions are written ahead (ahead.go), which programs that take a shard
-- must wait for, or end; older ones do not.

SELECT 1;
