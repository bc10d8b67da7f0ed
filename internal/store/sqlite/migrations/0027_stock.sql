-- Format 27: quotas of what namespaces keep, of tokens and of calls (0: no bound). namespace_stock counts versions, triggers
-- and bytes. The database counts rows that come and go rarely; the writer adds the parameters of runs that begin.

ALTER TABLE namespace ADD COLUMN stored_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE namespace ADD COLUMN versions INTEGER NOT NULL DEFAULT 0;
ALTER TABLE namespace ADD COLUMN triggers INTEGER NOT NULL DEFAULT 0;
ALTER TABLE namespace ADD COLUMN tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE namespace ADD COLUMN requests_per_minute INTEGER NOT NULL DEFAULT 0;

CREATE TABLE namespace_stock (
  namespace TEXT PRIMARY KEY,
  versions  INTEGER NOT NULL,
  triggers  INTEGER NOT NULL,
  bytes     INTEGER NOT NULL
) WITHOUT ROWID;

INSERT INTO namespace_stock (namespace, versions, triggers, bytes)
SELECT namespace, sum(versions), sum(triggers), sum(bytes) FROM (
  SELECT w.namespace, 1 AS versions, 0 AS triggers, length(v.source) + length(v.def) + length(v.graph) AS bytes
    FROM version v JOIN workflow w ON w.id = v.workflow
  UNION ALL SELECT w.namespace, 0, 0, length(f.data) FROM version_file f JOIN workflow w ON w.id = f.workflow
  UNION ALL SELECT w.namespace, 0, 1, 0 FROM trigger t JOIN workflow w ON w.id = t.workflow
  UNION ALL SELECT w.namespace, 0, 0, length(r.params) FROM run r JOIN workflow w ON w.id = r.workflow
    WHERE length(r.params) >= 1024 AND r.state <> 'submitted'
) GROUP BY namespace;

CREATE TRIGGER version_stocked AFTER INSERT ON version BEGIN
  INSERT INTO namespace_stock (namespace, versions, triggers, bytes)
  SELECT namespace, 1, 0, length(NEW.source) + length(NEW.def) + length(NEW.graph) FROM workflow WHERE id = NEW.workflow
  ON CONFLICT (namespace) DO UPDATE SET versions = versions + 1, bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER version_unstocked AFTER DELETE ON version BEGIN
  UPDATE namespace_stock SET versions = versions - 1, bytes = bytes - length(OLD.source) - length(OLD.def) - length(OLD.graph)
  WHERE namespace = (SELECT namespace FROM workflow WHERE id = OLD.workflow);
END;

CREATE TRIGGER file_stocked AFTER INSERT ON version_file BEGIN
  UPDATE namespace_stock SET bytes = bytes + length(NEW.data)
  WHERE namespace = (SELECT namespace FROM workflow WHERE id = NEW.workflow);
END;

CREATE TRIGGER file_unstocked AFTER DELETE ON version_file BEGIN
  UPDATE namespace_stock SET bytes = bytes - length(OLD.data)
  WHERE namespace = (SELECT namespace FROM workflow WHERE id = OLD.workflow);
END;

CREATE TRIGGER trigger_stocked AFTER INSERT ON trigger BEGIN
  INSERT INTO namespace_stock (namespace, versions, triggers, bytes)
  SELECT namespace, 0, 1, 0 FROM workflow WHERE id = NEW.workflow
  ON CONFLICT (namespace) DO UPDATE SET triggers = triggers + 1;
END;

CREATE TRIGGER trigger_unstocked AFTER DELETE ON trigger BEGIN
  UPDATE namespace_stock SET triggers = triggers - 1 WHERE namespace = (SELECT namespace FROM workflow WHERE id = OLD.workflow);
END;

-- The completed parameters of a run that skein_enqueue made differ from those that were counted.
CREATE TRIGGER run_filled AFTER UPDATE OF params ON run BEGIN
  UPDATE namespace_stock SET bytes = bytes + iif(ifnull(length(NEW.params), 0) >= 1024, length(NEW.params), 0)
    - iif(ifnull(length(OLD.params), 0) >= 1024, length(OLD.params), 0)
  WHERE namespace = (SELECT namespace FROM workflow WHERE id = NEW.workflow);
END;

CREATE TRIGGER run_unstocked AFTER DELETE ON run WHEN length(OLD.params) >= 1024 BEGIN
  UPDATE namespace_stock SET bytes = bytes - length(OLD.params) WHERE namespace = (SELECT namespace FROM workflow WHERE id = OLD.workflow);
END;
