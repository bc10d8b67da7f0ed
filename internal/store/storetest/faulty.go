package storetest

import (
	"context"
	"fmt"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// Fault is the outcome that a [Faulty] store gives to a commit.
type Fault uint8

// The faults.
const (
	NoFault     Fault = iota
	Lost              // ErrUnknown, and nothing was written
	Written           // ErrUnknown, and all of it was written
	Unavailable       // ErrUnavailable, and nothing was written
	Refused           // ErrRefused, and nothing was written
)

// Faulty wraps a store and makes commits fail as they can fail in production. Above all, it loses answers.
type Faulty struct {
	store.Store
	// Next returns the fault of each commit. The goroutine that commits calls it. If it is nil, no commit
	// fails.
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
