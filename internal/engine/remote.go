package engine

import (
	"context"
	"slices"
	"time"

	"skein.dev/skein/internal/dag"
)

// A node is not notified of commits on shards that it does not own, so it polls the store for the watchers of
// runs there. This file is not related to package remote, which is the worker on another machine.

// remotePoll is the interval at which this node reads the store for a watcher.
const remotePoll = 250 * time.Millisecond

// readFor reads the store for a subscription until stop is called. stop waits for the end of the read.
func (e *Engine) readFor(s *Subscription) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		e.read(ctx, s)
	}()
	return func() {
		cancel()
		<-ended
	}
}

func (e *Engine) read(ctx context.Context, s *Subscription) {
	tick := time.NewTicker(remotePoll)
	defer tick.Stop()
	row, err := e.store.Run(ctx, s.run)
	told := err == nil && e.skip(ctx, s)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		switch {
		case err != nil: // the store did not answer
			if row, err = e.store.Run(ctx, s.run); err == nil {
				told = e.skip(ctx, s)
			}
		case !told:
			told = e.skip(ctx, s)
		case !slices.Contains(e.owned(), row.Shard):
			e.tellFromStore(ctx, s)
		}
	}
}

// skip passes over the events that were committed before the subscription began. It may also pass over later
// events, so it notifies the subscriber to read again.
func (e *Engine) skip(ctx context.Context, s *Subscription) bool {
	if !e.eachEvent(ctx, s, func(dag.EventRow) {}) {
		return false
	}
	e.hub.mu.Lock()
	defer e.hub.mu.Unlock()
	if e.hub.openLocked(s) && !s.lost && len(s.c) < cap(s.c) {
		s.lost = true
		s.c <- Notice{Run: s.run, Lost: true}
	}
	return true
}

// tellFromStore sends to the subscription those events in the store that it does not have yet.
func (e *Engine) tellFromStore(ctx context.Context, s *Subscription) {
	e.eachEvent(ctx, s, func(row dag.EventRow) {
		records, err := dag.UnpackRecords(row.Records)
		if err != nil {
			return // skein verify reports the damaged row
		}
		e.hub.mu.Lock()
		defer e.hub.mu.Unlock()
		if e.hub.openLocked(s) {
			s.push(Notice{Seq: row.Seq, Run: row.Run, At: row.At, Records: records})
		}
	})
}

func (e *Engine) eachEvent(ctx context.Context, s *Subscription, see func(dag.EventRow)) bool {
	for {
		e.hub.mu.Lock()
		after := s.seq
		e.hub.mu.Unlock()
		rows, err := e.store.Events(ctx, s.run, after, loadPage)
		if err != nil {
			return false
		}
		for _, row := range rows {
			see(row)
			e.hub.mu.Lock()
			s.seq = max(s.seq, row.Seq)
			e.hub.mu.Unlock()
		}
		if len(rows) < loadPage {
			return true
		}
	}
}
