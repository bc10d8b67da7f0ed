package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
)

func success() dag.Result { return dag.Result{State: dag.AttemptSucceeded, Exited: true} }

// TestKeys: an idempotency key makes one run, in one transaction, in later transactions and after a restart.
// The same key with another body is a conflict that names the run.
func TestKeys(t *testing.T) {
	for name, open := range openers {
		t.Run(name, func(t *testing.T) {
			st := open(t)
			n := start(t, st, newHands(t))
			w, v := n.apply("w", graph(t, "a")), n.apply("v", graph(t, "a"))
			keyed := func(hash string) engine.Submission {
				s := submission(w)
				s.Key, s.KeyHash = "k", []byte(hash)
				return s
			}
			all, err := n.SubmitAll(t.Context(), []engine.Submission{keyed("1"), submission(w), keyed("1")})
			if err != nil || all[0].Run != all[2].Run || all[0].Existing || !all[2].Existing || all[1].Run == all[0].Run {
				t.Fatalf("one transaction: %+v %v", all, err)
			}
			n.ends(all[0].Run, dag.RunSucceeded)
			for range 2 {
				a, err := n.Submit(t.Context(), keyed("1"))
				if err != nil || a.Run != all[0].Run || !a.Existing {
					t.Errorf("again: %+v %v", a, err)
				}
				a, err = n.Submit(t.Context(), keyed("2"))
				if !errors.Is(err, errkind.ErrConflict) || a.Run != all[0].Run || !a.Existing {
					t.Errorf("another body: %+v %v", a, err)
				}
				n.quiet()
				n.close()
				n = start(t, st, newHands(t))
			}
			other := keyed("1")
			other.Workflow = v
			if a, err := n.Submit(t.Context(), other); err != nil || a.Existing {
				t.Errorf("the key in another workflow: %+v %v", a, err)
			}
		})
	}
}

// TestIDs: a caller may choose the id. It names one run, also in repeated calls.
func TestIDs(t *testing.T) {
	h := newHands(t)
	h.held = true
	n := start(t, openMemory(t), h)
	w, v := n.apply("w", graph(t, "a")), n.apply("v", graph(t, "a"))
	s := submission(w)
	s.ID = engine.NewRunID()
	all, err := n.SubmitAll(t.Context(), []engine.Submission{s, s})
	if err != nil || all[0].Existing || !all[1].Existing || all[1].Run != s.ID {
		t.Fatalf("together: %+v %v", all, err)
	}
	if a, err := n.Submit(t.Context(), s); err != nil || !a.Existing {
		t.Errorf("while it runs: %+v %v", a, err)
	}
	h.end(h.holding(1)[0], success())
	n.ends(s.ID, dag.RunSucceeded)
	if a, err := n.Submit(t.Context(), s); err != nil || !a.Existing {
		t.Errorf("after its end: %+v %v", a, err)
	}
	s.Workflow = v
	if _, err := n.Submit(t.Context(), s); !errors.Is(err, errkind.ErrConflict) {
		t.Errorf("of another workflow: %v", err)
	}
}

// TestSubmissionsRefused checks the starts that the gateway refuses before the writer gets them.
func TestSubmissionsRefused(t *testing.T) {
	n := start(t, openMemory(t), newHands(t))
	w := n.apply("w", graph(t, "a"))
	for what, change := range map[string]func(*engine.Submission){
		"no workflow":      func(s *engine.Submission) { s.Workflow.ID = 0 },
		"an odd priority":  func(s *engine.Submission) { s.Priority = 9 },
		"a NUL in the key": func(s *engine.Submission) { s.Key = "a\x00" },
		"a user in Latin1": func(s *engine.Submission) { s.User = "\xe9" },
		"an endless key":   func(s *engine.Submission) { s.Key = string(make([]byte, 1<<20)) },
	} {
		s := submission(w)
		change(&s)
		if _, err := n.Submit(t.Context(), s); !errors.Is(err, errkind.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
		if out, err := n.SubmitAll(t.Context(), []engine.Submission{submission(w), s}); !errors.Is(err, errkind.ErrInvalid) || out != nil {
			t.Errorf("%s, of several: %v", what, err)
		}
	}
	s := submission(w)
	s.Workflow.ID = 12345
	if _, err := n.Submit(t.Context(), s); !errors.Is(err, errkind.ErrNotFound) {
		t.Errorf("an unknown workflow: %v", err)
	}
	if n.Stats().RunsAccepted.Load() != 0 {
		t.Error("something was accepted")
	}
}

// TestBackPressure fills the inbox: submissions beyond the bound are refused at once, while reports are still
// processed before the waiting submissions.
func TestBackPressure(t *testing.T) {
	h := newHands(t)
	h.held = true
	n := start(t, openMemory(t), h, func(c *engine.Config) { c.SubmitMax = 10 })
	w := n.apply("w", graph(t, "a"))
	id := n.submit(w)
	k := h.holding(1)[0]
	var wg sync.WaitGroup
	n.together(func() {
		for range 10 {
			wg.Go(func() {
				if _, err := n.Submit(t.Context(), submission(w)); err != nil {
					t.Errorf("within the bound: %v", err)
				}
			})
		}
		eventually(t, "ten wait", func() bool { return n.Waiting() == 10 })
		if _, err := n.Submit(t.Context(), submission(w)); !errors.Is(err, errkind.ErrBusy) {
			t.Errorf("beyond the bound: %v", err)
		}
		if _, err := n.SubmitAll(t.Context(), []engine.Submission{submission(w), submission(w)}); !errors.Is(err, errkind.ErrBusy) {
			t.Errorf("several beyond the bound: %v", err)
		}
		h.end(k, success())
	}, 11)
	wg.Wait()
	n.ends(id, dag.RunSucceeded)
	// A list that is larger than the bound is accepted if no submission waits.
	many := make([]engine.Submission, 50)
	for i := range many {
		many[i] = submission(w)
	}
	if _, err := n.SubmitAll(t.Context(), many); err != nil {
		t.Errorf("a long list: %v", err)
	}
}

// TestNoStarvation floods the inbox with submissions: ready tasks are assigned in the same transactions.
func TestNoStarvation(t *testing.T) {
	h := newHands(t)
	h.held = true
	n := start(t, openMemory(t), h, func(c *engine.Config) { c.Slots = 1 << 20 })
	w := n.apply("w", graph(t, "a"))
	flood := make([]engine.Submission, 10*engine.TakeMax)
	for i := range flood {
		flood[i] = submission(w)
	}
	before := n.Stats().Commits.Load()
	if _, err := n.SubmitAll(t.Context(), flood); err != nil {
		t.Fatal(err)
	}
	took := n.Stats().Commits.Load() - before
	if started := h.starts(); started < len(flood)/2 {
		t.Errorf("%d of %d tasks were handed out while submissions came, in %d transactions", started, len(flood), took)
	}
	n.sound()
}

// TestCallerGone: a caller stops waiting. The run may exist, and a call with the same key finds out.
func TestCallerGone(t *testing.T) {
	n := start(t, openMemory(t), newHands(t))
	w := n.apply("w", graph(t, "a"))
	s := submission(w)
	s.Key = "k"
	ctx, cancel := context.WithCancel(t.Context())
	n.together(func() {
		done := make(chan struct{})
		go func() {
			defer close(done)
			if _, err := n.Submit(ctx, s); !errors.Is(err, errkind.ErrUnavailable) || !errors.Is(err, context.Canceled) {
				t.Errorf("a caller that gave up: %v", err)
			}
			if _, err := n.SubmitAll(ctx, []engine.Submission{s}); !errors.Is(err, errkind.ErrUnavailable) {
				t.Errorf("a caller that gave up: %v", err)
			}
		}()
		eventually(t, "it waits", func() bool { return n.Waiting() > 0 })
		cancel()
		<-done
	}, 2)
	a, err := n.Submit(t.Context(), s)
	if err != nil || !a.Existing {
		t.Errorf("with the key: %+v %v", a, err)
	}
	n.quiet()
	if got := n.Stats().RunsAccepted.Load(); got != 1 {
		t.Errorf("%d runs were accepted", got)
	}
}

// TestOrder: with one slot, runs are ordered by priority and then by submission. The tasks of a run are
// ordered by their own priority, and then by the time at which they became ready.
func TestOrder(t *testing.T) {
	h := newHands(t)
	h.held = true
	n := start(t, openMemory(t), h, func(c *engine.Config) { c.Slots = 1 })
	g := graph(t, "low; high; also low; after high: high", func(s *dag.GraphSpec) {
		s.Tasks[0].Policy.Priority, s.Tasks[2].Policy.Priority = dag.Low, dag.Low
		s.Tasks[1].Policy.Priority, s.Tasks[3].Policy.Priority = dag.High, dag.High
	})
	w := n.apply("w", g)
	level := func(p dag.Priority) func(*engine.Submission) { return func(s *engine.Submission) { s.Priority = p } }
	blocker := n.submit(n.apply("x", graph(t, "x")), level(dag.Lowest))
	first := h.holding(1)[0]
	if first.run != blocker {
		t.Fatal("the first is not first")
	}
	var runs []dag.RunID
	for _, p := range []dag.Priority{dag.Low, dag.Medium, dag.Highest, dag.Medium, dag.Lowest} {
		runs = append(runs, n.submit(w, level(p)))
	}
	var want []string
	for _, i := range []int{2, 1, 3, 0, 4} {
		for _, task := range []int{1, 3, 0, 2} {
			want = append(want, fmt.Sprint(runs[i], task))
		}
	}
	h.end(first, success())
	var got []string
	for range want {
		k := h.holding(1)[0]
		got = append(got, fmt.Sprint(k.run, k.task))
		h.end(k, success())
	}
	if !slices.Equal(got, want) {
		t.Errorf("the order is\n%v, want\n%v", got, want)
	}
	n.quiet()
}

// TestAgeing: a run of the lowest level has waited for four ageing times. It has reached the highest level,
// and comes before younger runs of that level.
func TestAgeing(t *testing.T) {
	const ageing = time.Microsecond // the instants of two submissions differ by more
	h := newHands(t)
	h.held = true
	n := start(t, openMemory(t), h, func(c *engine.Config) { c.Slots, c.Ageing = 1, ageing })
	w := n.apply("w", graph(t, "a"))
	n.submit(w)
	first := h.holding(1)[0]
	old := n.submit(w, func(s *engine.Submission) { s.Priority = dag.Lowest })
	now := func() dag.Micros { row, _ := n.RunRow(t.Context(), n.submit(w)); return row.Created }
	row, _ := n.RunRow(t.Context(), old)
	eventually(t, "it has aged", func() bool { return now() > row.Created+10 })
	best := n.submit(w, func(s *engine.Submission) { s.Priority = dag.Highest })
	h.end(first, success())
	if k := h.holding(1)[0]; k.run != old {
		t.Errorf("the next is %s, want %s rather than %s", k.run, old, best)
	}
}

// TestLeaderWork splits graphs that are too large, or not known yet, outside of the shard's writer. A reload
// does the split again, once.
func TestLeaderWork(t *testing.T) {
	st := openSQLite(t)
	h := newHands(t)
	n := start(t, st, h, func(c *engine.Config) { c.Slots = 1 << 20 })
	w := n.apply("w", wide(t, engine.InlineMax+1))
	id := n.submit(w)
	n.ends(id, dag.RunSucceeded)
	n.quiet()
	v, err := n.GetRun(t.Context(), id)
	if err != nil || v.Leader.ID != n.Handler().ID || v.Counts[dag.Succeeded] != engine.InlineMax+1 {
		t.Errorf("the run: %+v %v", v, err)
	}
	as, err := n.Attempts(t.Context(), id, dag.LeaderTask)
	if err != nil || len(as) != 1 || as[0].State != dag.AttemptSucceeded {
		t.Errorf("Leader work: %+v %v", as, err)
	}
	paused := n.submit(w)
	if err := n.Do(t.Context(), engine.Command{Run: paused, Intent: dag.IntentPause}); err != nil && !errors.Is(err, errkind.ErrConflict) {
		t.Fatal(err)
	}
	n.close()
	next := newHands(t)
	next.past = h
	n = start(t, st, next, func(c *engine.Config) { c.Slots = 1 << 20 })
	if s := n.state(paused); !s.Terminal() {
		if err := n.Do(t.Context(), engine.Command{Run: paused, Intent: dag.IntentRun}); err != nil {
			t.Fatal(err)
		}
	}
	n.ends(paused, dag.RunSucceeded)
	n.quiet()
	if err := n.Ask(t.Context(), func() error {
		if l := n.Leading(); l != 0 {
			return fmt.Errorf("%d pieces of Leader work are remembered", l)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// TestShares floods every source: each source gets its share of the next transaction, and the others get the
// part that a source does not use.
func TestShares(t *testing.T) {
	for n, want := range map[int][4]int{
		10:             {10, 10, 10, 10},
		engine.TakeMax: {engine.TakeMax / 4, engine.TakeMax / 4, engine.TakeMax / 4, engine.TakeMax / 4},
	} {
		e, err := engine.New(t.Context(), engine.Config{Store: openMemory(t), Executor: newHands(t), Compile: compile, Slots: 1})
		if err != nil {
			t.Fatal(err)
		}
		if got := e.Shares(n); got != want {
			t.Errorf("of %d each: %v, want %v", n, got, want)
		}
	}
}
