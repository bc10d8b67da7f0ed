package engine_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
)

// crowd is a number of runs for one lock that is greater than the number that the admission owner keeps in
// memory.
const crowd = 330

func endOf(h *hands, a attempt) { h.end(a, dag.Result{State: dag.AttemptSucceeded, Exited: true}) }

// TestCrowdAtALock: many runs that wait for one lock do not delay other runs in their queue, also after a
// reload. Each of them has its turn, in order.
func TestCrowdAtALock(t *testing.T) {
	for name, open := range openers {
		t.Run(name, func(t *testing.T) {
			st, h := open(t), newHands(t)
			h.held = true
			n := start(t, st, h, naming)
			n.queue("q", 2)
			locks, free, other := n.naming("locks", names{Queue: "q", Locks: []string{"l"}}), n.naming("free", names{Queue: "q"}),
				n.naming("other", names{Queue: "q", Locks: []string{"m"}})
			var ids []dag.RunID
			for range crowd {
				ids = append(ids, n.submit(locks))
			}
			live := h.holding(1)
			behind := n.submit(free)
			live = h.holding(2)
			if live[1].run != behind {
				t.Fatalf("run %s is through, want the one that needs no lock, %s", live[1].run, behind)
			}
			second, third := n.submit(free), n.submit(other)
			n.close()
			h = newHands(t)
			h.held = true
			n = start(t, st, h, naming)
			live = h.holding(2) // the runs that were admitted
			i := slices.IndexFunc(live, func(a attempt) bool { return a.run == behind })
			endOf(h, live[i])
			live = h.holding(2)
			if live[1].run != second {
				t.Fatalf("after a reload run %s is through, want %s", live[1].run, second)
			}
			endOf(h, live[1])
			if live = h.holding(2); live[1].run != third {
				t.Fatalf("run %s is through, want the one that needs another lock, %s", live[1].run, third)
			}
			endOf(h, live[1])
			for i, want := range ids {
				live = h.holding(1)
				if live[0].run != want {
					t.Fatalf("run %s has the lock as number %d, want %s", live[0].run, i, want)
				}
				if i%100 == 50 { // a new run comes while few are known
					ids = append(ids, n.submit(locks))
				}
				endOf(h, live[0])
			}
			for range len(ids) - crowd {
				endOf(h, h.holding(1)[0])
			}
			n.quiet()
			n.free()
		})
	}
}

// TestChildInACrowd: a run waits for its child. The child needs the lock of its parent and is queued behind
// more runs than the admission owner knows. It is admitted nevertheless, also after a reload.
func TestChildInACrowd(t *testing.T) {
	for _, reload := range []bool{false, true} {
		t.Run(fmt.Sprintf("reload=%t", reload), func(t *testing.T) {
			st, h := openers["memory"](t), newHands(t)
			h.held = true
			n := start(t, st, h, naming, calls)
			child := n.naming("child", names{Locks: []string{"l"}})
			def, err := json.Marshal(names{Locks: []string{"l"}})
			if err != nil {
				t.Fatal(err)
			}
			g := graph(t, "a; child: a", logical(map[string]*dag.Logic{"child": call}))
			parent, _, err := n.Apply(t.Context(), engine.Definition{Namespace: "test", Name: "parent", Def: def, Graph: g.Pack(), Digest: def, User: "ada"})
			if err != nil {
				t.Fatal(err)
			}
			top := n.submit(parent)
			a := h.holding(1)[0]
			for range 1001 {
				n.submit(child)
			}
			if reload {
				n.close()
				h = newHands(t)
				h.held = true
				n = start(t, st, h, naming, calls)
				a = h.holding(1)[0]
			}
			endOf(h, a)
			live := h.holding(1)
			row, err := st.Run(t.Context(), live[0].run)
			if err != nil || row.Claim == nil || row.Claim.Family != top {
				t.Fatalf("a run is through that is not the child: %+v (%v)", row, err)
			}
			endOf(h, live[0])
			n.ends(top, dag.RunSucceeded)
		})
	}
}
