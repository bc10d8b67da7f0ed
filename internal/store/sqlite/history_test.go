package sqlite

import (
	"errors"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// TestHistory: events are handed over once, also of runs whose ids end alike, in a transaction larger and smaller than the one before.
func TestHistory(t *testing.T) {
	var h history
	for seq, n := range []int{0, 3, 4000, 40, 0, 65} {
		events := make([]dag.EventRow, n)
		for i := range events {
			id := dag.RunID{0: byte(i), 1: byte(i >> 8)}
			if i%2 == 1 {
				id[15], id[14] = byte(i), byte(i>>8)
			}
			events[i] = dag.EventRow{Run: id, At: dag.Micros(i + 1)}
		}
		if err := h.begin(events, int64(seq)); err != nil {
			t.Fatal(err)
		}
		if other := (dag.RunID{5: 1}); h.tells(other) || h.take(other) != nil || h.of(other).At != 0 {
			t.Errorf("%d: there are events of a run that has none", n)
		}
		for i := len(events) - 1; i >= 0; i-- {
			id := events[i].Run
			if !h.tells(id) || h.of(id).At != dag.Micros(i+1) || h.tells(id) || h.take(id) != nil || h.of(id).At != 0 {
				t.Fatalf("%d: run %s", n, id)
			}
		}
		if n == 0 {
			continue
		}
		if err := h.begin(append(events, events[n/2]), 1); !errors.Is(err, store.ErrRefused) {
			t.Errorf("%d: twice: %v", n, err)
		}
	}
}
