-- Format 45: a quota of the bytes of logs of a day (0: no bound), and the bytes of the day that each namespace uses.

ALTER TABLE namespace ADD COLUMN logs_per_day bigint NOT NULL DEFAULT 0;
ALTER TABLE namespace_use ADD COLUMN logged bigint NOT NULL DEFAULT 0, ADD COLUMN day bigint NOT NULL DEFAULT 0;
