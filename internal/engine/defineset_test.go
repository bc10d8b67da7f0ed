package engine_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/storetest"
)

// TestSetIsAllOrNothing: a set is applied as a whole or not at all, whatever happens to its transaction. If
// one change of a set is impossible, the set changes nothing.
func TestSetIsAllOrNothing(t *testing.T) {
	for name, fault := range map[string]storetest.Fault{"none": storetest.NoFault, "lost": storetest.Lost, "written": storetest.Written, "refused": storetest.Refused} {
		t.Run(name, func(t *testing.T) {
			var armed atomic.Bool
			st := &storetest.Faulty{Store: openMemory(t), Next: func(b *store.Batch) storetest.Fault {
				if len(b.WorkflowInserts)+len(b.WorkflowUpdates) > 1 && (armed.Load() && fault == storetest.Refused || armed.Swap(false)) {
					return fault
				}
				return storetest.NoFault
			}}
			n := start(t, st, newHands(t))
			old := n.apply("old", graph(t, "a"))
			gone := n.apply("gone", graph(t, "a"))
			def := func(name, digest string, revision int64) engine.Definition {
				return engine.Definition{Namespace: "test", Name: name, Def: []byte("{}"), Graph: graph(t, "a").Pack(), Digest: []byte(digest), User: "git", Revision: revision}
			}
			set := []engine.Definition{def("old", "new text", 0), def("one", "1", 0), def("two", "2", 0)}
			states := []engine.StateChange{{Workflow: gone.ID, State: store.WorkflowPaused}}
			bad := append(set[:len(set):len(set)], def("gone", "g", gone.Revision+7))
			if _, err := engine.ApplySet(t.Context(), n.Engine, bad, nil); !errors.Is(err, errkind.ErrConflict) {
				t.Fatalf("with a change of another revision: %v", err)
			}
			is := func(name string) string {
				w, err := n.Workflow(t.Context(), "test", name)
				if errors.Is(err, errkind.ErrNotFound) {
					return "none"
				}
				if err != nil {
					t.Fatal(err)
				}
				return fmt.Sprintf("%s %d", w.State, w.Version)
			}
			all := func() string { return is("old") + ", " + is("one") + ", " + is("two") + ", " + is("gone") }
			const before, after = "active 1, none, none, active 1", "active 2, active 1, active 1, paused 1"
			if got := all(); got != before {
				t.Fatalf("after a refused set: %s", got)
			}
			armed.Store(true)
			done, err := engine.ApplySet(t.Context(), n.Engine, set, states)
			want := after
			if fault == storetest.Refused {
				want = before
			}
			if got := all(); got != want || (err == nil) != (want == after) {
				t.Fatalf("%s, %v", got, err)
			}
			if err != nil {
				return
			}
			if len(done) != 3 || done[0].ID != old.ID || done[0].Version != 2 || done[2].Name != "two" {
				t.Errorf("%+v", done)
			}
			if _, err := engine.ApplySet(t.Context(), n.Engine, set, states); err != nil || all() != after {
				t.Errorf("a second time: %v, %s", err, all())
			}
		})
	}
}

// TestSetInARing: a set after which workflows start each other without end is refused, whether they are new
// or not. A set that reverses the direction is accepted.
func TestSetInARing(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		x.set("a", "", "name: t, run_of: {workflow: b}")
		x.set("b", "")
		apply := func(set ...engine.Definition) error {
			t.Helper()
			_, err := engine.ApplySet(t.Context(), x.Engine, set, nil)
			if err != nil && !errors.Is(err, errkind.ErrInvalid) {
				t.Fatal(err)
			}
			return err
		}
		hears := func(name, other string) engine.Definition {
			return flow(t, name, "", "name: t, run_of: {workflow: "+other+"}")
		}
		if apply(hears("a", "c"), hears("c", "a")) == nil {
			t.Error("a ring of an old and a new workflow is accepted")
		}
		if apply(hears("c", "d"), hears("d", "c")) == nil {
			t.Error("a ring of new workflows is accepted")
		}
		if err := apply(hears("b", "a"), flow(t, "a", "", "name: u, every: 1h")); err != nil {
			t.Error(err)
		}
		if apply(flow(t, "b", "description: other\n", "name: t, run_of: {workflow: a}"), hears("a", "b")) == nil {
			t.Error("a ring of old workflows is accepted")
		}
		x.rest()
	})
}
