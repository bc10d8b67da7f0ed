package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
)

// caller is a Preparer for graphs whose calls are named after the workflow that they call.
type caller struct{ st store.Store }

func (c caller) Prepare(ctx context.Context, q engine.PrepareQuery) (engine.Prepared, error) {
	name, _, _ := strings.Cut(q.Graph.Name(q.Task), ".") // for an instance, the name of its foreach task
	if q.Graph.Kind(q.Task) == dag.Wait {
		return engine.Prepared{Until: q.Row.Created}, nil
	}
	wf, err := c.st.Workflow(ctx, "test", name)
	if err != nil {
		return engine.Prepared{}, fmt.Errorf("there is no workflow %s", name)
	}
	return engine.Prepared{Workflow: wf.ID, Version: wf.Version, Name: "test/" + name, Priority: dag.Medium}, nil
}

func (c caller) Outputs(_ context.Context, _ engine.PrepareQuery, last [][]byte) ([]byte, error) {
	if len(last) == 0 {
		return nil, nil
	}
	return last[len(last)-1], nil
}

func calls(c *engine.Config) { c.Preparer = caller{c.Store} }

// logical makes the tasks with these names logical ones.
func logical(kinds map[string]*dag.Logic) func(*dag.GraphSpec) {
	return func(s *dag.GraphSpec) {
		for i := range s.Tasks {
			s.Tasks[i].Logic = kinds[s.Tasks[i].Name]
		}
	}
}

var call = &dag.Logic{Kind: dag.Call}

// runsOf lists the runs of a workflow, newest first.
func runsOf(t testing.TB, st store.Store, w store.Workflow) []dag.RunRow {
	t.Helper()
	page, err := st.Runs(t.Context(), store.RunQuery{Workflow: w.ID, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	return page.Runs
}

// nested applies three workflows: main calls mid, and mid calls leaf.
func nested(n *node) (top, mid, leaf store.Workflow) {
	leaf = n.apply("leaf", graph(n.t, "x; y: x"))
	mid = n.apply("mid", graph(n.t, "leaf; z: leaf", logical(map[string]*dag.Logic{"leaf": call})))
	return n.apply("main", graph(n.t, "a; mid: a; w: mid", logical(map[string]*dag.Logic{"mid": call, "w": {Kind: dag.Wait}}))), mid, leaf
}

// TestCallsOnOneSlot: runs that wait for the runs that they have called hold no slot, and their explanations
// say so.
func TestCallsOnOneSlot(t *testing.T) {
	st := openMemory(t)
	h := newHands(t)
	h.held = true
	n := start(t, st, h, calls, func(c *engine.Config) { c.Slots = 1 })
	top, mid, leaf := nested(n)
	id := n.submit(top)
	h.end(h.holding(1)[0], dag.Result{State: dag.AttemptSucceeded})
	k := h.holding(1)[0]
	eventually(t, "main and mid are suspended", func() bool {
		return n.state(id) == dag.RunSuspended && len(runsOf(t, st, mid)) == 1 && n.state(runsOf(t, st, mid)[0].ID) == dag.RunSuspended
	})
	n.sound()
	child := runsOf(t, st, leaf)[0]
	if p := child.Parent(); p == nil || len(p.Line) != 2 || p.Line[0].Run != id || child.Origin != dag.OriginParent || k.run != child.ID {
		t.Fatalf("the leaf's parent is %+v", p)
	}
	x, err := n.Explain(t.Context(), id, "mid")
	if err != nil || len(x.Reasons) != 1 || x.Reasons[0].Kind != "call" || x.Reasons[0].Holder != "run "+runsOf(t, st, mid)[0].ID.String() {
		t.Fatalf("%+v %v", x, err)
	}
	h.end(k, dag.Result{State: dag.AttemptSucceeded})
	h.end(h.holding(1)[0], dag.Result{State: dag.AttemptSucceeded, Outputs: []byte(`{"deep":1}`)}) // leaf's y
	h.end(h.holding(1)[0], dag.Result{State: dag.AttemptSucceeded})                                // mid's z
	n.ends(id, dag.RunSucceeded)
	v, err := n.Task(t.Context(), runsOf(t, st, mid)[0].ID, "leaf")
	if err != nil || string(v.Outputs) != `{"deep":1}` {
		t.Fatalf("outputs %s %v", v.Outputs, err)
	}
	n.quiet()
}

// TestCallsStopAndRecover: a stop reaches the runs of every level and waits for their ends; a recover
// continues the existing runs.
func TestCallsStopAndRecover(t *testing.T) {
	st := openMemory(t)
	h := newHands(t)
	h.held = true
	n := start(t, st, h, calls)
	top, mid, leaf := nested(n)
	id := n.submit(top)
	h.end(h.holding(1)[0], dag.Result{State: dag.AttemptSucceeded})
	h.holding(1) // the leaf's x
	if err := n.Do(t.Context(), engine.Command{Run: id, Intent: dag.IntentPause}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the leaf is told to pause", func() bool { return runsOf(t, st, leaf)[0].Intent == dag.IntentPause })
	if err := n.Do(t.Context(), engine.Command{Run: id, Intent: dag.IntentStop}); err != nil {
		t.Fatal(err)
	}
	n.ends(id, dag.RunStopped)
	n.ends(runsOf(t, st, leaf)[0].ID, dag.RunStopped)
	n.quiet()
	h.held = false
	if _, err := n.Recovered(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	n.ends(id, dag.RunSucceeded)
	n.quiet()
	for _, w := range []store.Workflow{top, mid, leaf} {
		if rows := runsOf(t, st, w); len(rows) != 1 || rows[0].Generation != 2 || rows[0].State != dag.RunSucceeded {
			t.Fatalf("%s has %d runs: %+v", w.Name, len(rows), rows)
		}
	}
}

// TestCallsThatCannotBe: a call of an unknown workflow, and a cycle of calls, fail the task with a message
// that says why.
func TestCallsThatCannotBe(t *testing.T) {
	st := openMemory(t)
	n := start(t, st, newHands(t), calls)
	ring := n.apply("ring", graph(t, "ring", logical(map[string]*dag.Logic{"ring": call})))
	lost := n.apply("lost", graph(t, "nobody", logical(map[string]*dag.Logic{"nobody": call})))
	for wf, want := range map[*store.Workflow]string{&ring: "calls itself", &lost: "no workflow nobody"} {
		id := n.submit(*wf)
		n.ends(id, dag.RunFailed)
		if v, err := n.GetRun(t.Context(), id); err != nil || !strings.Contains(v.Message, want) {
			t.Errorf("%s: %q %v", wf.Name, v.Message, err)
		}
	}
	n.quiet()
}

// TestDecide: an approval waits for the decision of a person, also over a restart. Only one decision takes
// effect.
func TestDecide(t *testing.T) {
	st := openMemory(t)
	n := start(t, st, newHands(t), calls)
	wf := n.apply("w", graph(t, "ok; b: ok", logical(map[string]*dag.Logic{"ok": {Kind: dag.Approval}}), func(s *dag.GraphSpec) { s.Tasks[0].Policy.Timeout = time.Hour }))
	id := n.submit(wf)
	eventually(t, "it is suspended", func() bool { return n.state(id) == dag.RunSuspended })
	n.sound()
	n.close()
	n = start(t, st, newHands(t), calls)
	n.sound()
	d := engine.Decision{Run: id, Task: "ok", Actor: "ada", Comment: "fine", Outputs: func(*dag.RunRow) ([]byte, error) { return []byte(`{}`), nil }, May: func(*dag.RunRow) error { return nil }}
	if err := n.Decide(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	n.ends(id, dag.RunSucceeded)
	if err := n.Decide(t.Context(), d); err == nil || !strings.Contains(err.Error(), "succeeded") && !strings.Contains(err.Error(), "ended") {
		t.Errorf("decided twice: %v", err)
	}
	id = n.submit(wf)
	d.Run, d.Reject = id, true
	eventually(t, "it waits again", func() bool { return n.state(id) == dag.RunSuspended })
	if err := n.Decide(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	n.ends(id, dag.RunFailed)
	n.quiet()
}
