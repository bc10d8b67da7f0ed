package engine_test

import (
	"fmt"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// BenchmarkExplain explains a run of 100,000 tasks of which half have ended, some run, some wait for their next
// try, and the others wait for a slot.
func BenchmarkExplain(b *testing.B) {
	const tasks = 100_000
	spec := dag.GraphSpec{Tasks: make([]dag.TaskSpec, tasks)}
	for i := range spec.Tasks {
		spec.Tasks[i].Name = fmt.Sprint("t", i)
		if i >= 100 && i%2 == 0 {
			spec.Tasks[i].Needs = []string{fmt.Sprint("t", i-100)}
		}
	}
	h := newHands(b)
	h.held = true
	n := start(b, openSQLite(b), h)
	a, err := n.Submit(b.Context(), submission(n.apply("big", build(b, spec))))
	if err != nil {
		b.Fatal(err)
	}
	for done := 0; done < tasks/2; {
		for _, k := range h.holding(8) {
			h.end(k, dag.Result{State: dag.AttemptSucceeded, Exited: true})
			done++
		}
		h.mu.Lock()
		h.order = h.order[:0]
		for k := range h.live {
			h.order = append(h.order, k)
		}
		h.mu.Unlock()
	}
	h.holding(8)
	bench := func(name, task string) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := n.Explain(b.Context(), a.Run, task); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	bench("run", "")
	for task, name := range map[string]string{"t99999": "ready", "t0": "ended", "t99998": "pending"} {
		bench(name, task)
	}
	for _, sparing := range []bool{false, true} {
		b.Run(fmt.Sprint("one/", sparing), func(b *testing.B) {
			for b.Loop() {
				if _, err := n.store.Attempts(b.Context(), store.AttemptQuery{Run: a.Run, One: true, Sparing: sparing}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("all", func(b *testing.B) {
		for b.Loop() {
			if _, err := n.store.Attempts(b.Context(), store.AttemptQuery{Run: a.Run}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
