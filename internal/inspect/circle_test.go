package inspect

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

func someone(n int, w dag.WorkflowID, state dag.RunState) store.Standing {
	s := store.Standing{Workflow: w, State: state, Created: dag.Micros(n)}
	binary.BigEndian.PutUint64(s.Run[:], uint64(n+1))
	return s
}

// TestSettle: if every run continues that waits only for runs that can continue, the remaining runs wait for
// ever. The order in which runs are examined does not matter.
func TestSettle(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		limits := map[dag.WorkflowID]int32{1: 1, 2: 2, 3: 0}
		names := []string{"a", "b", "c"}
		g, slow := NewWaits(1<<40, limits), NewWaits(1<<40, limits)
		var all []store.Standing
		for n := range 3 + r.IntN(12) {
			s := someone(n, dag.WorkflowID(1+r.IntN(3)), []dag.RunState{dag.RunWaiting, dag.RunRunning, dag.RunSuspended}[r.IntN(3)])
			if n > 0 && r.IntN(2) == 0 {
				s.Parent = all[r.IntN(n)].Run
			}
			if r.IntN(3) > 0 {
				i := r.IntN(3)
				c := &dag.Claim{Locks: []string{names[i], names[(i+1+r.IntN(2))%3]}[:1+r.IntN(2)], Stage: dag.ClaimGranted, Asked: dag.Micros(1 + r.IntN(20))}
				if s.State == dag.RunWaiting {
					c.Stage = dag.ClaimAsked
				}
				if r.IntN(3) == 0 {
					c.Family = s.Parent
				}
				s.Claim = c
			}
			all = append(all, s)
		}
		for i := range all {
			g.See(&all[i])
			slow.See(&all[i])
		}
		g.Settle()
		slow.Settle() // examines the runs that are made from the list
		for _, w := range slow.all {
			w.moves = w.Intent >= dag.IntentStop
		}
		for more := true; more; {
			more = false
			for _, q := range slow.wants {
				q.moved = 0
			}
			for _, q := range slow.through {
				q.moved, q.stuck = 0, 0
				for _, w := range q.list {
					if !w.moves {
						q.stuck++
					}
				}
			}
			for _, i := range r.Perm(len(slow.all)) {
				if w := slow.all[i]; !w.moves && slow.waitsFor(w) == nil {
					w.moves, more = true, true
					break
				}
			}
		}
		for i := range g.all {
			if g.all[i].moves != slow.all[i].moves {
				t.Fatalf("seed %d: run %d moves: %v, want %v", seed, i, g.all[i].moves, slow.all[i].moves)
			}
		}
	}
}

// TestSettleMany: 100,000 runs each want two locks, and none of them waits for ever. If each run examined all
// runs before it, this would take minutes.
func TestSettleMany(t *testing.T) {
	const many = 100_000
	g := NewWaits(1<<40, map[dag.WorkflowID]int32{})
	holder := someone(0, 1, dag.RunRunning)
	holder.Claim = &dag.Claim{Locks: []string{"held"}, Stage: dag.ClaimGranted}
	g.See(&holder)
	for n := range many {
		s := someone(n+1, 1, dag.RunWaiting)
		s.Claim = &dag.Claim{Locks: []string{"held", "free"}, Stage: dag.ClaimAsked, Asked: dag.Micros(n + 1)}
		g.See(&s)
	}
	if g.Settle(); len(g.all) != many+1 || len(g.Circles()) != 0 {
		t.Error(fmt.Sprint(len(g.all), len(g.Circles())))
	}
	for _, w := range g.all {
		if !w.moves {
			t.Fatalf("run %s waits in vain", w.Run)
		}
	}
}
