-- Format 3: what operators have told nodes, by their names; '' is every node. It outlives the
-- rows of members.

CREATE TABLE node_order (
  at    bigint NOT NULL,
  node  text   NOT NULL COLLATE "C",
  what  text   NOT NULL COLLATE "C" CHECK (what IN ('cordon', 'stop')),
  actor text   NOT NULL COLLATE "C",
  PRIMARY KEY (node, what)
);

ALTER TABLE member DROP CONSTRAINT member_state_check;
ALTER TABLE member ADD CONSTRAINT member_state_check CHECK (state IN ('active', 'leaving', 'drained'));
