package engine_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

func (n *node) do(id dag.RunID, intent dag.Intent) error {
	return n.Do(n.t.Context(), engine.Command{Run: id, Intent: intent, Actor: "ada", Reason: "because"})
}

// TestVerbs applies every verb in every state of a run.
func TestVerbs(t *testing.T) {
	h := newHands(t)
	h.held = true
	n := start(t, openMemory(t), h)
	w := n.apply("w", graph(t, "a; b: a"))
	id := n.submit(w)
	a := h.holding(1)[0]
	ok := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	conflict := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, errkind.ErrConflict) {
			t.Errorf("%s: %v", what, err)
		}
	}
	ok("resume what runs", n.do(id, dag.IntentRun))
	ok("pause", n.do(id, dag.IntentPause))
	ok("pause again", n.do(id, dag.IntentPause))
	h.end(a, success())
	eventually(t, "it is paused", func() bool { return n.state(id) == dag.RunPaused })
	if h.starts() != 1 {
		t.Error("something was started in a pause")
	}
	ok("resume", n.do(id, dag.IntentRun))
	b := h.holding(1)[0]
	ok("stop", n.do(id, dag.IntentStop))
	conflict("resume what is being stopped, or has stopped", n.do(id, dag.IntentRun))
	n.ends(id, dag.RunStopped)
	if len(h.cancels) == 0 || h.cancels[0].Task != b.task || h.cancels[0].Kill {
		t.Errorf("cancels: %+v", h.cancels)
	}
	ok("stop what was stopped", n.do(id, dag.IntentStop))
	conflict("kill what was stopped", n.do(id, dag.IntentKill))
	conflict("pause what was stopped", n.do(id, dag.IntentPause))
	if err := n.do(engine.NewRunID(), dag.IntentStop); !errors.Is(err, errkind.ErrNotFound) {
		t.Errorf("an unknown run: %v", err)
	}
	other := n.submit(w)
	h.holding(1)
	conflict("an unknown verb", n.do(other, 9))
	if err := n.Do(t.Context(), engine.Command{Run: other, Intent: dag.IntentStop, Reason: "a\x00"}); !errors.Is(err, errkind.ErrInvalid) {
		t.Errorf("a NUL in the reason: %v", err)
	}
	ok("kill", n.do(other, dag.IntentKill))
	n.ends(other, dag.RunStopped)
	if row, _ := n.RunRow(t.Context(), other); row.Cause != dag.CauseKilled || row.Message != "because" {
		t.Errorf("killed: %s %q", row.Cause, row.Message)
	}
	n.quiet()
}

// TestVerbWithRequest executes a verb once under one key, whatever happens meanwhile.
func TestVerbWithRequest(t *testing.T) {
	for name, open := range openers {
		t.Run(name, func(t *testing.T) {
			st := open(t)
			h := newHands(t)
			h.held = true
			n := start(t, st, h)
			id := n.submit(n.apply("w", graph(t, "a")))
			h.holding(1)
			do := func(intent dag.Intent, key, hash string) error {
				req := &store.Request{Scope: "verb", Key: key, Hash: []byte(hash), Answer: []byte("202")}
				return n.Do(t.Context(), engine.Command{Run: id, Intent: intent, Actor: "ada", Request: req})
			}
			for range 2 {
				if err := do(dag.IntentPause, "k", "pause"); err != nil {
					t.Fatalf("pause: %v", err)
				}
			}
			if err := n.do(id, dag.IntentRun); err != nil {
				t.Fatal(err)
			}
			if err := do(dag.IntentPause, "k", "pause"); err != nil { // the pause was applied, and has been undone since
				t.Errorf("the key again: %v", err)
			}
			if row, _ := n.RunRow(t.Context(), id); row.Intent != dag.IntentRun {
				t.Errorf("the intent is %s", row.Intent)
			}
			if err := do(dag.IntentStop, "k", "stop"); !errors.Is(err, errkind.ErrConflict) {
				t.Errorf("the key with another verb: %v", err)
			}
			h.end(h.holding(1)[0], success())
			n.ends(id, dag.RunSucceeded)
			if err := do(dag.IntentStop, "late", "stop"); !errors.Is(err, errkind.ErrConflict) {
				t.Errorf("too late: %v", err)
			}
			if _, err := n.Request(t.Context(), "verb", "late"); !errors.Is(err, errkind.ErrNotFound) {
				t.Errorf("a refusal was kept: %v", err)
			}
			if r, err := n.Request(t.Context(), "verb", "k"); err != nil || string(r.Answer) != "202" {
				t.Errorf("the answer: %+v %v", r, err)
			}
		})
	}
}

// TestReloadOfEveryIntent restarts with runs that are paused, being stopped, being killed,
// splitting and waiting for a retry.
func TestReloadOfEveryIntent(t *testing.T) {
	st := openSQLite(t)
	h := newHands(t)
	h.held = true
	h.result = func(engine.Assignment) dag.Result { return success() }
	n := start(t, st, h)
	w := n.apply("w", graph(t, "a; b: a"))
	retry := n.apply("retry", graph(t, "a; b: a", func(s *dag.GraphSpec) {
		s.Tasks[0].Policy.Retry = dag.Retry{Max: 1, Delay: 20 * time.Millisecond}
		s.Timeout = time.Hour
	}))
	id := map[string]dag.RunID{}
	for _, name := range []string{"paused", "pausing", "retry", "running"} {
		wf := w
		if name == "retry" {
			wf = retry
		}
		id[name] = n.submit(wf)
	}
	for _, k := range h.holding(4) {
		switch k.run {
		case id["paused"]:
			if err := n.do(k.run, dag.IntentPause); err != nil {
				t.Fatal(err)
			}
			h.end(k, success())
		case id["retry"]:
			h.end(k, dag.Result{State: dag.AttemptFailed, Exited: true, ExitCode: 1})
		case id["pausing"]:
			if err := n.do(k.run, dag.IntentPause); err != nil {
				t.Fatal(err)
			}
		}
	}
	eventually(t, "it is paused", func() bool { return n.state(id["paused"]) == dag.RunPaused })
	n.sound()
	n.close()
	next := newHands(t)
	next.past = h
	n = start(t, st, next)
	n.ends(id["running"], dag.RunSucceeded)
	n.ends(id["retry"], dag.RunSucceeded)
	eventually(t, "the other is paused, too", func() bool { return n.state(id["pausing"]) == dag.RunPaused })
	n.sound()
	for _, name := range []string{"paused", "pausing"} {
		if err := n.do(id[name], dag.IntentRun); err != nil {
			t.Fatal(err)
		}
		n.ends(id[name], dag.RunSucceeded)
	}
	n.quiet()
}

// TestReloadOfStopping restarts in the middle of a stop: running attempts are lost, and no task starts.
func TestReloadOfStopping(t *testing.T) {
	st := openMemory(t)
	h := newHands(t)
	h.held = true
	n := start(t, st, h)
	id := n.submit(n.apply("w", graph(t, "a; b: a")))
	h.holding(1)
	h.mu.Lock()
	h.held = false // the holder does not get the stop
	h.mu.Unlock()
	if err := n.do(id, dag.IntentStop); err != nil {
		t.Fatal(err)
	}
	n.close()
	next := newHands(t)
	n = start(t, st, next)
	n.ends(id, dag.RunStopped)
	n.quiet()
	if next.starts() > 0 {
		t.Error("something was started in a stop")
	}
}

// TestLostStart: when the run is checked, an attempt that the executor has lost is assigned again. Its slot
// is booked once.
func TestLostStart(t *testing.T) {
	h := newHands(t)
	lose := true
	h.drop = func() bool { was := lose; lose = false; return was }
	n := start(t, openMemory(t), h, func(c *engine.Config) { c.Slots = 2 })
	id := n.submit(n.apply("w", graph(t, "a; b: a")))
	if n.Free() != 1 {
		t.Errorf("%d slots are free", n.Free())
	}
	if err := n.Check(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	n.ends(id, dag.RunSucceeded)
	n.quiet()
	if err := n.Check(t.Context(), engine.NewRunID()); !errors.Is(err, errkind.ErrNotFound) {
		t.Errorf("check of an unknown run: %v", err)
	}
	if err := n.Check(t.Context(), id); err != nil {
		t.Errorf("check of an ended run: %v", err)
	}
}

// TestViews looks at a run in every state, and asks why it does not move.
func TestViews(t *testing.T) {
	h := newHands(t)
	h.held = true
	n := start(t, openSQLite(t), h, func(c *engine.Config) { c.Slots = 1 })
	w := n.apply("w", graph(t, "a; b: a; c; d: a", func(s *dag.GraphSpec) {
		s.Tasks[0].Policy.Retry = dag.Retry{Max: 1, Delay: time.Hour}
		s.Tasks[3].If = cond("never")
	}))
	id := n.submit(w)
	a := h.holding(1)[0]
	explain := func(task string, kinds ...string) {
		t.Helper()
		x, err := n.Explain(t.Context(), id, task)
		var got []string
		for _, r := range x.Reasons {
			got = append(got, r.Kind)
		}
		if err != nil || strings.Join(got, " ") != strings.Join(kinds, " ") {
			t.Errorf("explain %q: %v %v, want %v", task, got, err, kinds)
		}
	}
	state := func(task string, want dag.TaskState) {
		t.Helper()
		if v, err := n.Task(t.Context(), id, task); err != nil || v.State != want {
			t.Errorf("task %s is %s, want %s (%v)", task, v.State, want, err)
		}
	}
	explain("", "running", "slot")
	explain("a", "running")
	explain("b", "needs")
	explain("c", "slot")
	n.Report(engine.Report{Run: a.run, Task: a.task, Token: a.token, Started: 1})
	eventually(t, "it runs", func() bool { v, _ := n.Task(t.Context(), id, "a"); return v.State == dag.Running })
	h.end(a, dag.Result{State: dag.AttemptFailed, Exited: true, ExitCode: 3})
	c := h.holding(1)[0]
	state("a", dag.RetryWait)
	explain("a", "retry")
	explain("", "retry", "running")
	if err := n.do(id, dag.IntentPause); err != nil {
		t.Fatal(err)
	}
	explain("", "paused", "retry", "running")
	h.end(c, dag.Result{State: dag.AttemptSucceeded, Outputs: []byte(`{"x":1}`)})
	eventually(t, "it is paused", func() bool { return n.state(id) == dag.RunPaused })
	explain("", "paused")
	explain("b", "paused", "needs")
	if v, err := n.Task(t.Context(), id, "c"); err != nil || string(v.Outputs) != `{"x":1}` {
		t.Errorf("outputs of c: %s %v", v.Outputs, err)
	}
	if err := n.do(id, dag.IntentStop); err != nil {
		t.Fatal(err)
	}
	n.ends(id, dag.RunStopped)
	explain("", "ended")
	state("a", dag.Stopped)
	explain("a", "ended")
	if _, err := n.Task(t.Context(), id, "z"); !errors.Is(err, errkind.ErrNotFound) {
		t.Errorf("an unknown task: %v", err)
	}
	for _, page := range [][3]int{{0, -1, 4}, {1, 2, 2}, {3, 1 << 62, 1}, {9, 5, 0}, {-5, 2, 2}} {
		views, total, err := n.Tasks(t.Context(), id, page[0], page[1])
		if err != nil || total != 4 || len(views) != page[2] {
			t.Errorf("tasks from %d, at most %d: %d of %d, %v", page[0], page[1], len(views), total, err)
		}
	}
	events, err := n.Events(t.Context(), id, 0, 100)
	if err != nil || len(events) < 5 || events[0].Records[0].Kind != dag.RecSubmitted {
		t.Errorf("events: %+v %v", events, err)
	}
	page, err := n.Runs(t.Context(), store.RunQuery{Workflow: w.ID})
	if err != nil || len(page.Runs) != 1 || page.Runs[0].Counts[dag.Stopped] != 3 {
		t.Errorf("runs: %+v %v", page, err)
	}
}

// TestCheckBesideReport: a run is checked while a report about it arrives. The check happens before or after
// the step, and never in the middle.
func TestCheckBesideReport(t *testing.T) {
	h := newHands(t)
	h.held = true
	n := start(t, openMemory(t), h)
	id := n.submit(n.apply("w", graph(t, "a; b: a")))
	k := h.holding(1)[0]
	checked := make(chan error, 1)
	n.together(func() {
		h.end(k, success())
		go func() { checked <- n.Check(t.Context(), id) }()
	}, 2)
	if err := <-checked; err != nil {
		t.Error(err)
	}
	n.sound()
	h.end(h.holding(1)[0], success())
	n.ends(id, dag.RunSucceeded)
	n.quiet()
}
