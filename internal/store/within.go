package store

import (
	"context"
	"time"
)

type patienceKey struct{}

// Within has each single read under a context end after a time, as ErrUnavailable and context.DeadlineExceeded, in an
// engine whose database may be away or frozen. The context itself goes on: it may wait, and read again. 0: a read takes as long as it
// takes.
func Within(ctx context.Context, patience time.Duration) context.Context {
	return context.WithValue(ctx, patienceKey{}, patience)
}

// Patience is for how long one read under a context may take; 0: there is no bound.
func Patience(ctx context.Context) time.Duration {
	patience, _ := ctx.Value(patienceKey{}).(time.Duration)
	return patience
}
