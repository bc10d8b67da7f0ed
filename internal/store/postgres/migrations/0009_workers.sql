-- Format 9: workers that are no nodes are members, too. home is the node that a worker is attached
-- to, lease how often it has been attached to one, traits what tasks choose it by, as JSON.

ALTER TABLE member
  ADD worker boolean NOT NULL DEFAULT false,
  ADD home   bigint NOT NULL DEFAULT 0,
  ADD lease  bigint NOT NULL DEFAULT 0,
  ADD traits text   NOT NULL DEFAULT '' COLLATE "C";
