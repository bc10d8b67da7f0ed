package store

import (
	"context"
	"time"
)

type patienceKey struct{}

// Within bounds the time of each single read under a context. A read that takes longer returns ErrUnavailable
// and context.DeadlineExceeded. It matters for an engine whose database may be unreachable or frozen. The
// context itself stays valid, so the caller may wait and read again. A patience of 0 sets no bound.
func Within(ctx context.Context, patience time.Duration) context.Context {
	return context.WithValue(ctx, patienceKey{}, patience)
}

// Patience returns the bound of one read under a context. It returns 0 if there is none.
func Patience(ctx context.Context) time.Duration {
	patience, _ := ctx.Value(patienceKey{}).(time.Duration)
	return patience
}
