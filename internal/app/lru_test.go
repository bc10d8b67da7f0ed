package app

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
)

// TestLRULoadsOnce: of many who ask for a value at once, one loads it; a load that failed is tried again.
func TestLRULoadsOnce(t *testing.T) {
	var loads atomic.Int64
	gate := make(chan struct{})
	c := newLRU(2, func(key int) (int, error) {
		loads.Add(1)
		<-gate
		if key < 0 {
			return 0, errors.New("no such value")
		}
		return 2 * key, nil
	})
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			if v, err := c.get(21); v != 42 || err != nil {
				t.Error(v, err)
			}
		})
	}
	close(gate)
	wg.Wait()
	if n := loads.Load(); n != 1 {
		t.Errorf("%d loads", n)
	}
	for range 2 {
		if _, err := c.get(-1); err == nil {
			t.Error("a load that failed gave a value")
		}
	}
	for _, key := range []int{1, 2, 21} { // 21 was put out by these
		if v, err := c.get(key); v != 2*key || err != nil {
			t.Error(v, err)
		}
	}
	if n := loads.Load(); n != 6 {
		t.Errorf("%d loads in all", n)
	}
}
