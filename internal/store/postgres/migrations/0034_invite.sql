-- Format 34: invitations of workers, and the rows of their certificates. Both are tokens. The columns bound the worker: its
-- groups, separated by spaces, and its slots (0: no bound).

ALTER TABLE token ADD COLUMN worker_groups text   NOT NULL DEFAULT '',
                  ADD COLUMN worker_slots  int    NOT NULL DEFAULT 0,
                  ADD COLUMN uses          int    NOT NULL DEFAULT 0,
                  ADD COLUMN used          int    NOT NULL DEFAULT 0,
                  ADD COLUMN invite        bigint NOT NULL DEFAULT 0;
