package home_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/home"
	"skein.dev/skein/internal/store"
	workerv1 "skein.dev/skein/sdk/api/worker/v1"
)

// ending makes no job at first, as if its process were ending.
type ending struct {
	nothing
	asked *atomic.Int64
}

func (e ending) Job(ctx context.Context, a *engine.Assignment, t *store.Traits, quick bool) (*workerv1.Job, engine.Reading, error) {
	if e.asked.Add(1) == 1 {
		return nil, engine.Reading{}, home.ErrEnding
	}
	return e.nothing.Job(ctx, a, t, quick)
}

// TestEndingIsNoFailure: a process that ends before it has made the job of an attempt reports nothing about
// the attempt. The worker gets the job when it is attached again.
func TestEndingIsNoFailure(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	tn := newTown(t, 1, func(c *home.Config) { c.Jobs = ending{asked: &asked} })
	h := tn.hand(tn.nodes[0], "w", 1)
	run := tn.submit(tn.apply("w", dag.Anywhere))
	tn.until("the job was asked for", func() bool { return asked.Load() > 0 })
	h.register("w", 1)
	h.get(1)
	h.end(h.running[0])
	tn.until("the run has ended", func() bool { return tn.ended([]dag.RunID{run}) })
}

// slow makes the jobs of task t0 slowly. A call without quick waits until ctx ends or open is closed.
type slow struct {
	nothing
	open  chan struct{}
	waits *atomic.Int64
}

func (s slow) Job(ctx context.Context, a *engine.Assignment, t *store.Traits, quick bool) (*workerv1.Job, engine.Reading, error) {
	switch {
	case a.Name != "t0":
	case quick:
		return nil, engine.Reading{}, home.ErrSlow
	default:
		s.waits.Add(1)
		select {
		case <-s.open:
		case <-ctx.Done():
			return nil, engine.Reading{}, ctx.Err()
		}
	}
	return s.nothing.Job(ctx, a, t, quick)
}

// Refused says that an attempt was stopped if the making of its job was.
func (s slow) Refused(err error) dag.Result {
	if errors.Is(err, context.Canceled) {
		return dag.Result{State: dag.AttemptStopped, Cause: dag.CauseStopped, Finished: 1}
	}
	return s.nothing.Refused(err)
}

// TestSlowJob: a job that takes long to make delays no other job of its worker. The worker gets the job when
// it is made. A stop of the run ends the wait.
func TestSlowJob(t *testing.T) {
	t.Parallel()
	s := slow{open: make(chan struct{}), waits: &atomic.Int64{}}
	tn := newTown(t, 1, func(c *home.Config) { c.Jobs = s })
	h := tn.hand(tn.nodes[0], "w", 8)
	w := tn.apply("w", dag.Anywhere, dag.Anywhere, dag.Anywhere)
	run := tn.submit(w)
	h.get(2)
	for len(h.running) > 0 {
		if name := h.running[0].Task; name == 0 {
			t.Fatal("the slow job was given before it was made")
		}
		h.end(h.running[0])
	}
	tn.until("the slow job is being made", func() bool { return s.waits.Load() == 1 })
	stopped := tn.submit(w)
	h.get(2)
	tn.until("both slow jobs are being made", func() bool { return s.waits.Load() == 2 })
	tn.somewhere("the run is stopped", func(e *engine.Engine) error {
		return e.Do(t.Context(), engine.Command{Run: stopped, Intent: dag.IntentStop, Actor: "ada"})
	})
	for len(h.running) > 0 {
		h.end(h.running[0])
	}
	tn.until("the run has ended although the job cannot be made", func() bool {
		h.poll()
		row, err := tn.store.Run(t.Context(), stopped)
		return err == nil && row.State == dag.RunStopped
	})
	close(s.open)
	h.get(1)
	h.end(h.running[0])
	tn.until("the run has ended", func() bool { return tn.ended([]dag.RunID{run}) })
}
