package storetest

import (
	"context"
	"fmt"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// Fault is the outcome of a commit in a [Faulty] store.
type Fault uint8

// The faults.
const (
	NoFault     Fault = iota
	Lost              // returns ErrUnknown, and nothing was written
	Written           // returns ErrUnknown, and everything was written
	Unavailable       // returns ErrUnavailable, and nothing was written
	Refused           // returns ErrRefused, and nothing was written
)

// Faulty wraps a store and makes commits fail in the ways that occur in production. The most important one is
// a lost answer.
type Faulty struct {
	store.Store
	// Next returns the fault for a commit. It is called by the goroutine that commits. If it is nil, no
	// commit fails.
	Next func(b *store.Batch) Fault
}

// Commit implements store.Store.
func (f *Faulty) Commit(ctx context.Context, b *store.Batch) (dag.Micros, error) {
	fault := NoFault
	if f.Next != nil {
		fault = f.Next(b)
	}
	switch fault {
	case Lost:
		return 0, fmt.Errorf("commit: injected: %w", store.ErrUnknown)
	case Unavailable:
		return 0, fmt.Errorf("commit: injected: %w", store.ErrUnavailable)
	case Refused:
		return 0, fmt.Errorf("commit: injected: %w", store.ErrRefused)
	}
	now, err := f.Store.Commit(ctx, b)
	if fault == Written && err == nil {
		return 0, fmt.Errorf("commit: injected: %w", store.ErrUnknown)
	}
	return now, err
}
