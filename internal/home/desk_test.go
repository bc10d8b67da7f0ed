package home_test

import (
	"context"
	"sync/atomic"
	"testing"

	workerv1 "skein.dev/skein/api/worker/v1"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/home"
)

// ending makes no job at first, as if its process were ending.
type ending struct {
	nothing
	asked *atomic.Int64
}

func (e ending) Job(ctx context.Context, a *engine.Assignment) (*workerv1.Job, error) {
	if e.asked.Add(1) == 1 {
		return nil, home.ErrEnding
	}
	return e.nothing.Job(ctx, a)
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
