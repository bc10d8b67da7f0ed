-- Format 48: what an ended run keeps counts as stored bytes of its namespace: its logs, artifacts and outputs. The sum is in
-- the first bytes of claim (dag.PackKept), because a migration must not wait for those who read run. Earlier runs count 0.
-- No node writes the sum before all nodes know it. Parts 16 to 31 of namespace_stock have the sums of ended runs, by the
-- number of the transaction: a transaction that is written ahead must not wait for a row that the one before it has changed.

CREATE FUNCTION run_kept(claim bytea) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN octet_length(claim) >= 9 AND get_byte(claim, 0) = 3
    THEN ('x' || encode(substring(claim FROM 2 FOR 8), 'hex'))::bit(64)::bigint ELSE 0 END
$$;

-- Counts everything again, and adds what the counts lack: see 0036_stock.sql.
CREATE OR REPLACE FUNCTION restock() RETURNS void LANGUAGE sql AS $$
  INSERT INTO namespace_stock AS s (namespace, shard, part, versions, triggers, bytes)
  SELECT x.namespace, 0, 2, sum(x.versions), sum(x.triggers), sum(x.bytes) FROM (
    SELECT w.namespace, 1 AS versions, 0 AS triggers, octet_length(v.source) + octet_length(v.def) + octet_length(v.graph)::bigint AS bytes
      FROM version v JOIN workflow w ON w.id = v.workflow
    UNION ALL SELECT w.namespace, 0, 0, octet_length(f.data) FROM version_file f JOIN workflow w ON w.id = f.workflow
    UNION ALL SELECT w.namespace, 0, 1, 0 FROM trigger t JOIN workflow w ON w.id = t.workflow
    UNION ALL SELECT w.namespace, 0, 0, octet_length(r.params) FROM run r JOIN workflow w ON w.id = r.workflow
      WHERE octet_length(r.params) >= 1024 AND r.state <> 'submitted'
    UNION ALL SELECT w.namespace, 0, 0, run_kept(r.claim) FROM run r JOIN workflow w ON w.id = r.workflow
    UNION ALL SELECT k.namespace, -k.versions, -k.triggers, -k.bytes FROM namespace_stock k
  ) x GROUP BY x.namespace HAVING sum(x.versions) <> 0 OR sum(x.triggers) <> 0 OR sum(x.bytes) <> 0
  ON CONFLICT (namespace, shard, part) DO UPDATE SET versions = s.versions + excluded.versions,
    triggers = s.triggers + excluded.triggers, bytes = s.bytes + excluded.bytes;
$$;
