-- Format 32: namespaces with quotas (0: no bound), and what the shards use of them. A node of an earlier version
-- does not count its runs.

CREATE TABLE namespace (
  revision      bigint NOT NULL,
  runs          bigint NOT NULL,
  runs_per_hour bigint NOT NULL,
  tasks         bigint NOT NULL,
  params_bytes  bigint NOT NULL,
  modified      bigint NOT NULL,
  name          text   PRIMARY KEY COLLATE "C",
  actor         text   NOT NULL COLLATE "C"
);

CREATE TABLE namespace_use (
  runs      bigint NOT NULL,
  started   bigint NOT NULL,
  since     bigint NOT NULL,
  shard     int    NOT NULL,
  namespace text   NOT NULL COLLATE "C",
  PRIMARY KEY (namespace, shard)
) WITH (fillfactor = 50);

-- Raises SK002 if a namespace uses more than its quotas. The lock makes the transactions of all shards that start
-- runs of the namespace pass one after the other, and each statement of the function sees what those before it
-- have committed.
CREATE OR REPLACE FUNCTION within_quotas(of_namespace text, hour bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  q namespace;
  used bigint;
  begun bigint;
BEGIN
  SELECT * INTO q FROM namespace n WHERE n.name = of_namespace FOR UPDATE;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  SELECT coalesce(sum(u.runs), 0), coalesce(sum(u.started) FILTER (WHERE u.since = hour), 0) INTO used, begun
    FROM namespace_use u WHERE u.namespace = of_namespace;
  IF q.runs > 0 AND used > q.runs THEN
    RAISE EXCEPTION USING ERRCODE = 'SK002', MESSAGE = format('runs %s %s', q.runs, of_namespace);
  ELSIF q.runs_per_hour > 0 AND begun > q.runs_per_hour THEN
    RAISE EXCEPTION USING ERRCODE = 'SK002', MESSAGE = format('runs_per_hour %s %s', q.runs_per_hour, of_namespace);
  END IF;
END $$;
