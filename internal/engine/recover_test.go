package engine_test

import (
	"errors"
	"strings"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

func (n *node) tells(c engine.Command) error {
	c.Actor, c.Reason = "ada", "because"
	return n.Do(n.t.Context(), c)
}

// TestRecoverAndMark recovers runs after their end, on every store, with all verbs, across a restart, and by
// repeated calls under one key.
func TestRecoverAndMark(t *testing.T) {
	for name, open := range openers {
		t.Run(name, func(t *testing.T) {
			st := open(t)
			h := newHands(t)
			fails := map[string]bool{"b": true}
			h.result = func(a engine.Assignment) dag.Result {
				if fails[a.Name] {
					return dag.Result{State: dag.AttemptFailed, Exited: true, ExitCode: 1, Cause: dag.CauseExit}
				}
				return success()
			}
			n := start(t, st, h)
			id := n.submit(n.apply("w", graph(t, "a; b: a; c: b")))
			n.ends(id, dag.RunFailed)
			ok := func(what string, err error) {
				t.Helper()
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
			}
			req := &store.Request{Scope: "recover", Key: "k", Hash: []byte("h"), Answer: []byte("202")}
			for range 2 { // the second call repeats the first one
				ok("recover", n.tells(engine.Command{Run: id, Recover: true, Request: req}))
				n.ends(id, dag.RunFailed)
			}
			if row, _ := n.RunRow(t.Context(), id); row.Generation != 2 {
				t.Errorf("generation %d", row.Generation)
			}
			n.sound()
			n.close()
			again := newHands(t)
			again.result = h.result
			n = start(t, st, again)
			ok("mark", n.tells(engine.Command{Run: id, Mark: dag.MarkSucceeded, Task: "b", Outputs: []byte(`{"rows":7}`)}))
			n.ends(id, dag.RunSucceeded)
			v, err := n.Task(t.Context(), id, "b")
			ok("task", err)
			if string(v.Outputs) != `{"rows":7}` || len(v.Attempts) != 3 || v.Attempts[0].State != dag.AttemptFailed || v.Attempts[0].Generation != 1 {
				t.Errorf("b: %+v", v)
			}
			ok("mark again", n.tells(engine.Command{Run: id, Mark: dag.MarkSucceeded, Task: "b"}))
			delete(fails, "b")
			ok("recover from a task", n.tells(engine.Command{Run: id, Recover: true, Scope: dag.ScopeFrom, Task: "b"}))
			n.ends(id, dag.RunSucceeded)
			for what, c := range map[string]engine.Command{
				"has succeeded":      {Run: id, Recover: true},
				"is succeeded":       {Run: id, Mark: dag.MarkSkip, Task: "a"},
				"it is succeeded":    {Run: id, Intent: dag.IntentPause},
				"nobody":             {Run: engine.NewRunID(), Recover: true},
				"did you mean alpha": {Run: n.submit(n.apply("names", graph(t, "alpha; beta"))), Mark: dag.MarkSkip, Task: "alpa"},
				"65537 bytes":        {Run: id, Mark: dag.MarkSucceeded, Task: "b", Outputs: make([]byte, 64<<10+1)},
			} {
				err := n.tells(c)
				switch what {
				case "nobody", "did you mean alpha":
					if !errors.Is(err, errkind.ErrNotFound) {
						t.Errorf("%s: %v", what, err)
					}
				case "65537 bytes":
					if !errors.Is(err, errkind.ErrInvalid) {
						t.Errorf("%s: %v", what, err)
					}
				default:
					if !errors.Is(err, errkind.ErrConflict) {
						t.Errorf("%s: %v", what, err)
					}
				}
				if what != "nobody" && (err == nil || !strings.Contains(err.Error(), what)) {
					t.Errorf("want %q: %v", what, err)
				}
			}
			n.sound()
			n.verified()
		})
	}
}

// TestTaskStopAcrossRestart: the next owner repeats an operator's order to stop a task.
func TestTaskStopAcrossRestart(t *testing.T) {
	st := openSQLite(t)
	h := newHands(t)
	h.held = true
	n := start(t, st, h)
	id := n.submit(n.apply("w", graph(t, "a; b: a; c")))
	h.holding(2)
	if err := n.tells(engine.Command{Run: id, Mark: dag.MarkStop, Task: "a"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a is stopped, b cannot run", func() bool {
		b, err := n.Task(t.Context(), id, "b")
		return err == nil && b.State == dag.UpstreamFailed
	})
	n.sound()
	h.end(h.holding(1)[0], success())
	n.ends(id, dag.RunFailed)
	if err := n.tells(engine.Command{Run: id, Mark: dag.MarkRetry, Task: "a"}); err != nil {
		t.Fatal(err)
	}
	h.end(h.holding(1)[0], success())
	h.end(h.holding(1)[0], success())
	n.ends(id, dag.RunSucceeded)
	n.verified()
}

// BenchmarkRecover recovers a run of 100,000 tasks of which one has failed.
func BenchmarkRecover(b *testing.B) {
	st := openSQLite(b)
	h := newHands(b)
	h.result = func(a engine.Assignment) dag.Result {
		if a.Name == "t99998" {
			return dag.Result{State: dag.AttemptFailed, Exited: true, ExitCode: 1}
		}
		return success()
	}
	n := start(b, st, h)
	id := n.submit(n.apply("w", wide(b, 99_999)))
	n.ends(id, dag.RunFailed)
	for b.Loop() {
		if err := n.Do(b.Context(), engine.Command{Run: id, Recover: true, Actor: "ada"}); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		n.ends(id, dag.RunFailed)
		b.StartTimer()
	}
}
