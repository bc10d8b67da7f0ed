-- Format 12: what a transaction hands over of a run lies packed in the row that has its history, and attempts get rows
-- of their own when they change. It is written so as soon as the database has this format, and read always.

ALTER TABLE run ADD hands bytea; -- of the transaction that inserted it
ALTER TABLE event ADD hands bytea;

-- As before, but for the bits of _cut: 1: nobody will bring what lies before the part; 2: the caller knows that
-- the attempt was handed over, which no row need tell.
CREATE OR REPLACE FUNCTION append_log(_run uuid, _task integer, _token integer, _at bigint, _size integer, _data bytea, _cut integer,
  _block integer, _keep bigint, OUT known boolean, OUT first bigint, OUT ending bigint) LANGUAGE plpgsql AS $$
DECLARE
  tail log%ROWTYPE;
  was  bigint;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended(concat_ws('/', 'skein.log', _run, _task, _token), 0));
  known := EXISTS (SELECT FROM attempt a WHERE a.run = _run AND a.task = _task AND a.token = _token)
    OR (_cut & 2) <> 0 AND EXISTS (SELECT FROM run r WHERE r.id = _run);
  SELECT * INTO tail FROM log l WHERE l.run = _run AND l.task = _task AND l.token = _token ORDER BY l.at DESC LIMIT 1;
  was := coalesce(tail.at + tail.size, 0);
  ending := was;
  IF known AND _size > 0 AND (_at = was OR _at > was AND (_cut & 1) <> 0) THEN
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
