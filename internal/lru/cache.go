// Package lru keeps the values that were used last: [Cache] for values that the caller makes, [Loader] for
// values that are loaded on demand.
package lru

import (
	"container/list"
	"sync"
)

// Cache keeps a bounded number of values, and a bounded number of bytes. The value of a key never changes, so
// two callers that make the same value at the same time do no harm. A Cache is safe for concurrent use.
type Cache[K comparable, V any] struct {
	entriesMax int
	bytesMax   int

	mu    sync.Mutex // protects following fields
	bytes int
	order *list.List // list of entries; the front was used last
	at    map[K]*list.Element
}

type entry[K comparable, V any] struct {
	key   K
	value V
	bytes int
}

// New returns a Cache of at most entriesMax values. While the values have more than bytesMax bytes in all, it
// drops the value that was used longest ago. It always keeps one value, whatever its size.
func New[K comparable, V any](entriesMax, bytesMax int) *Cache[K, V] {
	return &Cache[K, V]{entriesMax: entriesMax, bytesMax: bytesMax, order: list.New(), at: map[K]*list.Element{}}
}

// Get returns the value of a key and marks it as used.
func (c *Cache[K, V]) Get(key K) (value V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.at[key]
	if e == nil {
		return value, false
	}
	c.order.MoveToFront(e)
	return e.Value.(entry[K, V]).value, true
}

// Put keeps a value that takes the given number of bytes. If the key has a value already, that one stays.
func (c *Cache[K, V]) Put(key K, value V, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at[key] != nil {
		return
	}
	c.at[key] = c.order.PushFront(entry[K, V]{key, value, bytes})
	c.bytes += bytes
	for c.order.Len() > c.entriesMax || c.bytes > c.bytesMax && c.order.Len() > 1 {
		last := c.order.Remove(c.order.Back()).(entry[K, V])
		delete(c.at, last.key)
		c.bytes -= last.bytes
	}
}

// Clear drops all values.
func (c *Cache[K, V]) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.order.Init()
	clear(c.at)
	c.bytes = 0
}

// Len returns the number of values that are kept.
func (c *Cache[K, V]) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.order.Len()
}
