package app

import (
	"container/list"
	"sync"
)

// lru keeps the values that were used last. A value never changes under its key, so two who load the same
// one at once do no harm.
type lru[K comparable, V any] struct {
	sizeMax int
	load    func(K) (V, error)

	mu    sync.Mutex // protects following fields
	order *list.List // of lruEntry, the one used last in front
	at    map[K]*list.Element
}

type lruEntry[K comparable, V any] struct {
	key   K
	value V
}

func newLRU[K comparable, V any](sizeMax int, load func(K) (V, error)) *lru[K, V] {
	return &lru[K, V]{sizeMax: sizeMax, load: load, order: list.New(), at: map[K]*list.Element{}}
}

func (c *lru[K, V]) get(key K) (V, error) {
	c.mu.Lock()
	if e := c.at[key]; e != nil {
		c.order.MoveToFront(e)
		v := e.Value.(lruEntry[K, V]).value
		c.mu.Unlock()
		return v, nil
	}
	c.mu.Unlock()
	v, err := c.load(key)
	if err != nil {
		return v, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at[key] == nil {
		c.at[key] = c.order.PushFront(lruEntry[K, V]{key, v})
	}
	for c.order.Len() > c.sizeMax {
		last := c.order.Back()
		delete(c.at, last.Value.(lruEntry[K, V]).key)
		c.order.Remove(last)
	}
	return v, nil
}
