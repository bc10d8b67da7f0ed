-- Format 37: what a namespace demands of its tasks besides a level: paths, outgoing calls. Texts are lists with
-- line breaks (paths) or commas. '': no demand. locks: 'shared' if its workflows share the names of their locks with
-- those of other such namespaces. So do the namespaces of earlier formats, because their workflows may rely on that.

ALTER TABLE namespace ADD COLUMN allow_read TEXT NOT NULL DEFAULT '';
ALTER TABLE namespace ADD COLUMN allow_write TEXT NOT NULL DEFAULT '';
ALTER TABLE namespace ADD COLUMN egress TEXT NOT NULL DEFAULT '';
ALTER TABLE namespace ADD COLUMN locks TEXT NOT NULL DEFAULT '';

INSERT INTO namespace (name, revision, runs, runs_per_hour, tasks, params_bytes, modified, actor)
SELECT DISTINCT namespace, 1, 0, 0, 0, 0, CAST(unixepoch('subsec') * 1000000 AS INTEGER), '' FROM workflow WHERE true
ON CONFLICT (name) DO NOTHING;
UPDATE namespace SET locks = 'shared';
