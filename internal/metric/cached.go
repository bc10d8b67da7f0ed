package metric

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// Cached is a reading that is repeated at most once in an interval, however often it is shown.
type Cached[T any] struct {
	every, most time.Duration
	read        func(context.Context) (T, error)

	mu   sync.Mutex // protects following fields
	at   time.Time
	last T
	ok   bool
}

// NewCached returns a reading that is repeated when it is older than every. The parameter most bounds the
// time of one reading.
func NewCached[T any](every, most time.Duration, read func(context.Context) (T, error)) *Cached[T] {
	return &Cached[T]{every: every, most: most, read: read}
}

// Get returns the last successful reading. It returns false if there is none yet.
func (c *Cached[T]) Get() (T, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); c.at.IsZero() || now.Sub(c.at) > c.every {
		ctx, cancel := context.WithTimeout(context.Background(), c.most)
		defer cancel()
		if v, err := c.read(ctx); err == nil {
			c.last, c.ok = v, true
		}
		c.at = now
	}
	return c.last, c.ok
}

// Largest returns the keys with the largest values, at most limit of them, in the order of the values.
func Largest[K cmp.Ordered](of map[K]int64, limit int) []K {
	keys := slices.SortedFunc(maps.Keys(of), func(a, b K) int { return cmp.Or(cmp.Compare(of[b], of[a]), cmp.Compare(a, b)) })
	return keys[:min(len(keys), limit)]
}
