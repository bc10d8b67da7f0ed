-- Format 25: invitations of workers, and the rows of their certificates. Both are tokens. The columns bound the worker: its
-- groups, separated by spaces, and its slots (0: no bound).

ALTER TABLE token ADD COLUMN worker_groups TEXT NOT NULL DEFAULT '';
ALTER TABLE token ADD COLUMN worker_slots INTEGER NOT NULL DEFAULT 0;
ALTER TABLE token ADD COLUMN uses INTEGER NOT NULL DEFAULT 0;
ALTER TABLE token ADD COLUMN used INTEGER NOT NULL DEFAULT 0;
ALTER TABLE token ADD COLUMN invite INTEGER NOT NULL DEFAULT 0;
