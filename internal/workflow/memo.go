package workflow

import (
	"crypto/sha256"
	"encoding/binary"
	"sync"

	"skein.dev/skein/internal/dag"
)

const (
	// memoMax bounds the cached results of conditions that cost more than a step may.
	memoMax = 20_000
	// costlyMax bounds how many such conditions are evaluated at the same time, for all callers together.
	costlyMax = 2
)

// memo caches the results of conditions that cost more than a step may. A condition is a pure function of the
// values that it reads. So the shard, every reader and every sweep of a node share the results, and a
// condition is not evaluated twice for the same values.
type memo struct {
	once  sync.Once
	turns chan struct{} // cap costlyMax

	mu    sync.Mutex // protects following fields
	known map[[sha256.Size]byte]result
}

type result struct {
	holds bool
	err   error
}

// of returns the result of a condition for a view.
func (m *memo) of(c *condition, v *dag.View) (bool, error) {
	if m == nil {
		return c.full(v)
	}
	key := c.seen(v)
	if r, ok := m.get(key); ok {
		return r.holds, r.err
	}
	m.once.Do(func() { m.turns = make(chan struct{}, costlyMax) })
	m.turns <- struct{}{}
	defer func() { <-m.turns }()
	if r, ok := m.get(key); ok { // another goroutine has stored the result meanwhile
		return r.holds, r.err
	}
	holds, err := c.full(v)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil || len(m.known) >= memoMax {
		m.known = map[[sha256.Size]byte]result{}
	}
	m.known[key] = result{holds, err}
	return holds, err
}

func (m *memo) get(key [sha256.Size]byte) (result, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.known[key]
	return r, ok
}

// seen returns a hash of the condition and of all values that it reads.
func (c *condition) seen(v *dag.View) (key [sha256.Size]byte) {
	h := sha256.New()
	put := func(b []byte) {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(b))))
		h.Write(b)
	}
	put([]byte(c.source))
	flags := byte(0)
	if v.Success {
		flags |= 1
	}
	if v.Failure {
		flags |= 2
	}
	put([]byte{flags})
	if c.reads.Params {
		put(v.Params)
	}
	for _, name := range c.reads.Tasks {
		state, outputs := v.Task(name)
		put([]byte{byte(state)})
		put(outputs)
	}
	h.Sum(key[:0])
	return key
}
