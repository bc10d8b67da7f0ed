-- Format 36: quotas of what namespaces keep, of tokens and of calls (0: no bound). namespace_stock counts versions, triggers
-- and bytes. The database counts rows that come and go rarely; the writer adds the parameters of runs that begin. Two parts
-- keep transactions apart: part 0 is that of the shard's writer, part 1 that of retention.

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

-- Counts everything again. An import calls it, too.
CREATE FUNCTION restock() RETURNS void LANGUAGE sql AS $$
  DELETE FROM namespace_stock;
  INSERT INTO namespace_stock (namespace, shard, part, versions, triggers, bytes)
  SELECT x.namespace, x.shard, 0, sum(x.versions), sum(x.triggers), sum(x.bytes) FROM (
    SELECT w.namespace, w.shard, 1 AS versions, 0 AS triggers, octet_length(v.source) + octet_length(v.def) + octet_length(v.graph) AS bytes
      FROM version v JOIN workflow w ON w.id = v.workflow
    UNION ALL SELECT w.namespace, w.shard, 0, 0, octet_length(f.data) FROM version_file f JOIN workflow w ON w.id = f.workflow
    UNION ALL SELECT w.namespace, w.shard, 0, 1, 0 FROM trigger t JOIN workflow w ON w.id = t.workflow
    UNION ALL SELECT w.namespace, w.shard, 0, 0, octet_length(r.params) FROM run r JOIN workflow w ON w.id = r.workflow
      WHERE octet_length(r.params) >= 1024 AND r.state <> 'submitted'
  ) x GROUP BY x.namespace, x.shard;
$$;

CREATE FUNCTION stock(of_workflow bigint, of_part int, more_versions bigint, more_triggers bigint, more_bytes bigint) RETURNS void LANGUAGE sql AS $$
  INSERT INTO namespace_stock AS s (namespace, shard, part, versions, triggers, bytes)
  SELECT w.namespace, w.shard, of_part, more_versions, more_triggers, more_bytes FROM workflow w WHERE w.id = of_workflow
  ON CONFLICT (namespace, shard, part) DO UPDATE SET versions = s.versions + excluded.versions,
    triggers = s.triggers + excluded.triggers, bytes = s.bytes + excluded.bytes;
$$;

CREATE FUNCTION stock_version() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    PERFORM stock(NEW.workflow, 0, 1, 0, octet_length(NEW.source) + octet_length(NEW.def) + octet_length(NEW.graph));
  ELSE
    PERFORM stock(OLD.workflow, 1, -1, 0, -octet_length(OLD.source) - octet_length(OLD.def) - octet_length(OLD.graph));
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER version_stocked AFTER INSERT OR DELETE ON version FOR EACH ROW EXECUTE FUNCTION stock_version();

CREATE FUNCTION stock_file() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    PERFORM stock(NEW.workflow, 0, 0, 0, octet_length(NEW.data));
  ELSE
    PERFORM stock(OLD.workflow, 1, 0, 0, -octet_length(OLD.data));
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER file_stocked AFTER INSERT OR DELETE ON version_file FOR EACH ROW EXECUTE FUNCTION stock_file();

CREATE FUNCTION stock_trigger() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    PERFORM stock(NEW.workflow, 0, 0, 1, 0);
  ELSE
    PERFORM stock(OLD.workflow, 0, 0, -1, 0);
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER trigger_stocked AFTER INSERT OR DELETE ON trigger FOR EACH ROW EXECUTE FUNCTION stock_trigger();

-- The completed parameters of a run that skein_enqueue made differ from those that were counted.
CREATE FUNCTION stock_run() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  was bigint := CASE WHEN octet_length(OLD.params) >= 1024 THEN octet_length(OLD.params) ELSE 0 END;
BEGIN
  IF TG_OP = 'UPDATE' THEN
    PERFORM stock(NEW.workflow, 0, 0, 0, CASE WHEN octet_length(NEW.params) >= 1024 THEN octet_length(NEW.params) ELSE 0 END - was);
  ELSE
    PERFORM stock(OLD.workflow, 1, 0, 0, -was);
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER run_filled AFTER UPDATE OF params ON run FOR EACH ROW
  WHEN (octet_length(NEW.params) IS DISTINCT FROM octet_length(OLD.params)) EXECUTE FUNCTION stock_run();
CREATE TRIGGER run_unstocked AFTER DELETE ON run FOR EACH ROW WHEN (octet_length(OLD.params) >= 1024) EXECUTE FUNCTION stock_run();

SELECT restock(); -- the triggers keep other programs away until the end of the transaction

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
