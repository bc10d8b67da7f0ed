package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"skein.dev/skein/internal/alert"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/storetest"
)

// releasing applies system/release, and a workflow of one task with handles.
func releasing(n *node, change func(*dag.Policy)) (main, errands store.Workflow) {
	n.t.Helper()
	g := graph(n.t, engine.ReleaseTask)
	errands, _, err := n.Apply(n.t.Context(), engine.Definition{Namespace: engine.SystemNamespace, Name: engine.ReleaseName, Graph: g.Pack(), Digest: g.Pack(), User: "skein"})
	if err != nil {
		n.t.Fatal(err)
	}
	return n.apply("main", graph(n.t, "a", func(s *dag.GraphSpec) {
		s.Tasks[0].Policy.Release = true
		change(&s.Tasks[0].Policy)
	})), errands
}

// name reports the handle of an attempt and waits until it is stored.
func (n *node) name(k attempt, handle string) {
	n.t.Helper()
	n.Report(engine.Report{Run: k.run, Task: k.task, Token: k.token, Started: 1, Handle: handle})
	eventually(n.t, "the handle is stored", func() bool { return n.handle(k).Text == handle })
}

// handle reads the handle of an attempt.
func (n *node) handle(k attempt) dag.Handle {
	n.t.Helper()
	all, err := n.store.Attempts(n.t.Context(), store.AttemptQuery{Run: k.run, Task: k.task, One: true, Outputs: true})
	if err != nil {
		n.t.Fatal(err)
	}
	for i := range all {
		if h, ok := dag.HandleOf(&all[i]); ok && all[i].Token == k.token {
			return h
		}
	}
	return dag.Handle{}
}

// TestErrandBeforeRetry: an attempt that failed leaves work outside. An errand releases it, and the next
// attempt waits for that. A success needs no errand.
func TestErrandBeforeRetry(t *testing.T) {
	st, h := openSQLite(t), newHands(t)
	h.held = true
	n := start(t, st, h)
	main, errands := releasing(n, func(p *dag.Policy) { p.Retry.Max = 1 })
	id := n.submit(main)
	k := h.holding(1)[0]
	n.name(k, "job-1")
	h.end(k, dag.Result{State: dag.AttemptFailed, Exited: true, ExitCode: 1})
	e := h.holding(1)[0]
	if e.run == id || n.handle(k).State != dag.HandleReleasing {
		t.Fatalf("attempt %v runs while the handle is %+v", e, n.handle(k))
	}
	row, err := st.Run(t.Context(), e.run)
	if err != nil || row.Workflow != errands.ID {
		t.Fatalf("the errand is %+v, %v", row, err)
	}
	var p engine.ErrandParams
	if err := json.Unmarshal(row.Params, &p); err != nil || p != (engine.ErrandParams{Run: id, Name: "a", Token: k.token, Handle: "job-1"}) {
		t.Fatalf("the errand got %s, %v", row.Params, err)
	}
	for _, ctx := range []context.Context{t.Context(), inspect.FromRows(t.Context())} {
		for _, task := range []string{"", "a"} {
			x, err := n.Explain(ctx, id, task)
			if err != nil || len(x.Reasons) != 1 || x.Reasons[0].Code != "wait_release" || x.Reasons[0].Holder != e.run.String() {
				t.Errorf("task %q waits for %+v, %v", task, x.Reasons, err)
			}
		}
	}
	n.sound()
	h.end(e, dag.Result{State: dag.AttemptSucceeded, Exited: true})
	again := h.holding(1)[0]
	if again.run != id || n.handle(k) != (dag.Handle{}) {
		t.Fatalf("%v runs, the handle is %+v", again, n.handle(k))
	}
	n.name(again, "job-2")
	h.end(again, dag.Result{State: dag.AttemptSucceeded, Exited: true, Outputs: []byte(`{"rows":1}`)})
	n.ends(id, dag.RunSucceeded)
	if v, err := n.Task(t.Context(), id, "a"); err != nil || string(v.Outputs) != `{"rows":1}` {
		t.Fatalf("outputs %s, %v", v.Outputs, err)
	}
	if len(runsOf(t, st, errands)) != 1 {
		t.Error("a success had an errand")
	}
	n.quiet()
}

// TestLostIsAdopted: the handle of a lost attempt waits for the attempt that adopts it. A stop of the run
// releases it, once, and the run ends after that.
func TestLostIsAdopted(t *testing.T) {
	st, h := openSQLite(t), newHands(t)
	h.held = true
	n := start(t, st, h)
	main, errands := releasing(n, func(p *dag.Policy) { p.Adopts = true })
	id := n.submit(main)
	k := h.holding(1)[0]
	n.name(k, "job")
	n.Report(engine.Report{Run: k.run, Task: k.task, Token: k.token, Lost: "its keeper died"})
	eventually(t, "the next attempt runs", func() bool { return h.holding(1)[len(h.holding(1))-1].token == k.token+1 })
	if got := n.handle(k); got.State != dag.HandleHeld {
		t.Fatalf("the handle is %+v", got)
	}
	if len(runsOf(t, st, errands)) != 0 {
		t.Fatal("a handle was released that the next attempt adopts")
	}
	next := attempt{id, 0, k.token + 1}
	n.name(next, "job")
	if got := n.handle(k); got.Text != "" {
		t.Errorf("the earlier attempt still has the handle %+v", got)
	}
	if err := n.Do(t.Context(), engine.Command{Run: id, Intent: dag.IntentStop}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the errand runs", func() bool { return len(runsOf(t, st, errands)) == 1 })
	if n.state(id).Terminal() {
		t.Error("the run ended before its handle was released")
	}
	n.sound()
	eventually(t, "the errand has a slot", func() bool { l := h.holding(1); return l[len(l)-1].run != id })
	l := h.holding(1)
	h.end(l[len(l)-1], dag.Result{State: dag.AttemptSucceeded, Exited: true})
	n.ends(id, dag.RunStopped)
	n.quiet()
}

// TestOrphans: a run does not wait for ever for a release. A handle that was not released is an orphan until
// its errand succeeds.
func TestOrphans(t *testing.T) {
	st, h := openSQLite(t), newHands(t)
	h.held = true
	n := start(t, st, h, func(c *engine.Config) { c.Rules = alert.Rules })
	main, errands := releasing(n, func(p *dag.Policy) { p.ReleaseTimeout = 50 * time.Millisecond })
	watch := engine.Definition{Namespace: main.Namespace, Name: main.Name, Def: watched(`"orphan"`), Digest: []byte("watched"), User: "ada",
		Graph: graph(t, "a", func(s *dag.GraphSpec) {
			s.Tasks[0].Policy.Release, s.Tasks[0].Policy.ReleaseTimeout = true, 50*time.Millisecond
		}).Pack()}
	main, _, err := n.Apply(t.Context(), watch)
	if err != nil {
		t.Fatal(err)
	}
	id := n.submit(main)
	k := h.holding(1)[0]
	n.name(k, "job")
	h.end(k, dag.Result{State: dag.AttemptFailed, Exited: true, ExitCode: 1})
	n.ends(id, dag.RunFailed)
	if got := n.handle(k); got.State != dag.HandleOrphan || got.Why == "" {
		t.Fatalf("the handle is %+v", got)
	}
	wantIncidents(t, st, "open 1"+toldOpened)
	row, err := st.Run(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	h.end(h.holding(1)[0], dag.Result{State: dag.AttemptSucceeded, Exited: true})
	n.ends(runsOf(t, st, errands)[0].ID, dag.RunSucceeded)
	eventually(t, "the orphan is gone", func() bool { return n.handle(k) == dag.Handle{} })
	if now, err := st.Run(t.Context(), id); err != nil || now.FinishedAt != row.FinishedAt || now.State != row.State {
		t.Errorf("the ended run has changed: %+v, %v", now, err)
	}
	n.quiet()
}

// orphaned makes a run whose handle is an orphan. It returns the attempt of the errand, which still runs.
func orphaned(n *node, h *hands) (k, errand attempt, errands store.Workflow) {
	n.t.Helper()
	main, errands := releasing(n, func(p *dag.Policy) { p.ReleaseTimeout = time.Millisecond })
	id := n.submit(main)
	k = h.holding(1)[0]
	n.name(k, "job")
	h.end(k, dag.Result{State: dag.AttemptFailed, Exited: true, ExitCode: 1})
	n.ends(id, dag.RunFailed)
	return k, h.holding(1)[0], errands
}

// TestOrphanIsDismissed: an operator removes an orphan from an ended run. Its errand is stopped, and the run
// stays as it was.
func TestOrphanIsDismissed(t *testing.T) {
	st, h := openSQLite(t), newHands(t)
	h.held = true
	n := start(t, st, h)
	k, errand, _ := orphaned(n, h)
	c := engine.OrphanCommand{Run: k.run, Task: "a", Dismiss: true, Actor: "ada", Reason: "it has ended"}
	row, err := st.Run(t.Context(), k.run)
	if err != nil {
		t.Fatal(err)
	}
	c.Token = k.token + 1
	if err := engine.OnOrphans(t.Context(), n.Engine, c); !errors.Is(err, errkind.ErrConflict) {
		t.Errorf("an attempt without an orphan: %v", err)
	}
	c.Token = 0
	if err := engine.OnOrphans(t.Context(), n.Engine, c); err != nil {
		t.Fatal(err)
	}
	if got := n.handle(k); got != (dag.Handle{}) {
		t.Errorf("the handle is %+v", got)
	}
	if err := engine.OnOrphans(t.Context(), n.Engine, c); !errors.Is(err, errkind.ErrConflict) {
		t.Errorf("a second dismiss: %v", err)
	}
	if now, err := st.Run(t.Context(), k.run); err != nil || now.FinishedAt != row.FinishedAt || now.State != row.State {
		t.Errorf("the ended run has changed: %+v, %v", now, err)
	}
	events, err := n.Events(t.Context(), k.run, 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	last := events[len(events)-1].Records
	if r := last[len(last)-1]; r.Kind != dag.RecReleased || r.Actor != "ada" || r.Reason != "it has ended" || r.Text != "job" {
		t.Errorf("the history ends with %+v", r)
	}
	n.ends(errand.run, dag.RunStopped)
	n.quiet()
}

// TestOrphanIsReleasedAgain: an errand that has ended in vain is recovered, and removes the orphan when it
// succeeds.
func TestOrphanIsReleasedAgain(t *testing.T) {
	st, h := openSQLite(t), newHands(t)
	h.held = true
	n := start(t, st, h)
	k, errand, errands := orphaned(n, h)
	c := engine.OrphanCommand{Run: k.run, Task: "a", Actor: "ada"}
	if err := engine.OnOrphans(t.Context(), n.Engine, c); err != nil { // the errand still runs
		t.Fatal(err)
	}
	if err := n.Do(t.Context(), engine.Command{Run: errand.run, Intent: dag.IntentStop}); err != nil {
		t.Fatal(err)
	}
	n.ends(errand.run, dag.RunStopped)
	if got := n.handle(k); got.State != dag.HandleOrphan {
		t.Fatalf("the handle is %+v", got)
	}
	if err := engine.OnOrphans(t.Context(), n.Engine, c); err != nil {
		t.Fatal(err)
	}
	again := h.holding(1)[0]
	if again.run != errand.run || again.token <= errand.token {
		t.Fatalf("attempt %v follows %v", again, errand)
	}
	h.end(again, dag.Result{State: dag.AttemptSucceeded, Exited: true})
	n.ends(errand.run, dag.RunSucceeded)
	eventually(t, "the orphan is gone", func() bool { return n.handle(k) == dag.Handle{} })
	if len(runsOf(t, st, errands)) != 1 {
		t.Error("the release has a second run")
	}
	n.quiet()
}

// guilty refuses the transactions that change the attempts of a run, so the run is quarantined.
type guilty struct{ run atomic.Pointer[dag.RunID] }

func (g *guilty) next(b *store.Batch) storetest.Fault {
	id := g.run.Load()
	if id != nil && slices.ContainsFunc(b.AttemptUpdates, func(a dag.AttemptUpdate) bool { return a.Run == *id }) {
		return storetest.Refused
	}
	return storetest.NoFault
}

// quarantined makes a run with a handle, which is quarantined.
func quarantined(n *node, h *hands, g *guilty) (k attempt, errands store.Workflow) {
	n.t.Helper()
	main, errands := releasing(n, func(*dag.Policy) {})
	id := n.submit(main)
	k = h.holding(1)[0]
	n.name(k, "job")
	g.run.Store(&id)
	h.end(k, dag.Result{State: dag.AttemptFailed, Exited: true, ExitCode: 1})
	return k, errands
}

// TestQuarantinedHandle: a run with a handle is quarantined. Its history names the handle, the counter of
// orphans counts it, and an errand releases it. A person can dismiss it.
func TestQuarantinedHandle(t *testing.T) {
	var g guilty
	h := newHands(t)
	h.held = true
	n := start(t, &storetest.Faulty{Store: openMemory(t), Next: g.next}, h)
	k, errands := quarantined(n, h, &g)
	n.ends(k.run, dag.RunFailed)
	events, err := n.Events(t.Context(), k.run, 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	last := events[len(events)-1].Records
	if len(last) != 2 || last[0].Kind != dag.RecOrphan || last[0].Text != "job" || n.Stats().Orphans.Load() != 1 {
		t.Errorf("%d orphans, the history ends with %+v", n.Stats().Orphans.Load(), last)
	}
	errand := h.holding(1)[0]
	row, err := n.store.Run(t.Context(), errand.run)
	var p engine.ErrandParams
	if err != nil || row.Workflow != errands.ID || json.Unmarshal(row.Params, &p) != nil || p != (engine.ErrandParams{Run: k.run, Name: "a", Token: k.token, Handle: "job"}) {
		t.Fatalf("the errand is %+v with %s, %v", row, row.Params, err)
	}
	g.run.Store(nil)
	c := engine.OrphanCommand{Run: k.run, Task: "a", Actor: "ada"}
	if err := engine.OnOrphans(t.Context(), n.Engine, c); err != nil { // the errand still runs
		t.Fatal(err)
	}
	if err := n.Do(t.Context(), engine.Command{Run: errand.run, Intent: dag.IntentStop}); err != nil {
		t.Fatal(err)
	}
	n.ends(errand.run, dag.RunStopped)
	if err := engine.OnOrphans(t.Context(), n.Engine, c); err != nil {
		t.Fatal(err)
	}
	if again := h.holding(1)[0]; again.run != errand.run {
		t.Fatalf("%v follows the stopped release", again)
	}
	c.Dismiss, c.Reason = true, "ended by hand"
	if err := engine.OnOrphans(t.Context(), n.Engine, c); err != nil {
		t.Fatal(err)
	}
	if got := n.handle(k); got != (dag.Handle{}) {
		t.Errorf("the handle is %+v", got)
	}
	if err := engine.OnOrphans(t.Context(), n.Engine, c); !errors.Is(err, errkind.ErrConflict) {
		t.Errorf("a second dismiss: %v", err)
	}
	n.ends(errand.run, dag.RunStopped)
	n.quiet()
}

// TestQuarantinedHandleAlerts: a rule with orphan opens an incident for the handles of a quarantined run, in
// the transaction of the quarantine. A rule with orphan and failed opens one incident for both.
func TestQuarantinedHandleAlerts(t *testing.T) {
	for on, want := range map[string][2]alert.Event{`"orphan"`: {alert.Orphan, alert.Orphan}, `"orphan","failed"`: {alert.Orphan, alert.Failed}, `"failed"`: {alert.Failed, alert.Failed}} {
		var g guilty
		st, h := openSQLite(t), newHands(t)
		h.held = true
		n := start(t, &storetest.Faulty{Store: st, Next: g.next}, h, func(c *engine.Config) { c.Rules = alert.Rules })
		main, _ := releasing(n, func(*dag.Policy) {})
		tasks := graph(t, "a", func(s *dag.GraphSpec) { s.Tasks[0].Policy.Release = true }).Pack()
		main, _, err := n.Apply(t.Context(), engine.Definition{Namespace: main.Namespace, Name: main.Name, Def: watched(on), Digest: []byte("watched"), User: "ada", Graph: tasks})
		if err != nil {
			t.Fatal(err)
		}
		id := n.submit(main)
		k := h.holding(1)[0]
		n.name(k, "job")
		g.run.Store(&id)
		h.end(k, dag.Result{State: dag.AttemptFailed, Exited: true, ExitCode: 1})
		n.ends(id, dag.RunFailed)
		wantIncidents(t, st, "open 1"+toldOpened)
		all, err := st.OpenIncidents(t.Context(), main.Shard, uuid.UUID{}, 10)
		if err != nil || len(all) != 1 {
			t.Fatalf("%+v, %v", all, err)
		}
		is, err := alert.Read(all[0])
		if err != nil || is.Detail.First.Event != want[0] || is.Detail.Last.Event != want[1] {
			t.Errorf("on %s: %+v, %v", on, is, err)
		}
		if want[0] == alert.Orphan && !strings.Contains(is.Detail.First.Message, "job:") {
			t.Errorf("on %s: %s", on, is.Detail.First.Message)
		}
		g.run.Store(nil)
		if err := n.Do(t.Context(), engine.Command{Run: h.holding(1)[0].run, Intent: dag.IntentStop}); err != nil {
			t.Fatal(err)
		}
		n.quiet()
	}
}

// TestQuarantinedHandleSurvives: the process dies at any transaction of a quarantine. The next process starts
// the errand of the handle.
func TestQuarantinedHandleSurvives(t *testing.T) {
	for _, before := range []bool{true, false} {
		var g guilty
		var dead atomic.Bool
		st := openMemory(t)
		h := newHands(t)
		h.held = true
		n := start(t, &storetest.Faulty{Store: st, Next: func(b *store.Batch) storetest.Fault {
			switch {
			case dead.Load(), before && len(b.Messages) > 0:
				dead.Store(true)
				return storetest.Unavailable
			case len(b.Messages) > 0:
				dead.Store(true)
				return storetest.NoFault
			}
			return g.next(b)
		}}, h)
		k, errands := quarantined(n, h, &g)
		eventually(t, "the process is dead", dead.Load)
		n.close()
		if all := runsOf(t, st, errands); len(all) != 0 {
			t.Fatalf("before %v: %d errands began", before, len(all))
		}
		h = newHands(t)
		h.held = true
		n = start(t, &storetest.Faulty{Store: st, Next: g.next}, h)
		n.ends(k.run, dag.RunFailed)
		if e := h.holding(1)[0]; len(runsOf(t, st, errands)) != 1 || e.run != runsOf(t, st, errands)[0].ID {
			t.Errorf("before %v: %v runs", before, e)
		}
	}
}

// TestOrphanHasAnErrand: while the workflow of errands cannot be made, a handle is no orphan, because the
// list of orphans shows errands. The next process makes the workflow, and starts the errand.
func TestOrphanHasAnErrand(t *testing.T) {
	st, h := openSQLite(t), newHands(t)
	h.held = true
	var looks atomic.Int64
	n := start(t, st, h, func(c *engine.Config) {
		c.Release = func(context.Context) error {
			looks.Add(1)
			return errors.New("the shard is away")
		}
	})
	main := n.apply("main", graph(t, "a", func(s *dag.GraphSpec) {
		s.Tasks[0].Policy.Release, s.Tasks[0].Policy.ReleaseTimeout = true, time.Millisecond
	}))
	id := n.submit(main)
	k := h.holding(1)[0]
	n.name(k, "job")
	h.end(k, dag.Result{State: dag.AttemptFailed, Exited: true, ExitCode: 1})
	eventually(t, "the errand was tried", func() bool { return looks.Load() >= 2 })
	if got := n.handle(k); got.State != dag.HandleReleasing || n.state(id).Terminal() {
		t.Fatalf("the handle is %+v, the run %v", got, n.state(id))
	}
	n.close()
	h = newHands(t)
	h.held = true
	n = start(t, st, h)
	_, errands := releasing(n, func(*dag.Policy) {})
	n.ends(id, dag.RunFailed)
	if got := n.handle(k); got.State != dag.HandleOrphan {
		t.Fatalf("the handle is %+v", got)
	}
	h.end(h.holding(1)[0], dag.Result{State: dag.AttemptSucceeded, Exited: true})
	n.ends(runsOf(t, st, errands)[0].ID, dag.RunSucceeded)
	eventually(t, "the orphan is gone", func() bool { return n.handle(k) == dag.Handle{} })
	n.quiet()
}

// TestMissingReleaseIsLoggedOnce: if several errands cannot be started for the same reason, the log has one
// line. Each new reason adds a line.
func TestMissingReleaseIsLoggedOnce(t *testing.T) {
	var said strings.Builder
	var why atomic.Value
	var looks atomic.Int64
	why.Store("the shard is away")
	h := newHands(t)
	h.held = true
	n := start(t, openSQLite(t), h, func(c *engine.Config) {
		c.Log = slog.New(slog.NewTextHandler(&said, nil))
		c.Release = func(context.Context) error {
			looks.Add(1)
			return errors.New(why.Load().(string))
		}
	})
	main := n.apply("main", graph(t, "a", func(s *dag.GraphSpec) { s.Tasks[0].Policy.Release = true }))
	for range 3 {
		n.submit(main)
	}
	for i, k := range h.holding(3) {
		n.name(k, fmt.Sprint("job", i))
		h.end(k, dag.Result{State: dag.AttemptFailed, Exited: true, ExitCode: 1})
	}
	eventually(t, "each errand was tried twice", func() bool { return looks.Load() >= 6 })
	why.Store("the database is away")
	before := looks.Load()
	eventually(t, "each errand was tried again", func() bool { return looks.Load() >= before+6 })
	n.close()
	for _, cause := range []string{"the shard is away", "the database is away"} { // an errand may report an old cause late
		if lines := strings.Count(said.String(), cause); lines < 1 || lines > 2 {
			t.Errorf("%s: %d lines\n%s", cause, lines, said.String())
		}
	}
}
