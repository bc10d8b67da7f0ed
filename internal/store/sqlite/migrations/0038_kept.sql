-- Format 38: what an ended run keeps counts as stored bytes of its namespace: its logs, artifacts and outputs. The sum is in
-- the first bytes of claim (dag.PackKept). A generated column would compute it at each write of a run, also for the many
-- runs without it. Earlier runs count 0.

CREATE VIEW run_kept AS SELECT n, CASE WHEN substr(hex(claim), 1, 2) = '03' THEN
    ((instr('0123456789ABCDEF', substr(hex(claim), 3, 1)) - 1) << 60)
  | ((instr('0123456789ABCDEF', substr(hex(claim), 4, 1)) - 1) << 56)
  | ((instr('0123456789ABCDEF', substr(hex(claim), 5, 1)) - 1) << 52)
  | ((instr('0123456789ABCDEF', substr(hex(claim), 6, 1)) - 1) << 48)
  | ((instr('0123456789ABCDEF', substr(hex(claim), 7, 1)) - 1) << 44)
  | ((instr('0123456789ABCDEF', substr(hex(claim), 8, 1)) - 1) << 40)
  | ((instr('0123456789ABCDEF', substr(hex(claim), 9, 1)) - 1) << 36)
  | ((instr('0123456789ABCDEF', substr(hex(claim), 10, 1)) - 1) << 32)
  | ((instr('0123456789ABCDEF', substr(hex(claim), 11, 1)) - 1) << 28)
  | ((instr('0123456789ABCDEF', substr(hex(claim), 12, 1)) - 1) << 24)
  | ((instr('0123456789ABCDEF', substr(hex(claim), 13, 1)) - 1) << 20)
  | ((instr('0123456789ABCDEF', substr(hex(claim), 14, 1)) - 1) << 16)
  | ((instr('0123456789ABCDEF', substr(hex(claim), 15, 1)) - 1) << 12)
  | ((instr('0123456789ABCDEF', substr(hex(claim), 16, 1)) - 1) << 8)
  | ((instr('0123456789ABCDEF', substr(hex(claim), 17, 1)) - 1) << 4)
  | ((instr('0123456789ABCDEF', substr(hex(claim), 18, 1)) - 1) << 0)
  ELSE 0 END AS kept FROM run;

DROP TRIGGER run_unstocked;
CREATE TRIGGER run_unstocked AFTER DELETE ON run WHEN length(OLD.params) >= 1024 OR substr(OLD.claim, 1, 1) = x'03' BEGIN
  UPDATE namespace_stock SET bytes = bytes - iif(ifnull(length(OLD.params), 0) >= 1024, length(OLD.params), 0)
    - CASE WHEN substr(hex(OLD.claim), 1, 2) = '03' THEN
    ((instr('0123456789ABCDEF', substr(hex(OLD.claim), 3, 1)) - 1) << 60)
  | ((instr('0123456789ABCDEF', substr(hex(OLD.claim), 4, 1)) - 1) << 56)
  | ((instr('0123456789ABCDEF', substr(hex(OLD.claim), 5, 1)) - 1) << 52)
  | ((instr('0123456789ABCDEF', substr(hex(OLD.claim), 6, 1)) - 1) << 48)
  | ((instr('0123456789ABCDEF', substr(hex(OLD.claim), 7, 1)) - 1) << 44)
  | ((instr('0123456789ABCDEF', substr(hex(OLD.claim), 8, 1)) - 1) << 40)
  | ((instr('0123456789ABCDEF', substr(hex(OLD.claim), 9, 1)) - 1) << 36)
  | ((instr('0123456789ABCDEF', substr(hex(OLD.claim), 10, 1)) - 1) << 32)
  | ((instr('0123456789ABCDEF', substr(hex(OLD.claim), 11, 1)) - 1) << 28)
  | ((instr('0123456789ABCDEF', substr(hex(OLD.claim), 12, 1)) - 1) << 24)
  | ((instr('0123456789ABCDEF', substr(hex(OLD.claim), 13, 1)) - 1) << 20)
  | ((instr('0123456789ABCDEF', substr(hex(OLD.claim), 14, 1)) - 1) << 16)
  | ((instr('0123456789ABCDEF', substr(hex(OLD.claim), 15, 1)) - 1) << 12)
  | ((instr('0123456789ABCDEF', substr(hex(OLD.claim), 16, 1)) - 1) << 8)
  | ((instr('0123456789ABCDEF', substr(hex(OLD.claim), 17, 1)) - 1) << 4)
  | ((instr('0123456789ABCDEF', substr(hex(OLD.claim), 18, 1)) - 1) << 0)
  ELSE 0 END
  WHERE namespace = (SELECT namespace FROM workflow WHERE id = OLD.workflow);
END;
