-- Scripts of upgrades. Each is one transaction.

-- name: clearStates
-- Programs of older formats did not keep this list, so its rows are not to be trusted. The lock waits for writers that have
-- changed the list, and holds up others until the end.
LOCK TABLE unsuccessful IN EXCLUSIVE MODE;
WITH at AS (
  UPDATE meta SET listed = 'ffffffff-ffff-ffff-ffff-fffffffffffe'
  WHERE listed = 'ffffffff-ffff-ffff-ffff-ffffffffffff' AND format >= 16 RETURNING 1
)
DELETE FROM unsuccessful WHERE EXISTS (SELECT FROM at);
