package trigger

import (
	"container/list"
	"sync"
)

// lru keeps the values that were used last, at most so many and of at most so many bytes.
// A value never changes under its key, so two who make the same one at once do no harm.
type lru[K comparable, V any] struct {
	entriesMax int
	bytesMax   int

	mu    sync.Mutex // protects following fields
	bytes int
	order *list.List // of lruEntry, the one used last in front
	at    map[K]*list.Element
}

type lruEntry[K comparable, V any] struct {
	key   K
	value V
	bytes int
}

func newLRU[K comparable, V any](entriesMax, bytesMax int) *lru[K, V] {
	return &lru[K, V]{entriesMax: entriesMax, bytesMax: bytesMax, order: list.New(), at: map[K]*list.Element{}}
}

func (c *lru[K, V]) get(key K) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.at[key]
	if e == nil {
		var none V
		return none, false
	}
	c.order.MoveToFront(e)
	return e.Value.(lruEntry[K, V]).value, true
}

// put keeps a value that costs so many bytes.
func (c *lru[K, V]) put(key K, value V, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at[key] != nil {
		return
	}
	c.at[key] = c.order.PushFront(lruEntry[K, V]{key, value, bytes})
	c.bytes += bytes
	for c.order.Len() > c.entriesMax || c.bytes > c.bytesMax && c.order.Len() > 1 {
		last := c.order.Back()
		old := last.Value.(lruEntry[K, V])
		delete(c.at, old.key)
		c.bytes -= old.bytes
		c.order.Remove(last)
	}
}
