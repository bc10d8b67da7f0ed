package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/memory"
	"skein.dev/skein/internal/store/storetest"
)

// sick is a memory store that is full, or does not answer, while its switches are on.
type sick struct {
	full, away atomic.Bool
	commits    atomic.Int64
	unknown    atomic.Int64 // the commit whose answer is lost, although it is written
	thenFull   atomic.Bool  // the disk is full after that commit
}

func (s *sick) open(t *testing.T) store.Store {
	st := memory.New(memory.Options{Fault: func(op memory.Op) memory.Outcome {
		switch op.Kind {
		case memory.CommitBefore, memory.AcquireBefore:
			if s.full.Load() || s.away.Load() {
				return memory.FailBefore
			}
		case memory.CommitAfter:
			if s.commits.Add(1) == s.unknown.Load() {
				s.full.Store(s.thenFull.Load())
				return memory.UnknownWritten
			}
		case memory.Load, memory.Read, memory.Scan:
			if s.away.Load() {
				return memory.FailBefore
			}
		}
		return memory.OK
	}})
	t.Cleanup(func() { _ = st.Close() })
	return st
}

// TestDiskFull fills the disk during starts, commands and reports. Waiting calls are refused, reports are
// kept, and everything continues when there is room again.
func TestDiskFull(t *testing.T) {
	var s sick
	h := newHands(t)
	h.held = true
	n := start(t, s.open(t), h)
	w := n.apply("w", graph(t, "a; b: a"))
	var ids []dag.RunID
	for range 4 {
		ids = append(ids, n.submit(w))
	}
	as := h.holding(4)
	s.full.Store(true)
	for _, k := range as {
		h.end(k, dag.Result{State: dag.AttemptSucceeded})
	}
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			if _, err := n.Submit(t.Context(), submission(w)); !errors.Is(err, errkind.ErrUnavailable) {
				t.Errorf("a submission on a full disk: %v", err)
			}
		})
		wg.Go(func() {
			err := n.Do(t.Context(), engine.Command{Run: ids[0], Intent: dag.IntentPause})
			if !errors.Is(err, errkind.ErrUnavailable) {
				t.Errorf("a command on a full disk: %v", err)
			}
		})
		wg.Go(func() {
			if _, _, err := n.Apply(t.Context(), engine.Definition{Namespace: "test", Name: "new", Graph: wide(t, 1).Pack()}); !errors.Is(err, errkind.ErrUnavailable) {
				t.Errorf("a definition on a full disk: %v", err)
			}
		})
	}
	wg.Wait()
	if err := n.Accepting(); !errors.Is(err, errkind.ErrUnavailable) || !strings.Contains(n.State(), "retaking") {
		t.Errorf("accepting: %v, state %q", err, n.State())
	}
	if _, err := n.GetRun(t.Context(), ids[1]); err != nil {
		t.Errorf("reading on a full disk: %v", err)
	}
	s.full.Store(false)
	for _, k := range h.holding(4) {
		h.end(k, dag.Result{State: dag.AttemptSucceeded})
	}
	for _, id := range ids {
		n.ends(id, dag.RunSucceeded)
	}
	n.quiet()
	if got := n.Stats().RunsAccepted.Load(); got != 4 {
		t.Errorf("%d runs were accepted", got)
	}
}

// TestUnknownCommits loses the answer of every single commit of a workload, in turn.
func TestUnknownCommits(t *testing.T) {
	for k := range int64(12) {
		var s sick
		s.unknown.Store(k + 1)
		h := newHands(t)
		n := start(t, s.open(t), h)
		all := n.Watch(dag.RunID{})
		w := n.apply("w", graph(t, "a; b: a"))
		var ids []dag.RunID
		for range 6 {
			s := submission(w)
			s.ID = engine.NewRunID()
			ids = append(ids, s.ID)
			for { // submissions are refused while the shards are being taken again
				_, err := n.Submit(t.Context(), s)
				if err == nil {
					break
				}
				if !errors.Is(err, errkind.ErrUnavailable) {
					t.Fatal(err)
				}
			}
		}
		ended := map[dag.RunID]bool{}
		for len(ended) < len(ids) { // the end of every run is published, also if the answer to its commit was lost
			notice := <-all.C
			for _, rec := range notice.Records {
				if rec.Kind == dag.RecState {
					ended[notice.Run] = true
				}
			}
		}
		n.quiet()
		if got := n.Stats(); got.RunsAccepted.Load() != 6 || got.RunsEnded.Load() != 6 || got.AttemptsEnded.Load() != 12 {
			t.Errorf("%d accepted, %d ended, %d attempts", got.RunsAccepted.Load(), got.RunsEnded.Load(), got.AttemptsEnded.Load())
		}
		n.close()
	}
}

// TestAwayAtStart starts while the store does not answer: the engine waits for the store and logs this, and
// callers are refused meanwhile.
func TestAwayAtStart(t *testing.T) {
	var s sick
	st := s.open(t)
	h := newHands(t)
	h.held = true
	n := start(t, st, h)
	w := n.apply("w", graph(t, "a"))
	id := n.submit(w)
	h.holding(1)
	n.close()

	next := newHands(t)
	next.past = h
	cfg := engine.Config{Store: st, Executor: next, Compile: compile, Slots: 2}
	e, err := engine.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	next.e = e
	s.away.Store(true)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	eventually(t, "it says that it waits", func() bool { return strings.Contains(e.State(), "retaking") })
	if _, err := e.Submit(t.Context(), submission(w)); !errors.Is(err, errkind.ErrUnavailable) {
		t.Errorf("a submission: %v", err)
	}
	s.away.Store(false)
	<-e.Ready()
	eventually(t, "the run ends", func() bool { row, err := st.Run(t.Context(), id); return err == nil && row.State == dag.RunSucceeded })
	stop()
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
	next.wg.Wait()
}

// TestStopWhileAway ends the engine while the store does not answer. Every caller gets an answer, and Run
// returns.
func TestStopWhileAway(t *testing.T) {
	for _, unknown := range []bool{false, true} {
		var s sick
		h := newHands(t)
		n := start(t, s.open(t), h)
		w := n.apply("w", graph(t, "a"))
		answered := make(chan error, 20)
		n.together(func() {
			for range 20 {
				go func() {
					_, err := n.Submit(context.Background(), submission(w))
					answered <- err
				}()
			}
			eventually(t, "they wait", func() bool { return n.Waiting() >= 20 })
			s.full.Store(!unknown)
			s.thenFull.Store(true)
			s.unknown.Store(s.commits.Load() + 1)
		}, 20)
		if !unknown {
			for range 20 {
				if err := <-answered; !errors.Is(err, errkind.ErrUnavailable) {
					t.Errorf("an answer: %v", err)
				}
			}
		}
		if unknown { // the outcome is unknown, and no caller gets an answer until the engine ends
			eventually(t, "the answer is lost", s.full.Load)
		}
		n.close()
		if unknown {
			for range 20 {
				if err := <-answered; !errors.Is(err, errkind.ErrUnavailable) || !strings.Contains(err.Error(), "knew whether") {
					t.Errorf("an answer: %v", err)
				}
			}
		}
	}
}

// TestStopUnderLoad ends the engine under load. The next engine continues.
func TestStopUnderLoad(t *testing.T) {
	st := openMemory(t)
	h := newHands(t)
	n := start(t, st, h, func(c *engine.Config) { c.Slots = 1 << 20 })
	w := n.apply("w", wide(t, 9000))
	id := n.submit(w)
	eventually(t, "some of it runs", func() bool { return h.starts() > 0 })
	n.close()
	next := newHands(t)
	next.past = h
	n = start(t, st, next, func(c *engine.Config) { c.Slots = 1 << 20 })
	n.ends(id, dag.RunSucceeded)
	n.quiet()
}

// TestSplitWhileAway: Leader work cannot read its version for a while. The run does not fail because of that.
func TestSplitWhileAway(t *testing.T) {
	var s sick
	st := s.open(t)
	h := newHands(t)
	n := start(t, st, h)
	w := n.apply("w", graph(t, "a"))
	n.close()
	lazy := &versions{Store: st}
	lazy.fail.Store(3)
	next := newHands(t)
	n = start(t, lazy, next)
	n.ends(n.submit(w), dag.RunSucceeded)
	s.away.Store(false)
	if lazy.fail.Load() > 0 {
		t.Error("the version was read at once")
	}
	lazy.fail.Store(0)
	bad := submission(w)
	bad.Version = 9
	a, err := n.Submit(t.Context(), bad)
	if err != nil {
		t.Fatal(err)
	}
	n.ends(a.Run, dag.RunFailed)
	if row, _ := n.RunRow(t.Context(), a.Run); row.Cause != dag.CauseSplit || row.Message == "" {
		t.Errorf("a version that does not exist: %s %q", row.Cause, row.Message)
	}
	n.quiet()
}

// versions is a store in which the first reads of versions fail.
type versions struct {
	store.Store
	fail atomic.Int64
}

func (v *versions) Version(ctx context.Context, w dag.WorkflowID, n int32) (store.Version, error) {
	if v.fail.Add(-1) >= 0 {
		return store.Version{}, fmt.Errorf("not now: %w", store.ErrUnavailable)
	}
	return v.Store.Version(ctx, w, n)
}

// TestFenced: another handler takes the shards. The engine notices it at its next transaction, writes
// nothing under the old epoch, and takes them back.
func TestFenced(t *testing.T) {
	st := openMemory(t)
	n := start(t, st, newHands(t))
	w := n.apply("w", graph(t, "a; b: a"))
	n.ends(n.submit(w), dag.RunSucceeded)
	other, err := st.Register(t.Context(), "4cf1f1b1-97c1-4a3e-9a58-6a4b3c2d1e0f", "other")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Acquire(t.Context(), other.ID, []dag.ShardID{0}); err != nil {
		t.Fatal(err)
	}
	n.ends(n.submit(w), dag.RunSucceeded)
	n.quiet()
	if n.Stats().Retaken.Load() != 1 {
		t.Errorf("retaken %d times", n.Stats().Retaken.Load())
	}
}

// TestFirstCommits: if the first transaction fails, the engine must not believe that it has committed.
func TestFirstCommits(t *testing.T) {
	for _, f := range []storetest.Fault{storetest.Lost, storetest.Written, storetest.Unavailable} {
		first := true
		st := &storetest.Faulty{Store: openMemory(t), Next: func(*store.Batch) storetest.Fault {
			if first {
				first = false
				return f
			}
			return storetest.NoFault
		}}
		n := start(t, st, newHands(t))
		d := engine.Definition{Namespace: "test", Name: "w", Graph: wide(t, 1).Pack(), Digest: []byte("1")}
		w, created, err := n.Apply(t.Context(), d)
		if f == storetest.Unavailable {
			if !errors.Is(err, errkind.ErrUnavailable) {
				t.Fatalf("apply: %v", err)
			}
			eventually(t, "it accepts again", func() bool { return n.Accepting() == nil })
			w, created, err = n.Apply(t.Context(), d)
		}
		if err != nil || !created || w.Version != 1 {
			t.Fatalf("apply: %+v %v %v", w, created, err)
		}
		n.ends(n.submit(w), dag.RunSucceeded)
		n.quiet()
		n.close()
	}
}

// TestBarrier: more reports arrive than one transaction takes. The barrier returns after all of them.
func TestBarrier(t *testing.T) {
	const tasks = 3 * engine.TakeMax
	h := newHands(t)
	h.held = true
	n := start(t, openMemory(t), h, func(c *engine.Config) { c.Slots = tasks })
	id := n.submit(n.apply("w", wide(t, tasks)))
	as := h.holding(tasks)
	passed := make(chan error, 1)
	n.together(func() {
		for _, k := range as {
			h.end(k, success())
		}
		go func() { passed <- n.Barrier(t.Context()) }()
	}, tasks+1)
	if err := <-passed; err != nil {
		t.Fatal(err)
	}
	if s := n.state(id); s != dag.RunSucceeded {
		t.Errorf("behind the barrier the run is %s", s)
	}
	n.close()
	if err := n.Barrier(t.Context()); !errors.Is(err, errkind.ErrUnavailable) {
		t.Errorf("a barrier of a stopped engine: %v", err)
	}
}
