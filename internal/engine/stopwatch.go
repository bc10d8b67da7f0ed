package engine

import (
	"context"
	"sync"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/host"
	"skein.dev/skein/internal/metric"
	"skein.dev/skein/internal/store"
)

// The operations of a store that are timed, as labels.
const (
	opCommit  = iota // a transaction of the writer
	opAcquire        // acquiring shards
	opLoad           // loading unfinished runs
	opRead           // a read of one run, or a list
	opClock          // a read of the store's clock: one round trip
	ops
)

var opNames = [ops]string{"commit", "acquire", "load", "read", "clock"}

// stopwatch is a store whose calls are timed.
type stopwatch struct {
	store.Store
	host host.Host

	mu    sync.Mutex // protects following fields
	times [ops]metric.Histogram
}

// timed starts a measurement, and returns the function that ends it.
func (s *stopwatch) timed(op int) func() {
	began := s.host.Now()
	return func() {
		took := s.host.Now().Sub(began)
		s.mu.Lock()
		s.times[op].Observe(took)
		s.mu.Unlock()
	}
}

func (s *stopwatch) show(p *metric.Page) {
	s.mu.Lock()
	times := s.times
	s.mu.Unlock()
	for op := range times {
		p.Histogram("store_seconds", &times[op], opNames[op])
	}
}

// Commit implements store.Store.
func (s *stopwatch) Commit(ctx context.Context, b *store.Batch) (dag.Micros, error) {
	defer s.timed(opCommit)()
	return s.Store.Commit(ctx, b)
}

// Acquire implements store.Store.
func (s *stopwatch) Acquire(ctx context.Context, owner dag.HandlerID, shards []dag.ShardID) ([]store.Acquired, error) {
	defer s.timed(opAcquire)()
	return s.Store.Acquire(ctx, owner, shards)
}

// Load implements store.Store.
func (s *stopwatch) Load(ctx context.Context, q store.LoadQuery) ([]store.RunRecord, error) {
	defer s.timed(opLoad)()
	return s.Store.Load(ctx, q)
}

// Run implements store.Store.
func (s *stopwatch) Run(ctx context.Context, id dag.RunID) (dag.RunRow, error) {
	defer s.timed(opRead)()
	return s.Store.Run(ctx, id)
}

// Runs implements store.Store.
func (s *stopwatch) Runs(ctx context.Context, q store.RunQuery) (store.RunPage, error) {
	defer s.timed(opRead)()
	return s.Store.Runs(ctx, q)
}

// Attempts implements store.Store.
func (s *stopwatch) Attempts(ctx context.Context, q store.AttemptQuery) ([]dag.AttemptRow, error) {
	defer s.timed(opRead)()
	return s.Store.Attempts(ctx, q)
}

// Clock implements store.Store.
func (s *stopwatch) Clock(ctx context.Context) (dag.Micros, error) {
	defer s.timed(opClock)()
	return s.Store.Clock(ctx)
}

const (
	// probeEvery is the shortest interval at which scrapes ask the store whether it answers. probeMax bounds
	// how long a scrape waits for the answer.
	probeEvery, probeMax = 5 * time.Second, time.Second
)

// prober returns a source of metrics that says whether the store answers.
func (s *stopwatch) prober() metric.Source {
	up := metric.NewCached(probeEvery, probeMax, func(ctx context.Context) (bool, error) {
		_, err := s.Clock(ctx)
		return err == nil, nil
	})
	return func(p *metric.Page) {
		is, _ := up.Get()
		p.Set("store_up", metric.Bool(is))
		s.show(p)
	}
}
