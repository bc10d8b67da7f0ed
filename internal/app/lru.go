package app

import (
	"container/list"
	"errors"
	"sync"
)

// lru keeps the values that were used last. A value never changes under its key. Who asks for one that
// somebody else is loading waits for it: thousands of tasks of one version may begin at once.
type lru[K comparable, V any] struct {
	sizeMax int
	load    func(K) (V, error)

	mu    sync.Mutex // protects following fields
	order *list.List // of lruEntry, the one used last in front
	at    map[K]*list.Element
	under map[K]*loading[V]
}

// loading is a value on its way.
type loading[V any] struct {
	done  chan struct{}
	value V
	err   error
}

type lruEntry[K comparable, V any] struct {
	key   K
	value V
}

func newLRU[K comparable, V any](sizeMax int, load func(K) (V, error)) *lru[K, V] {
	return &lru[K, V]{sizeMax: sizeMax, load: load, order: list.New(), at: map[K]*list.Element{}, under: map[K]*loading[V]{}}
}

func (c *lru[K, V]) get(key K) (V, error) {
	c.mu.Lock()
	if e := c.at[key]; e != nil {
		c.order.MoveToFront(e)
		v := e.Value.(lruEntry[K, V]).value
		c.mu.Unlock()
		return v, nil
	}
	l := c.under[key]
	mine := l == nil
	if mine {
		l = &loading[V]{done: make(chan struct{}), err: errNotLoaded}
		c.under[key] = l
	}
	c.mu.Unlock()
	if !mine {
		<-l.done
		return l.value, l.err
	}
	defer c.loaded(key, l) // also of a load that panics
	l.value, l.err = c.load(key)
	return l.value, l.err
}

var errNotLoaded = errors.New("it could not be loaded")

// loaded keeps what was loaded and lets those go on who wait for it.
func (c *lru[K, V]) loaded(key K, l *loading[V]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(l.done)
	delete(c.under, key)
	if l.err != nil {
		return
	}
	c.at[key] = c.order.PushFront(lruEntry[K, V]{key, l.value})
	for c.order.Len() > c.sizeMax {
		last := c.order.Back()
		delete(c.at, last.Value.(lruEntry[K, V]).key)
		c.order.Remove(last)
	}
}
