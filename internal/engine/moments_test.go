package engine_test

import (
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
)

// TestMoments: a task without attempts has its state since the end of the tasks that it needs, not since
// the start of its run.
func TestMoments(t *testing.T) {
	t.Parallel()
	st := openMemory(t)
	h := newHands(t)
	h.result = func(a engine.Assignment) dag.Result {
		if a.Task == 1 {
			return dag.Result{State: dag.AttemptFailed}
		}
		return dag.Result{State: dag.AttemptSucceeded}
	}
	n := start(t, st, h)
	id := n.submit(n.apply("w", graph(t, "a; bad: a; up: bad; upper: up a")))
	n.ends(id, dag.RunFailed)
	all, _, err := n.Tasks(t.Context(), id, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	failed := all[1].Modified
	if failed <= all[0].Created || all[0].Modified >= failed || all[2].Modified != failed || all[3].Modified != failed {
		t.Errorf("modified: %d, %d, %d, %d; the run was split at %d", all[0].Modified, failed, all[2].Modified, all[3].Modified, all[0].Created)
	}
	n.close()
}
