package packed

import (
	"errors"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// TestPast: events are returned once, also of runs with similar ids, and in transactions larger or smaller
// than the previous one.
func TestPast(t *testing.T) {
	var h Past
	for _, n := range []int{0, 3, 4000, 40, 0, 65} {
		events := make([]dag.EventRow, n)
		for i := range events {
			id := dag.RunID{0: byte(i), 1: byte(i >> 8)}
			if i%2 == 1 {
				id[15], id[14] = byte(i), byte(i>>8)
			}
			events[i] = dag.EventRow{Run: id, At: dag.Micros(i + 1)}
		}
		if err := h.Begin(events); err != nil {
			t.Fatal(err)
		}
		if other := (dag.RunID{5: 1}); h.Tells(other) || h.Take(other) != nil || h.Of(other).At != 0 {
			t.Errorf("%d: there are events of a run that has none", n)
		}
		for i := len(events) - 1; i >= 0; i-- {
			id := events[i].Run
			if !h.Tells(id) || h.Of(id).At != dag.Micros(i+1) || h.Tells(id) || h.Take(id) != nil || h.Of(id).At != 0 {
				t.Fatalf("%d: run %s", n, id)
			}
		}
		if n == 0 {
			continue
		}
		if err := h.Begin(append(events, events[n/2])); !errors.Is(err, store.ErrRefused) {
			t.Errorf("%d: twice: %v", n, err)
		}
	}
}
