-- Format 36: quotas of what namespaces keep, of tokens and of calls (0: no bound). namespace_stock counts versions, triggers
-- and bytes. The database counts rows that come and go rarely; the statements that write and delete runs count parameters.
-- Parts keep transactions apart: part 0 is that of the shard's writer, part 1 that of retention, part 2 that of restock.

-- Set once everything has been counted (restock): what was there before, and what nodes of earlier versions did.
ALTER TABLE meta ADD COLUMN stocked boolean NOT NULL DEFAULT false;

ALTER TABLE namespace ADD COLUMN stored_bytes        bigint NOT NULL DEFAULT 0,
                      ADD COLUMN versions            bigint NOT NULL DEFAULT 0,
                      ADD COLUMN triggers            bigint NOT NULL DEFAULT 0,
                      ADD COLUMN tokens              bigint NOT NULL DEFAULT 0,
                      ADD COLUMN requests_per_minute bigint NOT NULL DEFAULT 0;

CREATE TABLE namespace_stock (
  versions  bigint NOT NULL,
  triggers  bigint NOT NULL,
  bytes     bigint NOT NULL,
  shard     int    NOT NULL,
  part      int    NOT NULL,
  namespace text   NOT NULL COLLATE "C",
  PRIMARY KEY (namespace, shard, part)
) WITH (fillfactor = 50);

-- Counts everything again, and adds what the counts lack. A transaction changes rows and counts together, and one statement
-- sees both at one instant. So nobody has to wait, and a second call adds nothing. Two calls at once would add it twice.
CREATE FUNCTION restock() RETURNS void LANGUAGE sql AS $$
  INSERT INTO namespace_stock AS s (namespace, shard, part, versions, triggers, bytes)
  SELECT x.namespace, 0, 2, sum(x.versions), sum(x.triggers), sum(x.bytes) FROM (
    SELECT w.namespace, 1 AS versions, 0 AS triggers, octet_length(v.source) + octet_length(v.def) + octet_length(v.graph)::bigint AS bytes
      FROM version v JOIN workflow w ON w.id = v.workflow
    UNION ALL SELECT w.namespace, 0, 0, octet_length(f.data) FROM version_file f JOIN workflow w ON w.id = f.workflow
    UNION ALL SELECT w.namespace, 0, 1, 0 FROM trigger t JOIN workflow w ON w.id = t.workflow
    UNION ALL SELECT w.namespace, 0, 0, octet_length(r.params) FROM run r JOIN workflow w ON w.id = r.workflow
      WHERE octet_length(r.params) >= 1024 AND r.state <> 'submitted'
    UNION ALL SELECT k.namespace, -k.versions, -k.triggers, -k.bytes FROM namespace_stock k
  ) x GROUP BY x.namespace HAVING sum(x.versions) <> 0 OR sum(x.triggers) <> 0 OR sum(x.bytes) <> 0
  ON CONFLICT (namespace, shard, part) DO UPDATE SET versions = s.versions + excluded.versions,
    triggers = s.triggers + excluded.triggers, bytes = s.bytes + excluded.bytes;
$$;

-- Adds what a statement has inserted or deleted, in one upsert for each namespace and shard. So a large import or deletion does
-- not write the same row again and again. Their order is the same everywhere.
CREATE FUNCTION stock_version() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  sign int := CASE TG_OP WHEN 'INSERT' THEN 1 ELSE -1 END;
BEGIN
  INSERT INTO namespace_stock AS s (namespace, shard, part, versions, triggers, bytes)
  SELECT w.namespace, w.shard, (sign < 0)::int, sign * count(*), 0, sign * sum(octet_length(c.source) + octet_length(c.def) + octet_length(c.graph))
    FROM changed c JOIN workflow w ON w.id = c.workflow GROUP BY w.namespace, w.shard ORDER BY w.namespace, w.shard
  ON CONFLICT (namespace, shard, part) DO UPDATE SET versions = s.versions + excluded.versions, bytes = s.bytes + excluded.bytes;
  RETURN NULL;
END $$;
CREATE TRIGGER version_stocked AFTER INSERT ON version REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION stock_version();
CREATE TRIGGER version_unstocked AFTER DELETE ON version REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION stock_version();

CREATE FUNCTION stock_file() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  sign int := CASE TG_OP WHEN 'INSERT' THEN 1 ELSE -1 END;
BEGIN
  INSERT INTO namespace_stock AS s (namespace, shard, part, versions, triggers, bytes)
  SELECT w.namespace, w.shard, (sign < 0)::int, 0, 0, sign * sum(octet_length(c.data))
    FROM changed c JOIN workflow w ON w.id = c.workflow GROUP BY w.namespace, w.shard ORDER BY w.namespace, w.shard
  ON CONFLICT (namespace, shard, part) DO UPDATE SET bytes = s.bytes + excluded.bytes;
  RETURN NULL;
END $$;
CREATE TRIGGER file_stocked AFTER INSERT ON version_file REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION stock_file();
CREATE TRIGGER file_unstocked AFTER DELETE ON version_file REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION stock_file();

-- The writer deletes triggers, too, so they have no part 1.
CREATE FUNCTION stock_trigger() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  sign int := CASE TG_OP WHEN 'INSERT' THEN 1 ELSE -1 END;
BEGIN
  INSERT INTO namespace_stock AS s (namespace, shard, part, versions, triggers, bytes)
  SELECT w.namespace, w.shard, 0, 0, sign * count(*), 0
    FROM changed c JOIN workflow w ON w.id = c.workflow GROUP BY w.namespace, w.shard ORDER BY w.namespace, w.shard
  ON CONFLICT (namespace, shard, part) DO UPDATE SET triggers = s.triggers + excluded.triggers;
  RETURN NULL;
END $$;
CREATE TRIGGER trigger_stocked AFTER INSERT ON trigger REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION stock_trigger();
CREATE TRIGGER trigger_unstocked AFTER DELETE ON trigger REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION stock_trigger();

-- run has no trigger: a trigger for updates would make each update read the row before again, and the lock that makes a
-- trigger would wait for every writer and vacuum of run.

-- Raises SK002 if a namespace keeps more than a quota of a check (store.StockCheck). The lock is that of within_quotas.
CREATE FUNCTION within_stock(of_namespace text, checked int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  q namespace;
  v bigint;
  t bigint;
  b bigint;
BEGIN
  SELECT * INTO q FROM namespace n WHERE n.name = of_namespace FOR UPDATE;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  SELECT coalesce(sum(s.versions), 0), coalesce(sum(s.triggers), 0), coalesce(sum(s.bytes), 0) INTO v, t, b
    FROM namespace_stock s WHERE s.namespace = of_namespace;
  IF checked & 1 > 0 AND q.stored_bytes > 0 AND b > q.stored_bytes THEN
    RAISE EXCEPTION USING ERRCODE = 'SK002', MESSAGE = format('stored_bytes %s %s %s', q.stored_bytes, of_namespace, b);
  ELSIF checked & 2 > 0 AND q.versions > 0 AND v > q.versions THEN
    RAISE EXCEPTION USING ERRCODE = 'SK002', MESSAGE = format('versions %s %s %s', q.versions, of_namespace, v);
  ELSIF checked & 4 > 0 AND q.triggers > 0 AND t > q.triggers THEN
    RAISE EXCEPTION USING ERRCODE = 'SK002', MESSAGE = format('triggers %s %s %s', q.triggers, of_namespace, t);
  END IF;
END $$;

-- Raises SK002 if a namespace of a new token has more tokens than its quota. Tokens of one namespace are made one after
-- the other. Only tokens and invitations that are limited to it count.
CREATE FUNCTION within_tokens(new_namespaces text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  q record;
  n bigint;
  now bigint := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
BEGIN
  FOR q IN SELECT s.name, s.tokens FROM namespace s WHERE s.tokens > 0 AND s.name = ANY (string_to_array(new_namespaces, ' ')) ORDER BY s.name FOR UPDATE LOOP
    SELECT count(*) INTO n FROM token t WHERE t.kind IN ('api', 'invite') AND t.revoked = 0 AND t.replaced = 0
      AND (t.expires = 0 OR t.expires > now) AND q.name = ANY (string_to_array(t.namespaces, ' '));
    IF n > q.tokens THEN
      RAISE EXCEPTION USING ERRCODE = 'SK002', MESSAGE = format('tokens %s %s %s', q.tokens, q.name, n - 1);
    END IF;
  END LOOP;
END $$;
