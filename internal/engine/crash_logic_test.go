package engine_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// doomed is a workload whose process dies at each of its commits in turn, before and after the commit is
// written. The next process must end the workload as if there had been no crash.
type doomed struct {
	least    int // the least number of commits of a meaningful test
	preparer func(st store.Store) engine.Preparer
	result   func(a engine.Assignment) dag.Result
	build    func(n *node) store.Workflow // returns the workflow; called before the first crash
	want     dag.RunState
	check    func(t *testing.T, n *node, id dag.RunID)
}

// told is a Preparer that needs the engine that it works for.
type told interface{ tell(e *engine.Engine) }

func (d *doomed) life(t *testing.T, st store.Store, past *hands) *node {
	h := newHands(t)
	h.result, h.past = d.result, past
	p := d.preparer(st)
	n := start(t, st, h, func(c *engine.Config) { c.Preparer = p })
	if p, ok := p.(told); ok {
		p.tell(n.Engine)
	}
	return n
}

func (d *doomed) everywhere(t *testing.T) {
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprintf("after=%v", after), func(t *testing.T) {
			t.Parallel()
			atEveryCommit(t, d.least, func(k int) bool { return d.dies(t, k, after) })
		})
	}
}

// dies runs the workload until it is done or the process dies at commit k. Then the next process completes
// the workload.
func (d *doomed) dies(t *testing.T, k int, after bool) (died bool) {
	t.Helper()
	st := openMemory(t)
	first := d.life(t, st, nil)
	wf := d.build(first)
	first.close()
	m := newMortal(st, k, after)
	n := d.life(t, m, nil)
	ctx, cancel := context.WithCancel(t.Context())
	stop := make(chan struct{})
	go func() {
		defer close(stop)
		select {
		case <-m.died:
			cancel()
		case <-ctx.Done():
		}
	}()
	keyed := func(s *engine.Submission) { s.Key = "k" }
	s := submission(wf)
	keyed(&s)
	_, err := n.Submit(ctx, s)
	cancel()
	<-stop
	if died = err != nil; !died {
		eventually(t, "it is done or dead", func() bool {
			select {
			case <-m.died:
				died = true
				return true
			default:
				return n.Idle() && n.Free() == n.slots && n.Waiting() == 0
			}
		})
	}
	past := n.hands
	n.close()
	n = d.life(t, st, past)
	n.sound() // its memory equals a fresh load
	id := n.submit(wf, keyed)
	n.ends(id, d.want)
	n.quiet()
	d.check(t, n, id)
	n.close()
	return died
}

// once requires that each workflow has one run, of one generation, which has succeeded.
func once(t *testing.T, st store.Store, all ...store.Workflow) {
	t.Helper()
	for _, w := range all {
		if rows := runsOf(t, st, w); len(rows) != 1 || rows[0].State != dag.RunSucceeded || rows[0].Generation != 1 {
			t.Errorf("%s has %d runs: %+v", w.Name, len(rows), rows)
		}
	}
}

// TestCallsCrashAtEveryCommit: whenever the process dies, every level has one run, and all end.
func TestCallsCrashAtEveryCommit(t *testing.T) {
	d := &doomed{least: 8, preparer: func(st store.Store) engine.Preparer { return caller{st} }, want: dag.RunSucceeded}
	d.build = func(n *node) store.Workflow {
		top, _, _ := nested(n)
		return top
	}
	d.check = func(t *testing.T, n *node, _ dag.RunID) {
		for _, name := range []string{"main", "mid", "leaf"} {
			once(t, n.store, n.named(name))
		}
	}
	d.everywhere(t)
}

// named returns a workflow that was applied.
func (n *node) named(name string) store.Workflow {
	n.t.Helper()
	w, err := n.store.Workflow(context.Background(), "test", name)
	if err != nil {
		n.t.Fatal(err)
	}
	return w
}

// lists finds items for the foreach tasks by their names.
type lists struct {
	caller
	items map[string]*dag.Items
}

func (l lists) Prepare(ctx context.Context, q engine.PrepareQuery) (engine.Prepared, error) {
	if q.Graph.Kind(q.Task) != dag.Foreach {
		return l.caller.Prepare(ctx, q)
	}
	return engine.Prepared{Items: l.items[q.Graph.Name(q.Task)]}, nil
}

// TestForeachCrashesAtEveryCommit: a run has several foreach tasks. One reads its list, and one of its
// instances is retried. One is over two lists, and runs one instance at a time. One is over an empty list.
// The instances of one fail, and the failures are handled. Whenever the process dies, each instance exists
// once, and the run ends as without a crash.
func TestForeachCrashesAtEveryCommit(t *testing.T) {
	one, two := []byte("1"), []byte("2")
	items := map[string]*dag.Items{"each": {Values: [][]byte{one, two}}, "none": {},
		"pair": {Names: []string{"0.0", "0.1", "1.0"}, Values: [][]byte{one, two, one}}, "hurt": {Values: [][]byte{one, two}}}
	d := &doomed{least: 10, preparer: func(st store.Store) engine.Preparer { return lists{caller{st}, items} }, want: dag.RunFailed}
	d.result = func(a engine.Assignment) dag.Result {
		switch {
		case a.Name == "hurt.1", a.Name == "each.1" && a.Token == 1:
			return dag.Result{State: dag.AttemptFailed, Cause: dag.CauseExit, Exited: true, ExitCode: 1}
		}
		return dag.Result{State: dag.AttemptSucceeded, Exited: true, Outputs: []byte(`{"of":"` + a.Name + `"}`)}
	}
	d.build = func(n *node) store.Workflow {
		kinds := map[string]*dag.Logic{"each": {Kind: dag.Foreach, Collect: true}, "none": {Kind: dag.Foreach, Collect: true},
			"pair": {Kind: dag.Foreach, Parallel: 1}, "hurt": {Kind: dag.Foreach}}
		return n.apply("w", graph(n.t, "a; each: a; none: a; pair: each; hurt: a; z: pair none; tidy: hurt", logical(kinds), func(s *dag.GraphSpec) {
			for i := range s.Tasks {
				switch s.Tasks[i].Name {
				case "each":
					s.Tasks[i].Policy.Retry.Max = 2
				case "tidy":
					s.Tasks[i].If = cond("always")
				}
			}
		}))
	}
	want := map[string]dag.TaskState{"a": dag.Succeeded, "each": dag.Succeeded, "each.0": dag.Succeeded, "each.1": dag.Succeeded, "none": dag.Succeeded,
		"pair": dag.Succeeded, "pair.0.0": dag.Succeeded, "pair.0.1": dag.Succeeded, "pair.1.0": dag.Succeeded, "hurt": dag.Failed,
		"hurt.0": dag.Succeeded, "hurt.1": dag.Failed, "z": dag.Succeeded, "tidy": dag.Succeeded}
	d.check = func(t *testing.T, n *node, id dag.RunID) {
		views, all, err := n.Tasks(t.Context(), id, 0, -1)
		if err != nil || all != len(want) || len(views) != all {
			t.Errorf("%d tasks, want %d: %v", all, len(want), err)
		}
		for i := range views {
			if v := &views[i]; v.State != want[v.Name] {
				t.Errorf("%s is %s, want %s", v.Name, v.State, want[v.Name])
			}
		}
		for name, list := range map[string]string{"each": `[{"of":"each.0"},{"of":"each.1"}]`, "none": "[]", "pair": ""} {
			if v, err := n.Task(t.Context(), id, name); err != nil || string(v.Outputs) != list {
				t.Errorf("%s left %s, want %s: %v", name, v.Outputs, list, err)
			}
		}
	}
	d.everywhere(t)
}

// TestForeachOfCallsCrashesAtEveryCommit: the instances are calls, two at a time. Whenever the process
// dies, each call has one run of its own, and the output of the foreach is the list of the outputs of these
// runs.
func TestForeachOfCallsCrashesAtEveryCommit(t *testing.T) {
	items := map[string]*dag.Items{"leaf": {Values: [][]byte{[]byte("1"), []byte("2"), []byte("3")}}}
	d := &doomed{least: 10, preparer: func(st store.Store) engine.Preparer { return lists{caller{st}, items} }, want: dag.RunSucceeded}
	d.result = func(engine.Assignment) dag.Result {
		return dag.Result{State: dag.AttemptSucceeded, Exited: true, Outputs: []byte(`{"n":1}`)}
	}
	d.build = func(n *node) store.Workflow {
		n.apply("leaf", graph(n.t, "x"))
		kinds := map[string]*dag.Logic{"leaf": {Kind: dag.Foreach, Parallel: 2, Collect: true, Each: call}}
		return n.apply("w", graph(n.t, "leaf; z: leaf", logical(kinds)))
	}
	d.check = func(t *testing.T, n *node, id dag.RunID) {
		rows, of := runsOf(t, n.store, n.named("leaf")), map[dag.TaskID]bool{}
		for i := range rows {
			if r := &rows[i]; r.State != dag.RunSucceeded || r.Generation != 1 || r.Parent() == nil || of[r.Parent().Task] {
				t.Errorf("run %s of an instance: %+v", r.ID, r)
			} else {
				of[r.Parent().Task] = true
			}
		}
		if len(of) != 3 {
			t.Errorf("%d instances have a run, want 3", len(of))
		}
		if v, err := n.Task(t.Context(), id, "leaf"); err != nil || string(v.Outputs) != `[{"n":1},{"n":1},{"n":1}]` {
			t.Errorf("it left %s: %v", v.Outputs, err)
		}
	}
	d.everywhere(t)
}

// maker makes the workflow of a task that consists of tasks, as package dispatch does: it applies the
// workflow in the shard of the run, and starts exactly that version.
type maker struct {
	caller
	e    atomic.Pointer[engine.Engine]
	list *dag.Graph
}

func (m *maker) tell(e *engine.Engine) { m.e.Store(e) }

func (m *maker) Prepare(ctx context.Context, q engine.PrepareQuery) (engine.Prepared, error) {
	e := m.e.Load()
	if e == nil {
		return engine.Prepared{}, errkind.ErrUnavailable
	}
	if q.Graph.Name(q.Task) != "made" {
		return m.caller.Prepare(ctx, q)
	}
	g := m.list.Pack()
	w, _, err := e.Apply(ctx, engine.Definition{Namespace: "test", Name: "made", Graph: g, Digest: g, User: "ada", Beside: &q.Row.Shard})
	if err != nil {
		return engine.Prepared{}, fmt.Errorf("%w: %w", errkind.ErrUnavailable, err)
	}
	return engine.Prepared{Workflow: w.ID, Version: w.Version, Exact: true, Name: "test/made", Priority: q.Row.Priority}, nil
}

// TestMadeCrashesAtEveryCommit: a task consists of emitted tasks. The process also dies between the apply
// of the made workflow and the start of its run. Each time there is one version and one run of it, and the
// tasks that need it continue.
func TestMadeCrashesAtEveryCommit(t *testing.T) {
	list := graph(t, "x; y: x; leaf: y", logical(map[string]*dag.Logic{"leaf": call}))
	d := &doomed{least: 9, preparer: func(st store.Store) engine.Preparer { return &maker{caller: caller{st}, list: list} }, want: dag.RunSucceeded}
	d.build = func(n *node) store.Workflow {
		n.apply("leaf", graph(n.t, "p"))
		return n.apply("main", graph(n.t, "a; made: a; z: made", logical(map[string]*dag.Logic{"made": call})))
	}
	d.check = func(t *testing.T, n *node, _ dag.RunID) {
		made := n.named("made")
		if made.Version != 1 {
			t.Errorf("the workflow that is made has %d versions", made.Version)
		}
		once(t, n.store, n.named("main"), made, n.named("leaf"))
	}
	d.everywhere(t)
}
