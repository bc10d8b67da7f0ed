package engine_test

import (
	"maps"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
)

// TestLargeRun runs 100,000 tasks (10,000 under the race detector) of one run to their end on a disk, and
// again with a failure that settles half of them in one row.
func TestLargeRun(t *testing.T) {
	if testing.Short() {
		t.Skip("100,000 tasks on a disk")
	}
	const half = 50_000 / slower
	first := wide(t, half)
	var spec dag.GraphSpec
	for i := range dag.TaskID(half) {
		spec.Tasks = append(spec.Tasks, dag.TaskSpec{Name: first.Name(i)})
	}
	for i := range dag.TaskID(half) {
		needs := []string{first.Name(i)}
		if i > 0 {
			needs = append(needs, first.Name(0))
		}
		spec.Tasks = append(spec.Tasks, dag.TaskSpec{Name: "after " + first.Name(i), Needs: needs})
	}
	g := build(t, spec)
	for name, want := range map[string]map[dag.TaskState]int{
		"succeeds": {dag.Succeeded: 2 * half},
		"fails":    {dag.Succeeded: half - 1, dag.Failed: 1, dag.UpstreamFailed: half},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHands(t)
			h.result = func(a engine.Assignment) dag.Result {
				if a.Task == 0 && name == "fails" {
					return dag.Result{State: dag.AttemptFailed, Exited: true, ExitCode: 1}
				}
				return success()
			}
			n := start(t, openSQLite(t), h, func(c *engine.Config) { c.Slots = 2000 })
			id := n.submit(n.apply("w", g))
			eventually(t, "it ends", func() bool { return n.state(id).Terminal() })
			n.quiet()
			if v, err := n.GetRun(t.Context(), id); err != nil || !maps.Equal(v.Counts, want) {
				t.Errorf("the run: %v %v", v.Counts, err)
			}
		})
	}
}
