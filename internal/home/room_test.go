package home

import (
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
)

// nowhere is a directory of a node without others.
type nowhere struct{ Directory }

func (nowhere) View() ([]store.Member, []store.ShardRow) { return nil, nil }

func (nowhere) Self() store.Member { return store.Member{Handler: 1} }

// TestRoomOfAWorker: a home lends slots only with as much cpu and memory as a worker has, and counts returned
// resources as free. It reserves resources for a large demand that has waited long.
func TestRoomOfAWorker(t *testing.T) {
	h := New(Config{Directory: nowhere{}})
	h.admitSelf(store.Member{})
	w := newWorker(store.Member{Handler: 7, Slots: 10, Lease: 1, Traits: store.Traits{Room: dag.Need{CPU: 4000, Memory: 8 << 30}}})
	h.admit(w)
	small, large := dag.Need{CPU: 1500}, dag.Need{CPU: 3000}
	say := func(a *ask) {
		t.Helper()
		if err := h.Ask(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	demand := func(n dag.Need, created dag.Micros, aged bool) engine.Demand {
		return engine.Demand{Place: dag.Anywhere.With(n), N: 10, Created: created, Run: dag.RunID{byte(created)}, Aged: aged}
	}
	lent := func(small, large int64, used int) {
		t.Helper()
		a, b := w.account(1, dag.Need{CPU: 1500}), w.account(1, dag.Need{CPU: 3000})
		if a.granted-a.returned != small || b.granted-b.returned != large || w.used != used {
			t.Fatalf("lent %+v small, %+v large, %d slots are used; want %d, %d, %d", *a, *b, w.used, small, large, used)
		}
		if want := (dag.Need{CPU: 1500*small + 3000*large}); w.room != want {
			t.Fatalf("%v is taken, want %v", w.room, want)
		}
	}
	say(&ask{Owner: 1, Demands: []engine.Demand{demand(small, 5, false)}})
	lent(2, 0, 2)
	both := []engine.Demand{demand(large, 3, true), demand(small, 5, false)}
	say(&ask{Owner: 1, Demands: both, Returned: []total{{7, 1, 1, small}}})
	lent(1, 0, 1)
	say(&ask{Owner: 1, Demands: both, Returned: []total{{7, 1, 1, small}}})
	lent(1, 0, 1) // the same total a second time
	say(&ask{Owner: 1, Demands: []engine.Demand{demand(large, 3, true)}, Returned: []total{{7, 1, 2, small}}})
	lent(0, 1, 1)
	say(&ask{Owner: 1, Demands: []engine.Demand{demand(dag.Need{Memory: 9 << 30}, 1, true), demand(dag.Need{}, 2, false)}, Returned: []total{{7, 1, 1, large}}})
	if n := w.account(1, dag.Need{}).granted; n != 10 || w.room != (dag.Need{}) {
		t.Errorf("what takes nothing got %d of 10 slots; %v is taken", n, w.room)
	}
}
