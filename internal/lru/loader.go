package lru

import (
	"errors"
	"math"
	"sync"
)

// Loader keeps the values that were used last and loads the others. Callers that ask for one key at the same
// time share one load, because thousands of tasks of one version may begin together. A Loader is safe for
// concurrent use.
type Loader[K comparable, V any] struct {
	kept *Cache[K, V]
	load func(K) (V, error)

	mu      sync.Mutex // protects following fields
	pending map[K]*pending[V]
}

// pending is a value that is being loaded. value and err are set before done is closed.
type pending[V any] struct {
	done  chan struct{}
	value V
	err   error
}

// errPanicked is the error of the other callers when a load panics.
var errPanicked = errors.New("the load panicked")

// NewLoader returns a Loader of at most entriesMax values. A load that fails is not kept: the next Get
// loads again.
func NewLoader[K comparable, V any](entriesMax int, load func(K) (V, error)) *Loader[K, V] {
	return &Loader[K, V]{kept: New[K, V](entriesMax, math.MaxInt), load: load, pending: map[K]*pending[V]{}}
}

// Get returns the value of a key; it loads the value or waits for the caller that is loading it.
func (l *Loader[K, V]) Get(key K) (V, error) {
	l.mu.Lock()
	if v, ok := l.kept.Get(key); ok {
		l.mu.Unlock()
		return v, nil
	}
	p := l.pending[key]
	first := p == nil
	if first {
		p = &pending[V]{done: make(chan struct{}), err: errPanicked}
		l.pending[key] = p
	}
	l.mu.Unlock()
	if !first {
		<-p.done
		return p.value, p.err
	}
	defer l.finish(key, p) // deferred, so that a load that panics releases the other callers
	p.value, p.err = l.load(key)
	return p.value, p.err
}

// Clear drops all values. A load that has begun is not kept.
func (l *Loader[K, V]) Clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept.Clear()
	clear(l.pending)
}

func (l *Loader[K, V]) finish(key K, p *pending[V]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pending[key] != p { // cleared since
		close(p.done)
		return
	}
	delete(l.pending, key)
	if p.err == nil {
		l.kept.Put(key, p.value, 0)
	}
	close(p.done)
}
