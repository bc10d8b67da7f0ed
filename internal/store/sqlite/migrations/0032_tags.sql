-- Format 32: tags of workflows and runs. A workflow has those of the version that new runs use, a line KEY=VALUE
-- each. The tags of a run are in run.fire, and each tag has a list of runs in table roll.

ALTER TABLE workflow ADD COLUMN tags TEXT NOT NULL DEFAULT '';
