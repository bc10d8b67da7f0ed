-- The product's two tables with the columns that a row of them has, by integer key and nothing else.
CREATE TABLE raw_run (
  n INTEGER PRIMARY KEY, id BLOB NOT NULL, shard INTEGER NOT NULL, workflow INTEGER NOT NULL, version INTEGER NOT NULL,
  priority TEXT NOT NULL, origin TEXT NOT NULL, user TEXT NOT NULL, created INTEGER NOT NULL, first_seq INTEGER NOT NULL,
  first_at INTEGER NOT NULL, events_first BLOB, state TEXT NOT NULL, intent TEXT NOT NULL, generation INTEGER NOT NULL,
  final BLOB, split INTEGER NOT NULL, started INTEGER NOT NULL, finished INTEGER NOT NULL, leader INTEGER NOT NULL,
  leader_at INTEGER NOT NULL, last_seq INTEGER, last_at INTEGER, events_last BLOB
);
CREATE TABLE raw_attempt (
  n INTEGER PRIMARY KEY, run INTEGER NOT NULL, task INTEGER NOT NULL, token INTEGER NOT NULL, generation INTEGER NOT NULL,
  handler INTEGER NOT NULL, assigned INTEGER NOT NULL, state TEXT NOT NULL, cause TEXT NOT NULL, message TEXT NOT NULL,
  exit_code INTEGER, signal TEXT NOT NULL, started INTEGER NOT NULL, finished INTEGER NOT NULL, retry_at INTEGER NOT NULL,
  retry_wait INTEGER NOT NULL
);
