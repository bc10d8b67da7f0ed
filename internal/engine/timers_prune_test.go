package engine_test

import (
	"fmt"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
)

// TestManyStartDeadlines has more ready tasks with a start deadline than the number of timers at which
// stale timers are removed. Each task that is not assigned keeps its timer.
func TestManyStartDeadlines(t *testing.T) {
	const tasks = engine.PruneMin + 100
	spec := dag.GraphSpec{Tasks: make([]dag.TaskSpec, tasks)}
	for i := range spec.Tasks {
		spec.Tasks[i].Name = fmt.Sprint("t", i)
		spec.Tasks[i].Policy.StartDeadline = time.Hour
	}
	h := newHands(t)
	h.held = true
	n := start(t, openMemory(t), h, func(c *engine.Config) { c.Slots = 1 })
	if _, err := n.Submit(t.Context(), submission(n.apply("w", build(t, spec)))); err != nil {
		t.Fatal(err)
	}
	h.holding(1)
	timers := 0
	if err := n.Ask(t.Context(), func() error { timers = n.Timers(); return nil }); err != nil {
		t.Fatal(err)
	}
	if timers < tasks-1 {
		t.Errorf("%d timers are left of %d ready tasks", timers, tasks-1)
	}
}
