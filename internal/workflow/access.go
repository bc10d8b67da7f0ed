package workflow

import (
	"fmt"
	"slices"
)

// Access lists the files that an isolated task may reach, in addition to the files of every task. Paths are
// absolute.
type Access struct {
	Read  []string `json:"read,omitempty"`  // folders and files that the task may read and execute
	Write []string `json:"write,omitempty"` // folders and files that the task may also change
}

// accessMax bounds the paths of each list.
const accessMax = 100

// accessPath allows no control characters, because they would break the sentences that name a path.
const accessPath = `^/[^\x00-\x1f\x7f]{0,1000}$`

func access() *shape {
	path := pattern("an absolute path such as /var/backups", accessPath)
	paths := forms("an absolute path, or a list of them", path, list("a list of absolute paths", path))
	return object("a mapping such as {read: /opt/scripts, write: /var/backups}",
		key{name: "read", doc: "Files and folders that it may read and execute.", shape: paths},
		key{name: "write", doc: "Files and folders that it may also change.", shape: paths})
}

func (r *reader) access(n *node, at string) *Access {
	if n == nil || n.kind != mapNode {
		return nil
	}
	a := &Access{Read: texts(n.get("read")), Write: texts(n.get("write"))}
	for name, paths := range map[string][]string{"read": a.Read, "write": a.Write} {
		if len(paths) > accessMax {
			r.failNode(n.get(name), join(at, name), fmt.Sprintf("%d paths are more than the %d that a task may have", len(paths), accessMax), "name a folder above them")
		}
		r.unique(n.get(name), join(at, name))
	}
	return a
}

// Reach returns the files that task i may reach in addition to those of every task: its own paths and those
// of the defaults. It returns nil if there are none.
func (w *Workflow) Reach(i int) *Access {
	t, d := w.Tasks[i].Access, w.Defaults.Access
	switch {
	case t == nil:
		return d
	case d == nil:
		return t
	}
	return &Access{Read: slices.Concat(d.Read, t.Read), Write: slices.Concat(d.Write, t.Write)}
}
