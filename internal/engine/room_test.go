package engine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
)

// taking makes every task of a graph take these resources.
func taking(n dag.Need) func(*dag.GraphSpec) {
	return func(s *dag.GraphSpec) {
		for i := range s.Tasks {
			s.Tasks[i].Policy.Place = dag.Anywhere.With(n)
		}
	}
}

const gi = 1 << 30

// roomy returns an engine with enough slots for all attempts, four cores and 8 GiB. Its attempts are held.
func roomy(t *testing.T, st store.Store, change ...func(*engine.Config)) *node {
	h := newHands(t)
	h.held = true
	return start(t, st, h, append([]func(*engine.Config){func(c *engine.Config) {
		c.Slots, c.Traits.Room = 20, dag.Need{CPU: 4000, Memory: 8 * gi}
	}}, change...)...)
}

func (n *node) takes(want dag.Need) {
	n.t.Helper()
	if _, used := n.Room(); used != want {
		n.t.Fatalf("attempts take %v, want %v", used, want)
	}
}

// TestRoom: tasks start only while enough cpu and memory is free. A task without resources is not delayed.
// An end frees resources in the same transaction. A restart counts the running attempts.
func TestRoom(t *testing.T) {
	st := openers["memory"](t)
	n := roomy(t, st)
	cpu := n.apply("cpu", graph(t, "a", taking(dag.Need{CPU: 1500, Memory: gi})))
	memory := n.apply("memory", graph(t, "a", taking(dag.Need{Memory: 3 * gi})))
	plain := n.apply("plain", graph(t, "a"))
	first, second, third := n.submit(cpu), n.submit(cpu), n.submit(cpu)
	fourth, fifth := n.submit(memory), n.submit(memory)
	other := n.submit(plain)
	live := n.hands.holding(5)
	if got := runs(live); len(got) != 5 || slices.Contains(got, third) || !slices.Contains(got, other) {
		t.Fatalf("of %v all but %s should run: %v", []dag.RunID{first, second, third, fourth, fifth, other}, third, got)
	}
	n.takes(dag.Need{CPU: 3000, Memory: 8 * gi})
	x, err := n.Explain(t.Context(), third, "a")
	if err != nil || len(x.Reasons) != 1 || x.Reasons[0].Code != "no_resources" || x.Reasons[0].Holder == "" {
		t.Errorf("explained: %+v, %v", x, err)
	}
	n.close()
	n = roomy(t, st)
	n.hands.holding(5)
	n.takes(dag.Need{CPU: 3000, Memory: 8 * gi})
	commits := n.Stats().Commits.Load()
	for _, a := range n.hands.holding(5) {
		if a.run == first {
			endOf(n.hands, a)
		}
	}
	n.ends(first, dag.RunSucceeded)
	if live = n.hands.holding(5); !slices.Contains(runs(live), third) {
		t.Fatalf("%v run, without %s", runs(live), third)
	}
	if d := n.Stats().Commits.Load() - commits; d != 1 {
		t.Errorf("the end of one and the start of the next took %d commits, want 1", d)
	}
	for len(live) > 0 {
		endOf(n.hands, live[0])
		live = live[1:]
	}
	n.quiet()
	n.takes(dag.Need{})
}

// TestRoomIsKept: small tasks may overtake a large one, but only until the large one has waited for a long
// time.
func TestRoomIsKept(t *testing.T) {
	for _, aged := range []bool{false, true} {
		t.Run(fmt.Sprintf("aged=%t", aged), func(t *testing.T) {
			n := roomy(t, openers["memory"](t), func(c *engine.Config) {
				if c.Ageing = time.Hour; aged {
					c.Ageing = time.Microsecond
				}
			})
			small := n.apply("small", graph(t, "a", taking(dag.Need{CPU: 1000})))
			large := n.apply("large", graph(t, "a", taking(dag.Need{CPU: 4000})))
			for range 4 {
				n.submit(small)
			}
			n.hands.holding(4)
			big := n.submit(large)
			for range 4 {
				n.submit(small)
			}
			for i := range 4 {
				live := n.hands.holding(1)
				endOf(n.hands, live[0])
				if !aged && len(n.hands.holding(4)) != 4 {
					t.Fatalf("after %d ends", i+1)
				}
			}
			if aged {
				live := n.hands.holding(1)
				if live[0].run != big {
					t.Fatalf("run %s has the room that was kept for %s", live[0].run, big)
				}
				n.takes(dag.Need{CPU: 4000})
				endOf(n.hands, live[0])
			}
			for range 4 {
				endOf(n.hands, n.hands.holding(1)[0])
			}
			if !aged {
				endOf(n.hands, n.hands.holding(1)[0])
			}
			n.quiet()
			n.takes(dag.Need{})
		})
	}
}

// TestTooLarge: a task that fits no worker waits, and this is reported at once.
func TestTooLarge(t *testing.T) {
	n := roomy(t, openers["memory"](t))
	huge := dag.Anywhere.With(dag.Need{CPU: 64000})
	id := n.submit(n.apply("huge", graph(t, "a", taking(huge.Need()))))
	why := "no worker has cpu 64"
	if all, err := n.Unplaced(t.Context(), "test", graph(t, "a", taking(huge.Need()))); err != nil || len(all) != 1 || all[0].Why != why {
		t.Errorf("%+v, %v", all, err)
	}
	x, err := n.Explain(t.Context(), id, "")
	if err != nil || len(x.Reasons) != 1 || x.Reasons[0].Code != "no_worker" {
		t.Errorf("explained: %+v, %v", x, err)
	}
	if err := n.Do(t.Context(), engine.Command{Run: id, Intent: dag.IntentStop}); err != nil {
		t.Fatal(err)
	}
	n.ends(id, dag.RunStopped)
	n.quiet()
}
