package packed

import (
	"testing"

	"skein.dev/skein/internal/dag"
)

// TestRunIndex: a run keeps its number, also if ids have the same end, if the index is larger or smaller than
// the previous one, and if the index has to grow.
func TestRunIndex(t *testing.T) {
	var x RunIndex
	if x.Has(dag.RunID{}) {
		t.Error("an empty index has a run")
	}
	for _, c := range []struct{ runs, room int }{{3, 3}, {4000, 4000}, {40, 40}, {0, 0}, {65, 0}, {5000, 10}, {1, 9000}} {
		x.Reset(c.room)
		ids := make([]dag.RunID, c.runs)
		for i := range ids {
			ids[i] = dag.RunID{0: byte(i), 1: byte(i >> 8)}
			if i%2 == 1 {
				ids[i][15], ids[i][14] = byte(i), byte(i>>8)
			}
		}
		for range 2 {
			for i, id := range ids {
				had := x.Has(id)
				if n, added := x.Add(id); n != i || added == had {
					t.Fatalf("%d runs: run %d has number %d, new %v", c.runs, i, n, added)
				}
			}
		}
		for i := len(ids) - 1; i >= 0; i-- {
			if n := x.Find(ids[i]); n != i {
				t.Fatalf("%d runs: run %d is found as %d", c.runs, i, n)
			}
		}
		if other := (dag.RunID{5: 1}); x.Find(other) != -1 {
			t.Errorf("%d runs: one is found that is not there", c.runs)
		}
	}
}

// TestIndexesMeet: whatever their sizes, two indexes meet if and only if they share a run.
func TestIndexesMeet(t *testing.T) {
	of := func(from, to int) *RunIndex {
		x := &RunIndex{}
		for i := from; i < to; i++ {
			x.Add(dag.RunID{14: byte(i >> 8), 15: byte(i)})
		}
		return x
	}
	for _, c := range []struct {
		a, b *RunIndex
		want bool
	}{
		{of(0, 0), of(0, 0), false}, {of(0, 3), of(0, 0), false}, {of(0, 0), of(0, 3), false},
		{of(0, 300), of(300, 400), false}, {of(0, 300), of(299, 400), true}, {of(7, 8), of(0, 4000), true}, {of(0, 4000), of(7, 8), true},
	} {
		if got := c.a.Meets(c.b); got != c.want {
			t.Errorf("%d runs and %d: %v", len(c.a.ids), len(c.b.ids), got)
		}
	}
}
