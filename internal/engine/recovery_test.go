package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/memory"
	"skein.dev/skein/internal/trigger"
	"skein.dev/skein/internal/workflow"
)

// swept is a node over a store whose clock a test sets ahead.
type swept struct {
	*node
	st    *memory.Store
	ahead *atomic.Int64 // microseconds
}

func newSwept(t *testing.T, change ...func(*engine.Config)) *swept {
	t.Helper()
	var ahead atomic.Int64
	st := memory.New(memory.Options{Clock: func() dag.Micros { return dag.Micro(time.Now()) + dag.Micros(ahead.Load()) }})
	h := newHands(t)
	return &swept{node: start(t, st, h, change...), st: st, ahead: &ahead}
}

// later moves the store's clock forward.
func (x *swept) later(d time.Duration) { x.ahead.Add(d.Microseconds()) }

// sweeps runs a sweep, and requires a number of repairs.
func (x *swept) sweeps(want int) engine.Swept {
	x.t.Helper()
	got, err := x.Sweep(x.t.Context())
	if err != nil || got.Repaired != want || got.Left != 0 {
		x.t.Fatalf("a sweep says %s, %v; want %d repaired", got, err, want)
	}
	return got
}

// repaired requires that the history of a run and the counters show exactly one repair of a fault.
func (x *swept) repaired(run dag.RunID, fault string) {
	x.t.Helper()
	var reasons []string
	eventually(x.t, "the repair is written down", func() bool {
		rows, err := x.store.Events(x.t.Context(), run, 0, 100)
		if err != nil {
			x.t.Fatal(err)
		}
		reasons = nil
		for _, row := range rows {
			records, err := dag.UnpackRecords(row.Records)
			if err != nil {
				x.t.Fatal(err)
			}
			for _, rec := range records {
				if rec.Kind == dag.RecRepaired {
					reasons = append(reasons, rec.Text+": "+rec.Reason)
				}
			}
		}
		return len(reasons) > 0
	})
	if len(reasons) != 1 || !strings.HasPrefix(reasons[0], fault+": ") || len(reasons[0]) < len(fault)+10 {
		x.t.Errorf("the history says %q, want one repair of kind %s with its reason", reasons, fault)
	}
	for i, name := range engine.Faults() {
		want := int64(0)
		if name == fault {
			want = 1
		}
		// Repairs are counted after the transaction was written, concurrently with readers of the history.
		eventually(x.t, fmt.Sprintf("%d repairs of kind %s are counted", want, name), func() bool { return x.Stats().Faults[i].Load() == want })
	}
}

// attempts returns the states of the attempts of a run's first task.
func (x *swept) attempts(run dag.RunID) (states []dag.AttemptState) {
	x.t.Helper()
	list, err := x.store.Attempts(x.t.Context(), store.AttemptQuery{Run: run, One: true})
	if err != nil {
		x.t.Fatal(err)
	}
	for _, a := range list {
		states = append(states, a.State)
	}
	return states
}

// TestSweepFindsNothing: runs that run, wait for a slot, for a retry, for a limit or for a person are left alone.
func TestSweepFindsNothing(t *testing.T) {
	x := newSwept(t, func(c *engine.Config) { c.Slots = 1 })
	x.hands.held = true
	w := x.apply("w", graph(t, "a; b: a"))
	running := x.submit(w)
	x.hands.holding(1)
	queued := x.submit(w)
	paused := x.submit(w)
	if err := x.do(paused, dag.IntentPause); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the runs have been running for ten minutes or longer
		x.later(10 * time.Minute)
		x.Report(engine.Report{Run: running, Task: 0, Token: 1, Started: dag.Micro(time.Now())})
		if err := x.Barrier(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := x.sweeps(0); got.Runs != 3 {
			t.Errorf("%d runs looked at", got.Runs)
		}
	}
	if x.state(queued) != dag.RunRunning || x.state(paused) != dag.RunPaused {
		t.Errorf("%s, %s", x.state(queued), x.state(paused))
	}
	for i := range engine.Faults() {
		if n := x.Stats().Faults[i].Load(); n != 0 {
			t.Errorf("%d repairs of kind %s", n, engine.Faults()[i])
		}
	}
	x.sound()
}

// TestSweepUnclaimed: an assigned attempt that never began is assigned again under its token.
func TestSweepUnclaimed(t *testing.T) {
	x := newSwept(t)
	var dropped atomic.Bool
	x.hands.drop = func() bool { return !dropped.Swap(true) }
	w := x.apply("w", graph(t, "a"))
	id := x.submit(w)
	eventually(t, "it is handed over, in vain", dropped.Load)
	x.sweeps(0) // the attempt may still begin
	x.later(6 * time.Minute)
	x.sweeps(1)
	x.ends(id, dag.RunSucceeded)
	x.repaired(id, engine.FaultUnclaimed)
	if got := x.attempts(id); len(got) != 1 {
		t.Errorf("attempts %v, want one", got)
	}
	x.sweeps(0)
	x.quiet()
}

// TestSweepUnfinalised: the last task has ended, and the run has not.
func TestSweepUnfinalised(t *testing.T) {
	for _, c := range []struct {
		name   string
		intent dag.Intent
		end    dag.RunState
	}{{"done", dag.IntentRun, dag.RunSucceeded}, {"stopped", dag.IntentStop, dag.RunStopped}, {"killed", dag.IntentKill, dag.RunStopped}} {
		t.Run(c.name, func(t *testing.T) {
			x := newSwept(t)
			x.hands.held = true
			text := "a"
			if c.intent != dag.IntentRun {
				text = "a; b: a" // b must not begin
			}
			w := x.apply("w", graph(t, text))
			id := x.submit(w)
			x.hands.holding(1)
			rec, err := x.store.Load(t.Context(), store.LoadQuery{IDs: []dag.RunID{id}})
			if err != nil {
				t.Fatal(err)
			}
			var b store.Batch
			a := rec[0].Attempts[0]
			a.State, a.Finished, a.Exited = dag.AttemptSucceeded, a.Assigned+1, true
			b.AttemptUpdates = []dag.AttemptUpdate{{AttemptRow: a, Was: dag.AttemptAssigned}}
			b.Events = []dag.EventRow{{Run: id, At: a.Finished, Records: dag.PackRecords([]dag.Record{
				{Kind: dag.RecEnded, Task: a.Task, Token: a.Token, Handler: a.Handler, State: dag.Succeeded, Exited: true}})}}
			if c.intent != dag.IntentRun {
				row := rec[0].Run
				row.Intent, row.Cause = c.intent, dag.CauseStopped
				b.RunUpdates = []dag.RunUpdate{{RunRow: row, Was: row.State}}
			}
			if err := x.Overwrite(t.Context(), &b); err != nil {
				t.Fatal(err)
			}
			x.sweeps(0) // the fault is too recent for a sweep
			x.later(2 * time.Minute)
			x.sweeps(1)
			x.ends(id, c.end)
			x.repaired(id, engine.FaultUnfinalised)
			x.sweeps(0)
			x.sound()
		})
	}
}

// TestSweepUnsubmitted: work is due, and no owner knows it.
func TestSweepUnsubmitted(t *testing.T) {
	for name, harm := range map[string]func(x *swept, id dag.RunID) error{
		"forgotten": func(x *swept, id dag.RunID) error { return x.Forget(x.t.Context(), id) },
		"unqueued":  func(x *swept, id dag.RunID) error { return x.Unqueue(x.t.Context(), id) },
	} {
		t.Run(name, func(t *testing.T) {
			x := newSwept(t, func(c *engine.Config) { c.Slots = 1 })
			x.hands.held = true
			w := x.apply("w", graph(t, "a"))
			first := x.submit(w)
			held := x.hands.holding(1)
			id := x.submit(w)
			if err := harm(x, id); err != nil {
				t.Fatal(err)
			}
			x.later(2 * time.Minute)
			x.hands.held = false
			x.hands.end(held[0], success())
			x.ends(first, dag.RunSucceeded)
			if x.state(id) != dag.RunRunning || len(x.attempts(id)) != 0 {
				t.Fatalf("it is %s", x.state(id))
			}
			x.sweeps(1)
			x.ends(id, dag.RunSucceeded)
			x.repaired(id, engine.FaultUnsubmitted)
			x.sweeps(0)
			x.quiet()
		})
	}
}

// TestSweepCorrupt: invalid rows end only their own run.
func TestSweepCorrupt(t *testing.T) {
	x := newSwept(t)
	x.hands.held = true
	w := x.apply("w", graph(t, "a"))
	bad, good := x.submit(w), x.submit(w)
	held := x.hands.holding(2)
	var b store.Batch
	b.AttemptInserts = []dag.AttemptRow{{Run: bad, Task: 99, Token: 1, Generation: 1, Handler: 77, State: dag.AttemptAssigned, Assigned: 1}}
	if err := x.Overwrite(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	x.sweeps(1)
	x.ends(bad, dag.RunFailed)
	if row, err := x.RunRow(t.Context(), bad); err != nil || row.Cause != dag.CauseCorrupt {
		t.Errorf("%+v, %v", row, err)
	}
	for _, k := range held {
		x.hands.end(k, success())
	}
	x.ends(good, dag.RunSucceeded)
	if n := x.Stats().Quarantined.Load(); n != 1 {
		t.Errorf("%d runs in quarantine", n)
	}
	x.sweeps(0)
}

// neighbours implements the peers and helpers of a node in a cluster of two nodes.
type neighbours struct {
	alone
	alive atomic.Bool
	lacks atomic.Bool // the other node does not have the attempts about which it is asked
	asked atomic.Int64
	away  atomic.Int64 // for this number of questions the neighbour cannot answer
}

func (p *neighbours) Alive(dag.HandlerID) bool { return p.alive.Load() }
func (p *neighbours) Check(context.Context, dag.ShardID, []engine.Suspect) (int, error) {
	return 0, errkind.ErrUnavailable
}
func (p *neighbours) Missing(_ context.Context, _ dag.HandlerID, list []engine.Held) ([]engine.Held, error) {
	p.asked.Add(1)
	if p.away.Add(-1) >= 0 {
		return nil, errkind.ErrUnavailable
	}
	if p.lacks.Load() {
		return list, nil
	}
	return nil, nil
}

// inherited returns a node that has taken over a shard from another node, which still holds an attempt of a
// run.
func inherited(t *testing.T) (x *swept, p *neighbours, id dag.RunID) {
	t.Helper()
	p = &neighbours{}
	p.alive.Store(true)
	x = newSwept(t, func(c *engine.Config) { c.Peers, c.Helpers = p, p })
	join := func(n *node) {
		h := n.Handler()
		if err := x.st.Join(t.Context(), store.Member{Handler: h.ID, UUID: h.UUID, Name: h.UUID, State: store.MemberActive, Slots: 8}); err != nil {
			t.Fatal(err)
		}
		if got, err := n.Own(t.Context(), []dag.ShardID{0}); err != nil || len(got) != 1 {
			t.Fatalf("owns %v: %v", got, err)
		}
	}
	join(x.node)
	x.hands.held = true
	w := x.apply("w", graph(t, "a"))
	id = x.submit(w)
	x.hands.holding(1)
	if _, err := x.Own(t.Context(), nil); err != nil { // the earlier owner lives on without the shard
		t.Fatal(err)
	}
	x.node = start(t, x.st, newHands(t), func(c *engine.Config) { c.Peers, c.Helpers, c.Node = p, p, "heir" })
	join(x.node)
	return x, p, id
}

// TestSweepHandlerGone: the holder of an attempt is no longer listed, and no node has noticed. Attempts of
// a listed holder are not lost, even if this node has not read the members since it joined.
func TestSweepHandlerGone(t *testing.T) {
	x, p, id := inherited(t)
	x.sweeps(0)
	p.alive.Store(false)
	x.sweeps(0)
	attempts, err := x.Attempts(t.Context(), id, 0)
	if err != nil || len(attempts) != 1 || attempts[0].State.Ended() {
		t.Fatalf("attempts %+v, %v", attempts, err)
	}
	if err := x.st.Leave(t.Context(), attempts[0].Handler); err != nil {
		t.Fatal(err)
	}
	x.sweeps(1)
	x.ends(id, dag.RunSucceeded)
	x.repaired(id, engine.FaultHandlerGone)
	if got := x.attempts(id); !slices.Equal(got, []dag.AttemptState{dag.AttemptLost, dag.AttemptSucceeded}) {
		t.Errorf("attempts %v", got)
	}
	x.sweeps(0)
}

// TestSweepReportLost: the holder of an attempt lives and does not have the attempt any more, because its
// report was lost.
func TestSweepReportLost(t *testing.T) {
	x, p, id := inherited(t)
	x.later(2 * time.Minute)
	x.sweeps(0)
	if p.asked.Load() == 0 {
		t.Fatal("its holder was not asked")
	}
	p.lacks.Store(true)
	x.sweeps(1)
	x.ends(id, dag.RunSucceeded)
	x.repaired(id, engine.FaultReportLost)
	if got := x.attempts(id); !slices.Equal(got, []dag.AttemptState{dag.AttemptLost, dag.AttemptSucceeded}) {
		t.Errorf("attempts %v", got)
	}
	x.sweeps(0)
}

// slowly is a store that returns no states of runs while a gate is closed. A sweep takes at least as long.
type slowly struct {
	*memory.Store
	gate chan struct{}
}

func (s *slowly) Standing(ctx context.Context, shard dag.ShardID, after dag.RunID, limit int) ([]store.Standing, error) {
	select {
	case <-s.gate:
	case <-ctx.Done():
	}
	return s.Store.Standing(ctx, shard, after, limit)
}

// TestRecoveryIsARun: the sweep is a run of an ordinary workflow. One sweep runs at a time, and one more
// waits. Further starts return the waiting sweep. A sweep needs no slot.
func TestRecoveryIsARun(t *testing.T) {
	st := &slowly{memory.New(memory.Options{}), make(chan struct{})}
	n := start(t, st, newHands(t), naming, func(c *engine.Config) { c.Planner, c.Slots = trigger.New(st), 1 })
	n.hands.held = true
	g := graph(t, "a").Pack()
	long, _, err := n.Apply(t.Context(), engine.Definition{Namespace: "test", Name: "long", Graph: g, Def: []byte(`{"tasks":[{"name":"a"}]}`), Digest: g, User: "ada"})
	if err != nil {
		t.Fatal(err)
	}
	n.submit(long)
	held := n.hands.holding(1) // the only slot is taken
	w := n.recovery()
	ask := func() engine.Accepted {
		t.Helper()
		a, err := n.Submit(t.Context(), engine.Submission{Workflow: w, Origin: dag.OriginRecovery, User: "skein"})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	first := ask()
	eventually(t, "the first sweeps", func() bool {
		as, err := st.Attempts(t.Context(), store.AttemptQuery{Run: first.Run})
		return err == nil && len(as) == 1
	})
	second, third := ask(), ask()
	if first.Existing || second.Existing || !third.Existing || third.Run != second.Run {
		t.Fatalf("%+v, %+v, %+v", first, second, third)
	}
	if s := n.state(second.Run); s != dag.RunWaiting {
		t.Errorf("the second is %s", s)
	}
	close(st.gate)
	for _, a := range []engine.Accepted{first, second} {
		n.ends(a.Run, dag.RunSucceeded)
		v, err := n.GetRun(t.Context(), a.Run)
		if err != nil || v.Origin != dag.OriginRecovery {
			t.Fatalf("%+v, %v", v, err)
		}
		as, err := st.Attempts(t.Context(), store.AttemptQuery{Run: a.Run, Outputs: true})
		if err != nil || len(as) != 1 || !strings.Contains(string(as[0].Outputs), `"repaired":0`) {
			t.Errorf("%+v, %v", as, err)
		}
	}
	if got := n.hands.started(); len(got) != 1 {
		t.Errorf("the worker got %v", got)
	}
	if n := n.Stats().Sweeps.Load(); n != 2 {
		t.Errorf("%d sweeps", n)
	}
	n.hands.end(held[0], success())
	n.quiet()
}

// recovery applies the workflow that sweeps.
func (n *node) recovery() store.Workflow {
	n.t.Helper()
	n.queue(engine.RecoveryQueue, 1)
	def := workflow.Workflow{Namespace: engine.SystemNamespace, Name: engine.RecoveryName, Queue: engine.RecoveryQueue,
		Tasks: []workflow.Task{{Name: "sweep", Run: workflow.Run{Builtin: "recovery"}}}}
	g, err := def.Graph(0)
	if err != nil {
		n.t.Fatal(err)
	}
	text, err := json.Marshal(&def)
	if err != nil {
		n.t.Fatal(err)
	}
	w, _, err := n.Apply(n.t.Context(), engine.Definition{Namespace: def.Namespace, Name: def.Name, Graph: g.Pack(), Def: text, Digest: text, User: "skein"})
	if err != nil {
		n.t.Fatal(err)
	}
	return w
}

// started returns the attempts that were assigned to the worker.
func (h *hands) started() []attempt {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.order)
}

// TestSweepSurvivesItsNode: the sweep of a node that dies is swept by the next one.
func TestSweepSurvivesItsNode(t *testing.T) {
	st := &slowly{memory.New(memory.Options{}), make(chan struct{})}
	n := start(t, st, newHands(t), naming, func(c *engine.Config) { c.Planner = trigger.New(st) })
	w := n.recovery()
	a, err := n.Submit(t.Context(), engine.Submission{Workflow: w, Origin: dag.OriginRecovery, User: "skein"})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "it sweeps", func() bool { return n.Stats().Sweeps.Load() == 1 })
	n.close()
	close(st.gate)
	n = start(t, st, newHands(t), naming, func(c *engine.Config) { c.Planner = trigger.New(st) })
	n.ends(a.Run, dag.RunSucceeded)
	if as, err := st.Attempts(t.Context(), store.AttemptQuery{Run: a.Run}); err != nil || len(as) != 2 || as[0].State != dag.AttemptLost {
		t.Errorf("%+v, %v", as, err)
	}
	n.quiet()
}
