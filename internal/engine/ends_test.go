package engine_test

import (
	"slices"
	"sync"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
)

// TestEndsSayWhetherAnAttemptStarted: the end of a run is fresh if the transaction that inserted the run
// ended it, and no attempt started.
func TestEndsSayWhetherAnAttemptStarted(t *testing.T) {
	var mu sync.Mutex
	var all []store.Ended
	n := start(t, openMemory(t), newHands(t), func(c *engine.Config) {
		c.Ended = func(ends []store.Ended) {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, ends...)
		}
	})
	skips := n.submit(n.apply("skips", graph(t, "a", func(s *dag.GraphSpec) { s.Tasks[0].If = cond("never") })))
	runs := n.submit(n.apply("runs", graph(t, "a")))
	n.ends(runs, dag.RunSucceeded)
	n.ends(skips, dag.RunSucceeded)
	n.quiet()
	mu.Lock()
	defer mu.Unlock()
	for id, want := range map[dag.RunID]bool{skips: true, runs: false} {
		if i := slices.IndexFunc(all, func(e store.Ended) bool { return e.ID == id }); i < 0 || all[i].Fresh != want {
			t.Errorf("the ends of run %s are not fresh = %v: %+v", id, want, all)
		}
	}
}
