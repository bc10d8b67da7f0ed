-- Format 43: tags of workflows and runs. A workflow has those of the version that new runs use, a line KEY=VALUE each.
-- The tags of a run are in run.fire, and run_tag lists its runs by tag. Runs without tags have no row there.

ALTER TABLE workflow ADD COLUMN tags text NOT NULL DEFAULT '' COLLATE "C";

CREATE TABLE run_tag (
  tag bytea NOT NULL,
  run uuid  NOT NULL,
  PRIMARY KEY (tag, run)
);

-- The tags of a run, from the form that dag.Fire.Pack gives it: a form, flags, and for the flag 16 the number of tags,
-- and each of them with its length before it.
CREATE FUNCTION run_tags(fire bytea) RETURNS SETOF bytea LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  at int := 3;
BEGIN
  IF octet_length(fire) > 3 AND get_byte(fire, 1) & 16 > 0 THEN
    FOR i IN 1 .. get_byte(fire, 2) LOOP
      EXIT WHEN at >= octet_length(fire); -- the row is damaged
      RETURN NEXT substring(fire FROM at + 2 FOR get_byte(fire, at));
      at := at + 1 + get_byte(fire, at);
    END LOOP;
  END IF;
END $$;

-- skein_enqueue is as before, but a run has the tags of its workflow.
CREATE OR REPLACE FUNCTION skein_enqueue(workflow text, params jsonb DEFAULT '{}', key text DEFAULT NULL, priority text DEFAULT NULL,
  username text DEFAULT NULL) RETURNS uuid LANGUAGE plpgsql SECURITY DEFINER AS $$
#variable_conflict use_column
DECLARE
  full_name text  := CASE WHEN strpos($1, '/') > 0 THEN $1 ELSE 'default/' || $1 END;
  given     jsonb := coalesce($2, '{}');
  wanted    text  := nullif($3, '');
  claim     text  := nullif($5, '');
  asker     text  := 'enqueue:' || session_user || coalesce(' (' || claim || ')', '');
  now_us    bigint := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
  made      uuid;
  digest    bytea;
  was       bytea;
  wf        record;
  caller    text  := current_setting('skein.traceparent', true);
  packed    bytea;
  tags      text[];
BEGIN
  IF jsonb_typeof(given) <> 'object' THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'params are a JSON ' || jsonb_typeof(given) || ': want an object such as {"day": "2026-01-31"}';
  ELSIF octet_length(given::text) > 262144 THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'params are larger than 256 KiB: put data into a file or a row, and give its name';
  ELSIF octet_length(wanted) > 255 OR octet_length(claim) > 255 THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'key and username have at most 255 bytes';
  ELSIF wanted ~ '[[:cntrl:]]' OR claim ~ '[[:cntrl:]]' THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'key and username hold no control characters';
  ELSIF $4 NOT IN ('highest', 'high', 'medium', 'low', 'lowest') THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'priority ' || quote_literal($4) || ': want highest, high, medium, low or lowest';
  END IF;
  SELECT w.id, w.shard, w.version, w.state, w.tags, convert_from(v.def, 'UTF8')::jsonb ->> 'priority' AS level INTO wf
  FROM workflow w JOIN version v ON v.workflow = w.id AND v.version = w.version
  WHERE w.namespace = split_part(full_name, '/', 1) AND w.name = substr(full_name, strpos(full_name, '/') + 1) AND w.state <> 'deleted';
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'SK002', MESSAGE = 'there is no workflow ' || full_name;
  ELSIF wf.state <> 'active' THEN
    RAISE EXCEPTION USING ERRCODE = 'SK003', MESSAGE = 'workflow ' || full_name || ' is ' || wf.state;
  END IF;
  -- What is not valid is ignored, as W3C Trace Context says. The start of the run has the form of dag.Fire.Pack: the tags
  -- of the workflow, no trigger, and a key of 56 bytes that is the trace context alone. It is sampled if the last bit of
  -- the flags is set.
  IF caller ~ '^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$' AND substr(caller, 4, 32) !~ '^0+$' AND substr(caller, 37, 16) !~ '^0+$' THEN
    caller := left(caller, 53) || CASE WHEN right(caller, 1) ~ '[13579bdf]' THEN '01' ELSE '00' END;
    packed := decode('0038', 'hex') || convert_to(chr(31) || caller, 'UTF8') || decode('000000', 'hex');
  END IF;
  tags := CASE WHEN (SELECT format FROM meta) >= 43 THEN string_to_array(wf.tags, E'\n') ELSE '{}' END;
  IF cardinality(tags) > 0 THEN
    packed := decode('0110', 'hex') || set_byte(decode('00', 'hex'), 0, cardinality(tags)) || (SELECT string_agg(set_byte(decode('00', 'hex'), 0, octet_length(t)) || convert_to(t, 'UTF8'), ''::bytea ORDER BY n)
      FROM unnest(tags) WITH ORDINALITY x (t, n)) || coalesce(packed, decode('0000000000', 'hex'));
  ELSE
    packed := decode('0100', 'hex') || packed;
  END IF;
  digest := sha256(convert_to(jsonb_build_array('skein_enqueue', given, $4)::text, 'UTF8'));
  -- UUIDv7: 48 bits of milliseconds, the version, and chance.
  made := encode(overlay(overlay(uuid_send(gen_random_uuid()) PLACING substring(int8send(now_us / 1000) FROM 3) FROM 1 FOR 6)
    PLACING int2send((28672 + floor(random() * 4096))::int2) FROM 7 FOR 2), 'hex')::uuid;
  INSERT INTO run AS r (id, workflow, created, split, started, finished, leader, leader_at, first_seq, first_at, shard, version,
    generation, priority, origin, username, state, intent, cause, message, key, key_hash, params, fire)
  VALUES (made, wf.id, now_us, 0, 0, 0, 0, 0, 0, 0, wf.shard, wf.version,
    1, coalesce($4, nullif(wf.level, ''), 'medium'), 'enqueue', asker, 'submitted', 'run', '', '', wanted,
    CASE WHEN wanted IS NOT NULL THEN digest END, convert_to(given::text, 'UTF8'), packed)
  ON CONFLICT (workflow, key) WHERE key IS NOT NULL DO NOTHING;
  IF FOUND THEN
    INSERT INTO active (run, shard) VALUES (made, wf.shard);
    INSERT INTO submitted (run, shard) VALUES (made, wf.shard);
    INSERT INTO run_tag (tag, run) SELECT convert_to(t, 'UTF8'), made FROM unnest(tags) t;
    RETURN made;
  END IF;
  -- Another transaction had the key; the insert has waited for its commit.
  SELECT f.id, f.key_hash INTO made, was FROM (
    SELECT r.id, r.key_hash, r.workflow, r.key FROM run r
    WHERE r.key IS NOT NULL AND (r.workflow, r.key) >= (wf.id, wanted) ORDER BY r.workflow, r.key LIMIT 1) f
  WHERE f.workflow = wf.id AND f.key = wanted;
  IF was IS DISTINCT FROM digest THEN
    RAISE EXCEPTION USING ERRCODE = 'SK003', MESSAGE = 'idempotency key ' || quote_literal(wanted) || ' came with another request before: run ' || made;
  END IF;
  RETURN made;
END $$;

-- Replacing the function has taken its search path away.
DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION skein_enqueue(text, jsonb, text, text, text) SET search_path = %I, pg_temp', current_schema());
END $$;
