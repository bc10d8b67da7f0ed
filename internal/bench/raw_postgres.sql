-- The product's two tables with the columns that a row of them has, by integer key and nothing else.

-- name: tables
DROP TABLE IF EXISTS raw_run, raw_attempt;
CREATE TABLE raw_run (
  n bigint PRIMARY KEY, id uuid NOT NULL, workflow bigint NOT NULL, created bigint NOT NULL, split bigint NOT NULL,
  started bigint NOT NULL, finished bigint NOT NULL, leader bigint NOT NULL, leader_at bigint NOT NULL,
  first_seq bigint NOT NULL, first_at bigint NOT NULL, last_seq bigint, last_at bigint, shard integer NOT NULL,
  version integer NOT NULL, generation integer NOT NULL, priority text NOT NULL, origin text NOT NULL,
  username text NOT NULL, state text NOT NULL, intent text NOT NULL, cause text NOT NULL, message text NOT NULL,
  final bytea, events_first bytea, events_last bytea
) WITH (fillfactor = 45);
CREATE TABLE raw_attempt (
  n bigint PRIMARY KEY, run uuid NOT NULL, handler bigint NOT NULL, assigned bigint NOT NULL, started bigint NOT NULL,
  finished bigint NOT NULL, retry_at bigint NOT NULL, retry_wait bigint NOT NULL, task integer NOT NULL,
  token integer NOT NULL, generation integer NOT NULL, exit_code integer, state text NOT NULL, cause text NOT NULL,
  message text NOT NULL, signal text NOT NULL
) WITH (fillfactor = 45);

-- name: insertRun
INSERT INTO raw_run (n, id, workflow, created, split, started, finished, leader, leader_at, first_seq, first_at, shard, version,
  generation, priority, origin, username, state, intent, cause, message, events_first)
SELECT x.n, x.id, 7, x.created, $4, $4, 0, 1, $4, 1, $4, 0, 1, 1, 'medium', 'api', 'bench', 'running', 'run', '', '', $5
FROM unnest($1::bigint[], $2::uuid[], $3::bigint[]) x (n, id, created);

-- name: insertAttempt
INSERT INTO raw_attempt (n, run, handler, assigned, started, finished, retry_at, retry_wait, task, token, generation, state, cause,
  message, signal)
SELECT x.n, x.run, 1, $3, 0, 0, 0, 0, 0, 1, 1, 'assigned', '', '', '' FROM unnest($1::bigint[], $2::uuid[]) x (n, run);

-- name: updateRun
UPDATE raw_run r SET state = 'succeeded', intent = 'run', final = $3, finished = $2, last_seq = 1, last_at = $2, events_last = $4
FROM unnest($1::bigint[]) x (n) WHERE r.n = x.n AND r.state = 'running';

-- name: updateAttempt
UPDATE raw_attempt a SET state = 'succeeded', exit_code = 0, started = $2, finished = $2
FROM unnest($1::bigint[]) x (n) WHERE a.n = x.n AND a.state = 'assigned';
