-- Format 47: what a namespace demands of its tasks besides a level: paths, outgoing calls. Texts are lists with
-- line breaks (paths) or commas. '': no demand. locks: 'shared' if its workflows share the names of their locks with
-- those of other such namespaces. So do the namespaces of earlier formats, because their workflows may rely on that.
-- While nodes of earlier versions run, none of these can be set, and no queue or class of a namespace can be made.

ALTER TABLE namespace ADD COLUMN allow_read  text NOT NULL DEFAULT '' COLLATE "C",
                      ADD COLUMN allow_write text NOT NULL DEFAULT '' COLLATE "C",
                      ADD COLUMN egress      text NOT NULL DEFAULT '' COLLATE "C",
                      ADD COLUMN locks       text NOT NULL DEFAULT '' COLLATE "C";

INSERT INTO namespace (name, revision, runs, runs_per_hour, tasks, params_bytes, modified, actor)
SELECT DISTINCT namespace, 1, 0, 0, 0, 0, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, '' FROM workflow
ON CONFLICT (name) DO NOTHING;
UPDATE namespace SET locks = 'shared';
