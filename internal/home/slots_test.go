package home_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/home"
	"skein.dev/skein/internal/store"
	workerv1 "skein.dev/skein/sdk/api/worker/v1"
)

// places returns n equal placements.
func places(n int, p dag.Place) []dag.Place { return slices.Repeat([]dag.Place{p}, n) }

// ended waits until runs have succeeded.
func (t *town) ended(runs []dag.RunID) bool {
	t.Helper()
	for _, id := range runs {
		row, err := t.store.Run(t.Context(), id)
		if err != nil || row.State.Terminal() && row.State != dag.RunSucceeded {
			t.Fatalf("run %s is %s, %v", id, row.State, err)
		}
		if row.State != dag.RunSucceeded {
			return false
		}
	}
	return true
}

// TestNeverOneMore: three owners want the slots of one worker. The worker reports twice, polls late, loses
// some answers, and changes its home in the middle. It gets an attempt for each of its slots, and never one
// attempt more.
func TestNeverOneMore(t *testing.T) {
	t.Parallel()
	const slots, runsPer, tasks = 20, 3, 25
	tn := newTown(t, 3)
	var runs []dag.RunID
	owners := map[dag.ShardID]bool{}
	for i := range 6 {
		w := tn.apply(fmt.Sprint("w", i), places(tasks, dag.Anywhere)...)
		owners[w.Shard] = true
		for range runsPer {
			runs = append(runs, tn.submit(w))
		}
	}
	if len(owners) < 3 {
		t.Fatalf("the workflows are in %d shards", len(owners))
	}
	h := tn.hand(tn.nodes[0], "w", slots)
	h.get(slots)
	ends, moves, rng := 0, 0, rand.New(rand.NewPCG(1, 2))
	h.lost = func() bool { return rng.IntN(3) == 0 }
	tn.until("all runs have ended", func() bool {
		h.poll()
		n := len(h.running)
		if n > slots {
			t.Fatalf("it has %d attempts", n)
		}
		for range rng.IntN(n + 1) {
			h.starts = rng.IntN(4) != 0
			a := h.running[rng.IntN(len(h.running))]
			h.end(a)
			ends++
			if v := h.report(good(a)); v != workerv1.Verdict_VERDICT_DUPLICATE && v != workerv1.Verdict_VERDICT_RUN_ENDED {
				t.Fatalf("an end that is said twice is %s", v)
			}
		}
		if ends > 80*(moves+1) { // the worker moves to another node with all its attempts
			moves++
			h.c = tn.hand(tn.nodes[moves%3], fmt.Sprint("guide", moves), 1, "nobody").away().c
			h.register("w", slots)
		}
		return tn.ended(runs)
	})
	if ends < 6*runsPer*tasks || moves < 4 {
		t.Errorf("%d attempts ended, and it was attached anew %d times", ends, moves)
	}
	for _, n := range tn.nodes {
		if lost := n.h.Stats.Lost.Load(); lost != 0 {
			t.Errorf("%s: %d attempts were taken for lost", n.name, lost)
		}
	}
}

// away detaches the worker again, after its registration has shown the address of a node.
func (h *hand) away() *hand {
	h.t.Helper()
	if _, err := h.c.Leave(h.t.Context(), &workerv1.LeaveRequest{Handler: h.handler, Lease: h.lease, Uuid: h.uuid}); err != nil {
		h.t.Fatal(err)
	}
	return h
}

// TestStrategies checks which of three workers gets the next attempt.
func TestStrategies(t *testing.T) {
	t.Parallel()
	const slots, each = 12, 4
	for _, tt := range []struct {
		strategy string
		check    func(t *testing.T, got []int)
	}{
		// The largest share of free slots comes first. Two of the workers have twice as many slots as the third.
		{home.LeastLoaded, func(t *testing.T, got []int) {
			if got[0] < 4 || got[0] > 6 || got[1] < 4 || got[1] > 6 || got[2] < 2 || got[2] > 3 {
				t.Errorf("least loaded: %v", got)
			}
		}},
		// The workers take turns, whatever their slots.
		{home.RoundRobin, func(t *testing.T, got []int) {
			if slices.Max(got)-slices.Min(got) > 1 {
				t.Errorf("in turn: %v", got)
			}
		}},
		// Any worker.
		{home.Random, func(t *testing.T, got []int) {
			if slices.Max(got) == len(got)*each {
				t.Errorf("at random, all went to one: %v", got)
			}
		}},
	} {
		t.Run(tt.strategy, func(t *testing.T) {
			t.Parallel()
			tn := newTown(t, 1, func(c *home.Config) { c.Strategy = tt.strategy })
			hands := []*hand{tn.hand(tn.nodes[0], "a", slots), tn.hand(tn.nodes[0], "b", slots), tn.hand(tn.nodes[0], "c", slots/2)}
			tn.until("the workers are listed", func() bool { members, _ := tn.nodes[0].m.View(); return len(members) == 4 })
			run := tn.submit(tn.apply("w", places(3*each, dag.Anywhere)...))
			got := make([]int, len(hands))
			tn.until("all tasks are out", func() bool {
				sum := 0
				for i, h := range hands {
					h.poll()
					got[i] = len(h.running)
					sum += got[i]
				}
				return sum == 3*each
			})
			tt.check(t, got)
			for _, h := range hands {
				for _, a := range slices.Clone(h.running) {
					h.end(a)
				}
			}
			tn.until("the run ends", func() bool { return tn.ended([]dag.RunID{run}) })
		})
	}
}

// TestPlaces: a task runs only at its placement. A task that fits no worker does not delay others.
func TestPlaces(t *testing.T) {
	t.Parallel()
	tn := newTown(t, 2)
	a, b := tn.hand(tn.nodes[0], "a", 4, "etl"), tn.hand(tn.nodes[1], "b", 4)
	w := tn.apply("w", dag.NewPlace("", "etl", nil), dag.NewPlace("b", "", nil), dag.NewPlace("", "nowhere", nil), dag.NewPlace("", "etl", nil))
	run := tn.submit(w)
	a.get(2)
	b.get(1)
	for _, x := range a.running {
		if x.Task != 0 && x.Task != 3 {
			t.Errorf("a has task %d", x.Task)
		}
	}
	if x := b.running[0]; x.Task != 1 {
		t.Errorf("b has task %d", x.Task)
	}
	for _, h := range []*hand{a, b} {
		for _, x := range slices.Clone(h.running) {
			h.end(x)
		}
	}
	unserved := func() (n int64) {
		for _, o := range tn.nodes {
			n += o.h.Stats.Unserved.Load()
		}
		return n
	}
	tn.until("it is noticed that a task fits nobody", func() bool { return unserved() == 1 })
	c := tn.hand(tn.nodes[0], "c", 1, "nowhere")
	c.get(1)
	c.end(c.running[0])
	tn.until("the run ends", func() bool { return tn.ended([]dag.RunID{run}) })
	tn.until("and that somebody came", func() bool { return unserved() == 0 })
}

// TestCordonedWorker: a cordoned worker gets no further attempts, and may end the ones that it has.
func TestCordonedWorker(t *testing.T) {
	t.Parallel()
	tn := newTown(t, 1)
	a := tn.hand(tn.nodes[0], "a", 2)
	w := tn.apply("w", places(3, dag.Anywhere)...)
	run := tn.submit(w)
	a.get(2)
	if _, err := tn.store.Order(t.Context(), store.Order{Node: "a", What: store.OrderCordon}, true); err != nil {
		t.Fatal(err)
	}
	tn.until("the order is known", func() bool { m, ok := tn.nodes[0].m.Member(dag.HandlerID(a.handler)); return ok && m.Cordoned })
	tn.until("the home heeds it", func() bool { return tn.nodes[0].h.Cordoned("a") })
	for _, x := range slices.Clone(a.running) {
		a.end(x)
	}
	b := tn.hand(tn.nodes[0], "b", 1)
	b.get(1)
	if a.poll(); len(a.running) != 0 {
		t.Errorf("the cordoned worker was given %v", a.running)
	}
	b.end(b.running[0])
	tn.until("the run ends", func() bool { return tn.ended([]dag.RunID{run}) })
}

// TestExplainSlots: every node names all runs that have slots. Only the owner of a run knows how many runs
// come before it.
func TestExplainSlots(t *testing.T) {
	t.Parallel()
	tn := newTown(t, 2)
	h := tn.hand(tn.nodes[0], "w", 2)
	wf := tn.apply("w", places(2, dag.Anywhere)...)
	tn.submit(wf)
	h.get(2)
	h.poll() // the poll lists the attempts
	tn.submit(wf)
	last := tn.submit(wf)
	said := map[string]bool{}
	for _, n := range tn.nodes {
		tn.until("it is ready, and the worker's word has come", func() bool {
			x, err := n.e.Explain(t.Context(), last, "")
			if err != nil {
				t.Fatal(err)
			}
			if len(x.Reasons) != 1 || x.Reasons[0].Code != "no_slot" || x.Reasons[0].Args["busy"] != int32(2) || x.Reasons[0].Args["slots"] != int32(2) {
				return false
			}
			what := x.Reasons[0].What
			said[what[strings.Index(what, ": ")+2:]] = true
			return true
		})
	}
	owner := ""
	for text := range said {
		if _, of, elsewhere := strings.Cut(text, "its owner "); elsewhere {
			owner, _, _ = strings.Cut(of, " says")
		}
	}
	if !said["2 of 2 are busy; 1 run goes before it"] || owner != "n1" && owner != "n2" || len(said) != 2 {
		t.Errorf("it is said: %v", said)
	}
	h.away()
}
