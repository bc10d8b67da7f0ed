-- Format 17: which token made a token, and which one it replaces. A replaced token shares its name with its successor. Tokens
-- of earlier versions have no parent.

ALTER TABLE token ADD COLUMN parent INTEGER NOT NULL DEFAULT 0;
ALTER TABLE token ADD COLUMN replaces INTEGER NOT NULL DEFAULT 0;
ALTER TABLE token ADD COLUMN replaced INTEGER NOT NULL DEFAULT 0;
DROP INDEX token_name;
CREATE UNIQUE INDEX token_name ON token (name) WHERE revoked = 0 AND replaced = 0;
