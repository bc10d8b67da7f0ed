-- Format 4: the logs of attempts, their last part. They are written beside the writers, and
-- come packed: joining the bytes of two parts joins the parts.

CREATE TABLE log (
  run   uuid    NOT NULL,
  at    bigint  NOT NULL, -- of the first byte
  task  integer NOT NULL,
  token integer NOT NULL,
  size  integer NOT NULL, -- before packing
  data  bytea   NOT NULL,
  PRIMARY KEY (run, task, token, at)
);
ALTER TABLE log ALTER COLUMN data SET STORAGE EXTERNAL;

-- Adds a part to a log if it begins where the log ends. One at a time writes to a log: a
-- worker that was cut off may send what another node has taken already.
CREATE FUNCTION append_log(_run uuid, _task integer, _token integer, _at bigint, _size integer, _data bytea, _cut integer,
  _block integer, _keep bigint, OUT known boolean, OUT first bigint, OUT ending bigint) LANGUAGE plpgsql AS $$
DECLARE
  tail log%ROWTYPE;
  was  bigint;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended(concat_ws('/', 'skein.log', _run, _task, _token), 0));
  known := EXISTS (SELECT FROM attempt a WHERE a.run = _run AND a.task = _task AND a.token = _token);
  SELECT * INTO tail FROM log l WHERE l.run = _run AND l.task = _task AND l.token = _token ORDER BY l.at DESC LIMIT 1;
  was := coalesce(tail.at + tail.size, 0);
  ending := was;
  IF known AND _size > 0 AND (_at = was OR _at > was AND _cut = 1) THEN
    IF _at = was AND tail.size + _size <= _block THEN
      UPDATE log l SET size = l.size + _size, data = l.data || _data
      WHERE l.run = _run AND l.task = _task AND l.token = _token AND l.at = tail.at;
    ELSE
      INSERT INTO log (run, task, token, at, size, data) VALUES (_run, _task, _token, _at, _size, _data);
    END IF;
    ending := _at + _size;
    DELETE FROM log l WHERE l.run = _run AND l.task = _task AND l.token = _token
      AND (l.at + l.size <= ending - _keep OR _at > was AND l.at < _at);
  END IF;
  SELECT coalesce(min(l.at), ending) INTO first FROM log l WHERE l.run = _run AND l.task = _task AND l.token = _token;
END $$;
