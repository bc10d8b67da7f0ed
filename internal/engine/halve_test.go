package engine_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	zombiezen "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/sqlite"
	"skein.dev/skein/internal/store/storetest"
)

// together makes the writer take all items that do puts into the inbox in one transaction.
func (n *node) together(do func(), waiting int) {
	n.t.Helper()
	hold, held := make(chan struct{}), make(chan struct{})
	go func() {
		_ = n.Ask(context.Background(), func() error { close(held); <-hold; return nil })
	}()
	<-held
	do()
	eventually(n.t, "all of it waits", func() bool { return n.Waiting() >= waiting })
	close(hold)
}

// TestGivenUp calls a busy writer and does not wait. The writer must not read the caller's data later. The
// race detector finds a violation. Nothing may order the two goroutines, so the test waits for none before
// the writer continues.
func TestGivenUp(t *testing.T) {
	n := start(t, openMemory(t), newHands(t))
	looked := make(chan struct{})
	var all sync.WaitGroup
	n.together(func() {
		over, cancel := context.WithCancel(t.Context())
		cancel()
		for range 20 {
			all.Go(func() {
				if shards, err := n.Shards(over); err != nil && (len(shards) > 0 || !errors.Is(err, errkind.ErrUnavailable)) {
					t.Errorf("given up with %v, %v", shards, err)
				}
				<-looked // the race detector knows only goroutines that have not ended
			})
		}
	}, 20)
	if err := n.Barrier(t.Context()); err != nil {
		t.Error(err)
	}
	close(looked)
	all.Wait()
}

// TestHalvingSubmissions: the store refuses one of 200 submissions. Only the caller of this one gets an
// error.
func TestHalvingSubmissions(t *testing.T) {
	for name, open := range openers {
		t.Run(name, func(t *testing.T) {
			n := start(t, open(t), newHands(t))
			w := n.apply("w", graph(t, "a; b: a"))
			subs := make([]engine.Submission, 200)
			for i := range subs {
				subs[i] = submission(w)
				subs[i].ID = engine.NewRunID()
			}
			subs[137].Origin = "a\x00b"
			got, err := n.SubmitAll(t.Context(), subs)
			if !errors.Is(err, errkind.ErrInvalid) {
				t.Fatalf("the error is %v", err)
			}
			for i := range got {
				if i != 137 && got[i].Run != subs[i].ID {
					t.Errorf("submission %d was not accepted", i)
				}
			}
			n.quiet()
			if _, err := n.RunRow(t.Context(), subs[137].ID); !errors.Is(err, errkind.ErrNotFound) {
				t.Errorf("the guilty one: %v", err)
			}
			if s := n.Stats(); s.RunsEnded.Load() != 199 || s.RunsAccepted.Load() != 199 || s.Quarantined.Load() != 0 {
				t.Errorf("%d accepted, %d ended, %d quarantined", s.RunsAccepted.Load(), s.RunsEnded.Load(), s.Quarantined.Load())
			}
		})
	}
}

// TestGuiltyRun: the store refuses everything about one run. The run is quarantined, also if only an
// assignment is left of the transaction, and the others continue.
func TestGuiltyRun(t *testing.T) {
	var guilty atomic.Pointer[dag.RunID]
	st := &storetest.Faulty{Store: openMemory(t), Next: func(b *store.Batch) storetest.Fault {
		id := guilty.Load()
		if id != nil && slices.ContainsFunc(b.AttemptInserts, func(a dag.AttemptRow) bool { return a.Run == *id && a.Task == 1 }) {
			return storetest.Refused
		}
		return storetest.NoFault
	}}
	h := newHands(t)
	h.held = true
	n := start(t, st, h, func(c *engine.Config) { c.Slots = 20 })
	w := n.apply("w", graph(t, "a; b: a"))
	var ids []dag.RunID
	for range 20 {
		ids = append(ids, n.submit(w))
	}
	guilty.Store(&ids[7])
	n.together(func() {
		for _, k := range h.holding(20) {
			h.end(k, dag.Result{State: dag.AttemptSucceeded, Exited: true})
		}
	}, 20)
	for _, k := range h.holding(19) {
		h.end(k, dag.Result{State: dag.AttemptSucceeded, Exited: true})
	}
	n.quiet()
	for i, id := range ids {
		want := dag.RunSucceeded
		if i == 7 {
			want = dag.RunFailed
		}
		n.ends(id, want)
	}
	if row, _ := n.RunRow(t.Context(), ids[7]); row.Cause != dag.CauseCorrupt || !strings.Contains(row.Message, "quarantined") {
		t.Errorf("the guilty run: %s %q", row.Cause, row.Message)
	}
}

// TestBadReport: attempts are settled although their reports have content that no store can hold.
func TestBadReport(t *testing.T) {
	for name, open := range openers {
		t.Run(name, func(t *testing.T) {
			h := newHands(t)
			h.result = func(a engine.Assignment) dag.Result {
				switch a.Name {
				case "nul":
					return dag.Result{State: dag.AttemptSucceeded, Exited: true, Message: "a\x00b\xff", Signal: "\x00"}
				case "long":
					return dag.Result{State: dag.AttemptFailed, Cause: "\x00", Message: strings.Repeat("é", 10_000)}
				case "large":
					return dag.Result{State: dag.AttemptSucceeded, Outputs: make([]byte, engine.OutputsMax+1)}
				}
				return dag.Result{State: dag.AttemptSucceeded}
			}
			n := start(t, open(t), h)
			w := n.apply("w", graph(t, "nul; long; large; fine"))
			id := n.submit(w)
			n.ends(id, dag.RunFailed)
			n.quiet()
			want := map[string]dag.TaskState{"nul": dag.Succeeded, "long": dag.Failed, "large": dag.Failed, "fine": dag.Succeeded}
			for name, state := range want {
				v, err := n.Task(t.Context(), id, name)
				if err != nil || v.State != state {
					t.Errorf("task %s is %s, want %s (%v)", name, v.State, state, err)
				}
			}
			if n.Stats().Quarantined.Load() > 0 {
				t.Error("a run was quarantined")
			}
		})
	}
}

// TestRefusedReport: the store refuses a report for an unforeseen reason. The attempt is settled without
// the content of the report.
func TestRefusedReport(t *testing.T) {
	st := &storetest.Faulty{Store: openMemory(t), Next: func(b *store.Batch) storetest.Fault {
		if slices.ContainsFunc(b.AttemptUpdates, func(a dag.AttemptUpdate) bool { return string(a.Outputs) == "poison" }) {
			return storetest.Refused
		}
		return storetest.NoFault
	}}
	h := newHands(t)
	h.result = func(a engine.Assignment) dag.Result {
		return dag.Result{State: dag.AttemptSucceeded, Exited: true, Outputs: []byte(map[bool]string{true: "poison", false: "{}"}[a.Name == "a"])}
	}
	n := start(t, st, h)
	id := n.submit(n.apply("w", graph(t, "a; b; c; d: b c")))
	n.ends(id, dag.RunFailed)
	n.quiet()
	if v, err := n.Task(t.Context(), id, "a"); err != nil || v.State != dag.Failed || v.Cause != "output" {
		t.Errorf("task a: %+v %v", v, err)
	}
	if v, _ := n.Task(t.Context(), id, "d"); v.State != dag.Succeeded {
		t.Errorf("task d is %s", v.State)
	}
}

// TestPanicInStep: conditions have a bug. Only runs that evaluate them are quarantined, and the running
// attempts of these runs are killed.
func TestPanicInStep(t *testing.T) {
	h := newHands(t)
	n := start(t, openMemory(t), h)
	good := n.apply("good", graph(t, "a; b: a"))
	bug := n.apply("bug", graph(t, "a; b: a; c", func(s *dag.GraphSpec) { s.Tasks[1].If = cond("panic") }))
	odd := n.apply("odd", graph(t, "a; b: a", func(s *dag.GraphSpec) { s.Tasks[1].If = cond("odd") }))
	atOnce := n.apply("at once", graph(t, "a", func(s *dag.GraphSpec) { s.Tasks[0].If = cond("panic") }))
	var goods []dag.RunID
	for range 50 {
		goods = append(goods, n.submit(good))
	}
	bad, strange := n.submit(bug), n.submit(odd)
	if _, err := n.Submit(t.Context(), submission(atOnce)); !errors.Is(err, errkind.ErrUnavailable) {
		t.Errorf("a submission that panics: %v", err)
	}
	for _, id := range goods {
		n.ends(id, dag.RunSucceeded)
	}
	n.ends(bad, dag.RunFailed)
	n.ends(strange, dag.RunFailed) // its condition fails with a NUL in the error
	n.quiet()
	v, err := n.GetRun(t.Context(), bad)
	if err != nil || v.Cause != dag.CauseCorrupt || !strings.Contains(v.Message, "a condition with a bug") {
		t.Errorf("the bad run: %+v %v", v.RunRow, err)
	}
	if x, err := n.Explain(t.Context(), bad, ""); err != nil || x.Reasons[0].Code != "run_ended" || x.Reasons[0].Args["message"] != v.Message {
		t.Errorf("explain: %+v %v", x, err)
	}
}

// TestCorruptRows damages rows in the file. Their runs are quarantined, the node continues, and the other
// runs end.
func TestCorruptRows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "skein.db")
	st, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	h := newHands(t)
	h.held = true
	n := start(t, st, h, func(c *engine.Config) { c.Slots = 100 })
	w := n.apply("w", graph(t, "a; b: a"))
	damaged := n.apply("damaged", graph(t, "x; y: x"))
	id := map[string]dag.RunID{}
	for _, name := range []string{"state", "intent", "base", "graph", "attempt", "fine"} {
		wf := w
		if name == "graph" {
			wf = damaged
		}
		id[name] = n.submit(wf)
	}
	h.holding(6)
	n.close()
	_ = st.Close()
	conn, err := zombiezen.OpenConn(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		run string
		sql string
	}{
		{"state", "UPDATE run SET state = 'dancing' WHERE id = ?"},
		{"intent", "UPDATE run SET intent = 'perhaps' WHERE id = ?"},
		{"base", "UPDATE run SET base = x'ff01' WHERE id = ?"},
		{"graph", "UPDATE version SET graph = x'01ff' WHERE workflow = (SELECT workflow FROM run WHERE id = ?)"},
		{"attempt", "UPDATE run SET hands = unhex('019A01' || substr(hex(hands), 5)) WHERE id = ?"},
	} {
		id := id[c.run]
		if err := sqlitex.Execute(conn, c.sql, &sqlitex.ExecOptions{Args: []any{id[:]}}); err != nil {
			t.Fatal(err)
		}
	}
	_ = conn.Close()
	if st, err = sqlite.Open(path); err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	var reaped atomic.Int64
	next := newHands(t)
	n = start(t, st, next, func(c *engine.Config) {
		c.Reap = func(_ context.Context, lost []dag.AttemptRow) error { reaped.Add(int64(len(lost))); return nil }
	})
	n.ends(id["fine"], dag.RunSucceeded)
	for _, name := range []string{"base", "graph", "attempt"} {
		n.ends(id[name], dag.RunFailed)
		v, err := n.GetRun(t.Context(), id[name])
		if err != nil || v.Cause != dag.CauseCorrupt {
			t.Errorf("%s: %+v %v", name, v.RunRow, err)
		}
		if x, err := n.Explain(t.Context(), id[name], ""); err != nil || slices.ContainsFunc(x.Reasons[0].Actions, func(a inspect.Action) bool { return a.Verb == "recover" }) {
			t.Errorf("explain %s: %+v %v", name, x, err)
		}
		if tasks, _, err := n.Tasks(t.Context(), id[name], 0, -1); err != nil || len(tasks) != 0 {
			t.Errorf("tasks of %s: %+v %v", name, tasks, err)
		}
		if err := n.Do(t.Context(), engine.Command{Run: id[name], Intent: dag.IntentStop}); !errors.Is(err, errkind.ErrConflict) {
			t.Errorf("stop %s: %v", name, err)
		}
	}
	for _, name := range []string{"state", "intent"} {
		if err := n.Do(t.Context(), engine.Command{Run: id[name], Intent: dag.IntentStop}); err == nil {
			t.Errorf("a run with an unknown %s was stopped", name)
		}
		if _, err := n.GetRun(t.Context(), id[name]); !errors.Is(err, errkind.ErrDamaged) {
			t.Errorf("a run with an unknown %s: %v", name, err)
		}
	}
	if got := n.Stats().Quarantined.Load(); got != 5 {
		t.Errorf("%d runs are quarantined", got)
	}
	if reaped.Load() < 4 { // base, graph, attempt and fine can be read
		t.Errorf("%d attempts were reaped", reaped.Load())
	}
	another := n.submit(w)
	n.ends(another, dag.RunSucceeded)
}

// TestQuarantineDuringReload: a run cannot be loaded while the outcome of a transaction is in doubt. The
// transaction that quarantines the run must not be mistaken for the transaction in doubt.
func TestQuarantineDuringReload(t *testing.T) {
	for _, fault := range []storetest.Fault{storetest.Lost, storetest.Written} {
		var next, reaps atomic.Int32
		st := &damaging{Faulty: storetest.Faulty{Store: openMemory(t)}}
		st.Next = func(*store.Batch) storetest.Fault {
			if next.CompareAndSwap(1, 0) {
				return fault
			}
			return storetest.NoFault
		}
		h := newHands(t)
		h.held = true
		n := start(t, st, h, func(c *engine.Config) {
			c.Reap = func(context.Context, []dag.AttemptRow) error { // after the quarantine, the load fails
				if reaps.Add(1) == 1 {
					return store.ErrUnavailable
				}
				return nil
			}
		})
		w := n.apply("w", graph(t, "a"))
		victim := n.submit(w)
		h.holding(1)
		st.bad.Store(&victim)
		next.Store(1)
		a, err := n.Submit(t.Context(), submission(w))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := n.RunRow(t.Context(), a.Run); err != nil {
			t.Fatalf("a run was accepted and is not there (%v): %v", fault, err)
		}
		n.ends(victim, dag.RunFailed)
		eventually(t, "the other run ends", func() bool {
			for _, k := range h.holding(0) {
				if k.run == a.Run {
					h.end(k, dag.Result{State: dag.AttemptSucceeded})
				}
			}
			return n.state(a.Run) == dag.RunSucceeded
		})
		if reaps.Load() == 0 {
			t.Error("the load did not fail in between")
		}
		n.quiet()
		n.close()
	}
}

// damaging is a store in which one run cannot be loaded.
type damaging struct {
	storetest.Faulty
	bad atomic.Pointer[dag.RunID]
}

func (d *damaging) Load(ctx context.Context, q store.LoadQuery) ([]store.RunRecord, error) {
	page, err := d.Faulty.Load(ctx, q)
	for i := range page {
		if id := d.bad.Load(); id != nil && page[i].Run.ID == *id {
			page[i].Attempts = append(page[i].Attempts, dag.AttemptRow{Run: *id, Task: 99, Token: 1, Handler: 999})
		}
	}
	return page, err
}

// TestRunTimeout: a run is past its timeout, and its holder ends only on a cancel. The run fails, and the
// slot comes back with the report.
func TestRunTimeout(t *testing.T) {
	h := newHands(t)
	h.held = true
	n := start(t, openMemory(t), h, func(c *engine.Config) { c.Slots = 1 })
	w := n.apply("w", graph(t, "a; b: a", func(s *dag.GraphSpec) { s.Timeout = 5 * time.Millisecond }))
	id := n.submit(w)
	n.ends(id, dag.RunFailed) // the cancel makes the held attempt report
	n.quiet()
	if row, _ := n.RunRow(t.Context(), id); row.Cause != dag.CauseTimeout {
		t.Errorf("the cause is %s", row.Cause)
	}
}

// TestPanicOnce: a bug panics once, in a step of one of several runs. Memory is restored before anything is
// tried again, and no run is quarantined.
func TestPanicOnce(t *testing.T) {
	var asked atomic.Int32
	h := newHands(t)
	h.held = true
	n := start(t, openMemory(t), h, func(c *engine.Config) {
		c.Compile = func(text string) (dag.Condition, error) { return third{cond(text), &asked}, nil }
	})
	w := n.apply("w", graph(t, "a; b: a; c: b", func(s *dag.GraphSpec) { s.Tasks[1].If = cond("always") }))
	var ids []dag.RunID
	for range 4 {
		ids = append(ids, n.submit(w))
	}
	n.together(func() {
		for _, k := range h.holding(4) {
			h.end(k, success())
		}
	}, 4)
	for range 2 {
		for _, k := range h.holding(4) {
			h.end(k, success())
		}
	}
	for _, id := range ids {
		n.ends(id, dag.RunSucceeded)
	}
	n.quiet()
	if asked.Load() < 5 {
		t.Error("the bug did not show")
	}
}

// third is a condition whose third evaluation panics.
type third struct {
	cond
	asked *atomic.Int32
}

func (c third) Holds(v dag.View) (bool, error) {
	if c.asked.Add(1) == 3 {
		panic("a bug that shows once")
	}
	return c.cond.Holds(v)
}
