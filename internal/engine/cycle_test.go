package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/memory"
	"skein.dev/skein/internal/trigger"
	"skein.dev/skein/internal/workflow"
)

// circled is a node with limits, locks and calls. The test ends its attempts.
func circled(t *testing.T) *swept {
	x := newSwept(t, naming, calls, func(c *engine.Config) { c.Planner = trigger.New(c.Store) })
	x.hands.held = true
	return x
}

// flow applies a workflow that has limits, or names queues or locks. Its tasks that are named in called are
// calls.
func (n *node) flow(name, tasks string, what workflow.Workflow, called ...string) store.Workflow {
	n.t.Helper()
	what.Namespace, what.Name = "test", name
	def, err := json.Marshal(&what)
	if err != nil {
		n.t.Fatal(err)
	}
	kinds := map[string]*dag.Logic{}
	for _, c := range called {
		kinds[c] = call
	}
	g := graph(n.t, tasks, logical(kinds))
	w, _, err := n.Apply(n.t.Context(), engine.Definition{Namespace: "test", Name: name, Def: def, Graph: g.Pack(), Digest: append(def, tasks...), User: "ada"})
	if err != nil {
		n.t.Fatal(err)
	}
	return w
}

func locks(names ...string) workflow.Workflow { return workflow.Workflow{Locks: names} }

func limited(n int32, names ...string) workflow.Workflow {
	return workflow.Workflow{MaxRuns: n, Locks: names}
}

// child waits until a called run is waiting, and returns that run.
func (n *node) child(w store.Workflow, parent dag.RunID) (id dag.RunID) {
	n.t.Helper()
	eventually(n.t, "the called run waits", func() bool {
		for _, r := range runsOf(n.t, n.store, w) {
			if p := r.Parent(); p != nil && p.Up().Run == parent {
				id = r.ID
				return r.State == dag.RunWaiting
			}
		}
		return false
	})
	return id
}

// standing waits until a run waits in a line.
func (n *node) standing(id dag.RunID) dag.RunID {
	n.t.Helper()
	eventually(n.t, "the run waits", func() bool { return n.state(id) == dag.RunWaiting })
	return id
}

// of returns the held attempt of a run.
func (h *hands) of(run dag.RunID) attempt {
	h.t.Helper()
	var found attempt
	eventually(h.t, "it has an attempt", func() bool {
		for _, k := range h.holding(0) {
			if k.run == run {
				found = k
				return true
			}
		}
		return false
	})
	return found
}

// broken sweeps, and expects that this run was ended because it waited in a circle of these runs.
func (x *swept) broken(victim dag.RunID, circle ...dag.RunID) {
	x.t.Helper()
	x.sweeps(0) // the run may still continue without help
	x.later(2 * time.Minute)
	said := x.explained(victim)
	x.sweeps(1)
	x.ends(victim, dag.RunFailed)
	v, err := x.GetRun(x.t.Context(), victim)
	if err != nil || v.Cause != dag.CauseCycle {
		x.t.Fatalf("it ended because of %s (%s) %v", v.Cause, v.Message, err)
	}
	for _, id := range circle {
		if !strings.Contains(v.Message, "run "+id.String()) || !strings.Contains(said, "run "+id.String()) {
			x.t.Errorf("run %s is part of the circle; the run says %q, explain said %q", id, v.Message, said)
		}
	}
	x.repaired(victim, engine.FaultCircle)
}

// explained returns the explanation of a run as one text.
func (x *swept) explained(id dag.RunID) string {
	x.t.Helper()
	e, err := x.Explain(x.t.Context(), id, "")
	if err != nil {
		x.t.Fatal(err)
	}
	var parts []string
	for _, r := range e.Reasons {
		if r.Kind == "circle" {
			parts = append(parts, r.What+"; "+r.Unblocks)
		}
	}
	return strings.Join(parts, "\n")
}

// rest lets all remaining runs end, and requires that they succeed.
func (x *swept) rest(ids ...dag.RunID) {
	x.t.Helper()
	eventually(x.t, "they end", func() bool {
		for _, k := range x.hands.holding(0) {
			x.hands.end(k, done)
		}
		return !slices.ContainsFunc(ids, func(id dag.RunID) bool { return !x.state(id).Terminal() })
	})
	for _, id := range ids {
		x.ends(id, dag.RunSucceeded)
	}
	x.quiet()
	x.free()
	x.sweeps(0)
}

// TestCircleThroughALimit: a run has a lock and waits for its child. The child waits for a limit, at which
// a run is active that waits for the lock. The run that began to wait last fails. Runs that only wait
// behind it are not affected.
func TestCircleThroughALimit(t *testing.T) {
	for _, limit := range []int32{1, 2} {
		x := circled(t)
		child := x.flow("child", "x", limited(limit, "a"))
		parent := x.submit(x.flow("parent", "go; child: go", locks("a"), "child"))
		x.hands.holding(1)
		var ahead []dag.RunID
		for range limit {
			ahead = append(ahead, x.submit(child))
		}
		x.hands.end(x.hands.of(parent), done)
		victim := x.child(child, parent)
		behind := x.submit(child)
		x.broken(victim, parent, victim, ahead[0])
		x.ends(parent, dag.RunFailed)
		x.rest(append(ahead, behind)...)
		x.close()
	}
}

// TestCircleBehindALine: a lock is free. The first run that waits for it also waits for a second lock. That
// lock is held by the parent of a run which waits for a slot behind the first lock. Waiting runs keep their
// order, so one link of the circle is a lock that no run holds.
func TestCircleBehindALine(t *testing.T) {
	x := circled(t)
	narrow := x.flow("narrow", "x", limited(1, "k"))
	parent := x.submit(x.flow("parent", "go; narrow: go", locks("p"), "narrow"))
	x.hands.holding(1)
	both := x.standing(x.submit(x.flow("both", "x", locks("k", "p"))))
	behind := x.standing(x.submit(narrow))
	x.hands.end(x.hands.of(parent), done)
	victim := x.child(narrow, parent)
	x.broken(victim, parent, victim, behind, both)
	x.ends(parent, dag.RunFailed)
	x.rest(both, behind)
}

// TestCircleOfLocksBehindALine: two families, and a run between them that has asked for both locks. There
// are only locks, and no run holds one of them.
func TestCircleOfLocksBehindALine(t *testing.T) {
	x := circled(t)
	wantK, wantA := x.flow("wantK", "x", locks("k")), x.flow("wantA", "x", locks("a"))
	hasA := x.submit(x.flow("hasA", "go; wantK: go", locks("a"), "wantK"))
	hasB := x.submit(x.flow("hasB", "go; wantA: go", locks("b"), "wantA"))
	x.hands.holding(2)
	between := x.standing(x.submit(x.flow("between", "x", locks("b", "k"))))
	x.hands.end(x.hands.of(hasA), done)
	first := x.child(wantK, hasA)
	x.hands.end(x.hands.of(hasB), done)
	victim := x.child(wantA, hasB)
	x.broken(victim, hasA, first, between, hasB, victim)
	x.ends(hasB, dag.RunFailed)
	x.rest(hasA, first, between)
}

// TestCircleOfLimits: two workflows call each other, by one version of each.
func TestCircleOfLimits(t *testing.T) {
	x := circled(t)
	first := x.flow("first", "go; second: go", limited(1), "second")
	second := x.flow("second", "x", limited(1))
	one := x.submit(first)
	x.hands.holding(1)
	x.flow("first", "x", limited(1))
	second = x.flow("second", "go; first: go", limited(1), "first")
	two := x.submit(second)
	second = x.flow("second", "x; y: x", limited(1))
	x.hands.end(x.hands.of(one), done)
	waits := x.child(second, one)
	x.hands.end(x.hands.of(two), done)
	victim := x.child(first, two)
	x.broken(victim, one, two, waits, victim)
	x.ends(two, dag.RunFailed)
	x.rest(waits, one)
}

// TestNoCircle: a run that waits long is in no circle if it waits behind runs that make progress, for a
// person, or through a queue of its own family.
func TestNoCircle(t *testing.T) {
	x := circled(t)
	x.queue("q", 1)
	family := workflow.Workflow{Queue: "q", Locks: []string{"f"}}
	child := x.flow("child", "x", family) // it uses its parent's lock, and the queue slot that its parent lends
	parent := x.submit(x.flow("parent", "go; child: go", family, "child"))
	narrow := x.flow("narrow", "x", limited(1, "a"))
	other := x.submit(x.flow("other", "go; narrow: go", locks("b"), "narrow"))
	x.hands.holding(2)
	has := x.submit(narrow) // this run is running
	x.hands.of(has)
	x.hands.end(x.hands.of(other), done)
	called := x.child(narrow, other) // the child waits behind a run that is running
	paused := x.submit(x.flow("paused", "x", locks("b")))
	if err := x.do(x.standing(paused), dag.IntentPause); err != nil {
		t.Fatal(err)
	}
	x.hands.end(x.hands.of(parent), done)
	for range 3 {
		x.later(10 * time.Minute)
		x.sweeps(0)
		if said := x.explained(called); said != "" {
			t.Errorf("explain says %s", said)
		}
	}
	if err := x.do(paused, dag.IntentRun); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the child is there", func() bool { return len(runsOf(t, x.store, child)) == 1 })
	x.rest(parent, runsOf(t, x.store, child)[0].ID, other, called, has, paused)
}

// helping implements the peers and helpers of a node in a cluster of two nodes. The other node owns all
// shards that this node does not own.
type helping struct {
	friends
	other func() *engine.Engine
}

func (h *helping) Check(ctx context.Context, _ dag.ShardID, list []engine.Suspect) (int, error) {
	return h.other().CheckAll(ctx, list)
}
func (h *helping) Missing(context.Context, dag.HandlerID, []engine.Held) ([]engine.Held, error) {
	return nil, nil
}

// TestCircleAcrossNodes: the runs of the circle are in two shards with different owners. Either owner may
// sweep. If both sweep at once, only one run is ended.
func TestCircleAcrossNodes(t *testing.T) {
	for _, by := range []string{"a", "b", "both"} {
		t.Run(by, func(t *testing.T) {
			var ahead atomic.Int64
			st := memory.New(memory.Options{Shards: 2, Clock: func() dag.Micros { return dag.Micro(time.Now()) + dag.Micros(ahead.Load()) }})
			var of [2]*node
			for i, name := range []string{"a", "b"} {
				h := newHands(t)
				h.held = true
				of[i] = start(t, st, h, naming, calls, func(c *engine.Config) {
					help := &helping{other: func() *engine.Engine { return of[1-i].Engine }}
					c.Peers, c.Helpers, c.Node, c.Planner = help, help, name, trigger.New(st)
				})
				is := of[i].Handler()
				if err := st.Join(t.Context(), store.Member{Handler: is.ID, UUID: is.UUID, Name: name, State: store.MemberActive}); err != nil {
					t.Fatal(err)
				}
			}
			a, b := of[0], of[1]
			a.own(0, 1)
			var child, caller store.Workflow
			for i := 0; child.ID == 0 || child.Shard != 1; i++ { // the least used shard is next
				child = a.flow(fmt.Sprint("child", i), "x", limited(1, "a"))
			}
			for i := 0; caller.ID == 0 || caller.Shard != 0; i++ {
				caller = a.flow(fmt.Sprint("caller", i), "go; "+child.Name+": go", locks("a"), child.Name)
			}
			a.own(0)
			b.own(1)
			until := func(what string, is func() bool) { // messages are read meanwhile
				eventually(t, what, func() bool {
					_, _ = a.Meet(t.Context()), b.Meet(t.Context())
					return is()
				})
			}
			parent := a.submit(caller)
			k := a.hands.of(parent)
			holder := b.submit(child)
			until("it asks for the lock", func() bool { return b.state(holder) == dag.RunWaiting })
			a.hands.end(k, done)
			until("the child is there", func() bool { return len(runsOf(t, st, child)) == 2 })
			victim := b.child(child, parent)
			ahead.Add((3 * time.Minute).Microseconds())
			var wg sync.WaitGroup
			var repaired atomic.Int64
			for _, n := range of {
				if by == "both" || by == map[*node]string{a: "a", b: "b"}[n] {
					wg.Go(func() {
						got, err := n.Sweep(t.Context())
						if err != nil {
							t.Error(err)
						}
						repaired.Add(int64(got.Repaired))
					})
				}
			}
			wg.Wait()
			if repaired.Load() != 1 {
				t.Errorf("%d runs were ended", repaired.Load())
			}
			b.ends(victim, dag.RunFailed)
			until("the parent has ended", func() bool { return a.state(parent) == dag.RunFailed })
			until("the holder has the lock", func() bool { return b.state(holder) == dag.RunRunning })
			b.hands.end(b.hands.of(holder), done)
			b.ends(holder, dag.RunSucceeded)
			until("the lock is free", func() bool {
				held, err := st.Holding(context.Background(), dag.RunID{}, 1)
				return err == nil && len(held) == 0 && len(runsOf(t, st, child)) == 2
			})
			a.verified()
		})
	}
}
