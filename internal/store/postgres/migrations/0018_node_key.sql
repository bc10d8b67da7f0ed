-- Format 18: the key by which nodes prove to each other for whom they pass a request on. Older programs do not read it, and show the
-- token of the caller as before.

ALTER TABLE meta ADD COLUMN IF NOT EXISTS node_key bytea NOT NULL
  DEFAULT sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8'));
