package workflow

import (
	"fmt"
	"time"

	"skein.dev/skein/internal/dag"
)

// Release is the command that ends work which attempts of a task have started outside of their processes.
type Release struct {
	Run Run `json:"run"`
	// Adopts says that after an attempt was lost, the next attempt continues its work.
	Adopts  bool      `json:"adopts,omitempty"`
	Timeout *Duration `json:"timeout,omitempty"` // nil means dag.ReleaseTimeoutDefault
}

func releaseKeys() []key {
	argv := &shape{kind: listShape, is: "a program and its arguments, such as [./end.sh, -f]", item: textOrNothing("a text"), least: 1}
	return []key{
		{name: "release", doc: "Ends the work outside of the process that an attempt has named in the file $SKEIN_HANDLE: a text for sh -c, or a list of program and arguments. It runs when the attempt was lost, failed or was stopped, until it exits with 0; the file $SKEIN_INPUT has the handle.",
			shape: forms("a command, or a list of program and arguments", text("a command"), argv)},
		{name: "adopts", doc: "After a loss, the next attempt goes on with the work that the file $SKEIN_EARLIER names, instead of its release: true or false (default).", shape: boolean()},
		{name: "release_timeout", doc: "How long a run waits for the release of work outside of the process; then its handle is listed as an orphan. Also for tasks of a kind that releases its work. Default: 10m.", shape: duration(false)},
	}
}

// release reads the command that ends the work of a task outside of its process.
func (r *reader) release(t *Task, n *node, at string) {
	rel := n.get("release")
	for _, name := range []string{"release", "adopts", "release_timeout"} {
		v := n.get(name)
		switch {
		case v == nil:
		case n.get("run") == nil && name == "release_timeout":
			return // see releaseTimeout
		case n.get("run") == nil:
			r.failNode(v, join(at, name), fmt.Sprintf("the key %s belongs to tasks with run only", name), "remove it")
			return
		case rel == nil:
			r.failNode(v, join(at, name), fmt.Sprintf("the key %s needs the key release", name), "add release, such as release: ./end.sh")
			return
		}
	}
	if rel == nil {
		return
	}
	t.Release = &Release{Run: r.run(rel, join(at, "release")), Timeout: durationAt(n.get("release_timeout"))}
	if v := n.get("adopts"); v != nil {
		t.Release.Adopts, _ = v.bool()
	}
}

// releaseTimeout reads the key release_timeout of a task of a kind, whose program releases the work.
func releaseTimeout(r *reader, t *Task, n *node, at string) {
	v := n.get("release_timeout")
	switch {
	case v == nil || n.get("run") != nil:
	case t.PlaceKind() == "":
		r.failNode(v, join(at, "release_timeout"), "the key release_timeout belongs to tasks with run, and to tasks of a kind", "remove it")
	default:
		t.ReleaseTimeout = durationAt(v)
	}
}

// releasePolicy adds the policy for handles.
func (t *Task) releasePolicy(p *dag.Policy) {
	if t.ReleaseTimeout != nil {
		p.ReleaseTimeout = time.Duration(*t.ReleaseTimeout)
	}
	if r := t.Release; r != nil {
		p.Release, p.Adopts = true, r.Adopts
		if r.Timeout != nil {
			p.ReleaseTimeout = time.Duration(*r.Timeout)
		}
	}
}
