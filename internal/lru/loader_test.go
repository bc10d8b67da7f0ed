package lru

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// TestLoaderLoadsOnce checks that callers share one load, and that a load that failed is tried again.
func TestLoaderLoadsOnce(t *testing.T) {
	var loads atomic.Int64
	gate := make(chan struct{})
	c := NewLoader(2, func(key int) (int, error) {
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
			if v, err := c.Get(21); v != 42 || err != nil {
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
		if _, err := c.Get(-1); err == nil {
			t.Error("a load that failed gave a value")
		}
	}
	for _, key := range []int{1, 2, 21} { // the first two push 21 out
		if v, err := c.Get(key); v != 2*key || err != nil {
			t.Error(v, err)
		}
	}
	if n := loads.Load(); n != 6 {
		t.Errorf("%d loads in all", n)
	}
}

// TestLoaderKeepsTheLastUsed checks which value is dropped.
func TestLoaderKeepsTheLastUsed(t *testing.T) {
	loads := map[int]int{}
	c := NewLoader(2, func(k int) (int, error) { loads[k]++; return 10 * k, nil })
	for _, k := range []int{1, 2, 1, 3, 1, 2} { // 3 pushes out 2, then 2 pushes out 3
		if v, err := c.Get(k); v != 10*k || err != nil {
			t.Errorf("%d gave %d, %v", k, v, err)
		}
	}
	if loads[1] != 1 || loads[2] != 2 || loads[3] != 1 {
		t.Errorf("loads %v", loads)
	}
}

// TestLoaderPanic checks that a load that panics gives an error to the other callers.
func TestLoaderPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		c := NewLoader(2, func(int) (int, error) {
			<-release
			panic("load")
		})
		var panics, failures atomic.Int64
		for range 2 {
			go func() {
				defer func() {
					if recover() != nil {
						panics.Add(1)
					}
				}()
				if _, err := c.Get(1); errors.Is(err, errPanicked) {
					failures.Add(1)
				}
			}()
		}
		synctest.Wait()
		close(release)
		synctest.Wait()
		if panics.Load() != 1 || failures.Load() != 1 {
			t.Errorf("%d callers panicked and %d got the error", panics.Load(), failures.Load())
		}
	})
}

// TestCacheEntries checks the bound of values.
func TestCacheEntries(t *testing.T) {
	c := New[int, []byte](3, 100)
	for i := range 10 {
		c.Put(i, make([]byte, 10), 10)
	}
	if _, ok := c.Get(9); !ok || c.Len() != 3 || len(c.at) != 3 || c.bytes != 30 {
		t.Errorf("%d values, %d bytes", c.Len(), c.bytes)
	}
}

// TestCacheBytes checks the bound of bytes.
func TestCacheBytes(t *testing.T) {
	c := New[int, string](10, 100)
	c.Put(1, "a", 60)
	c.Put(2, "b", 60)
	if _, ok := c.Get(1); ok {
		t.Error("120 bytes are kept")
	}
	c.Put(3, "large", 1000)
	if v, ok := c.Get(3); !ok || v != "large" {
		t.Error("the newest value is not kept")
	}
	if _, ok := c.Get(2); ok || c.bytes != 1000 {
		t.Errorf("%d bytes are kept", c.bytes)
	}
}
