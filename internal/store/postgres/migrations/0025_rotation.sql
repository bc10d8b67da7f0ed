-- Format 25: which token made a token, and which one it replaces. A replaced token shares its name with its successor. Tokens
-- of earlier versions have no parent.

ALTER TABLE token ADD COLUMN parent bigint NOT NULL DEFAULT 0;
ALTER TABLE token ADD COLUMN replaces bigint NOT NULL DEFAULT 0;
ALTER TABLE token ADD COLUMN replaced bigint NOT NULL DEFAULT 0;
DROP INDEX token_name;
CREATE UNIQUE INDEX token_name ON token (name) WHERE revoked = 0 AND replaced = 0;
