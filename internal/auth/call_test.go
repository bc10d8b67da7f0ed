package auth

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestWatch: each call is checked again every recheckEach until it ends, whatever calls begin and end between
// two checks. A call whose credential has ended gets the reason, and no call is checked after its end.
func TestWatch(t *testing.T) { synctest.Test(t, watches) }

func watches(t *testing.T) {
	began := time.Now()
	var mu sync.Mutex // protects checks and lost
	var checks []string
	lost := map[*call]error{}
	names := map[*call]string{}
	var w watch
	w.lost = func(k *call) error {
		mu.Lock()
		defer mu.Unlock()
		checks = append(checks, fmt.Sprint(names[k], " ", time.Since(began)))
		return lost[k]
	}
	begin := func(name string) *call {
		ctx, cancel := context.WithCancelCause(t.Context())
		k := &call{Context: ctx, cancel: cancel}
		names[k] = name
		w.begin(k)
		return k
	}
	end := func(k *call) {
		k.cancel(nil)
		w.end(k)
	}
	until := func(d time.Duration, want ...string) {
		t.Helper()
		time.Sleep(d - time.Since(began))
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if fmt.Sprint(checks) != fmt.Sprint(want) {
			t.Errorf("checks until %v: %q, want %q", d, checks, want)
		}
		checks = nil
	}
	short := begin("short")
	a := begin("a")
	end(short)
	until(500 * time.Millisecond)
	b := begin("b")
	until(900 * time.Millisecond)
	c := begin("c")
	until(recheckEach+950*time.Millisecond, "a 2s", "b 2.5s", "c 2.9s")
	end(b) // the middle of the list
	why := errors.New("the token has ended")
	mu.Lock()
	lost[c] = why
	mu.Unlock()
	until(2*recheckEach+950*time.Millisecond, "a 4s", "c 4.9s")
	if !errors.Is(context.Cause(c), why) {
		t.Errorf("a call whose token has ended goes on: %v", context.Cause(c))
	}
	until(3*recheckEach+950*time.Millisecond, "a 6s")
	end(c) // not in the list
	end(a)
	until(5 * recheckEach)
	idle(t, &w)
}

// TestWatchEnd: a call that ends during its check is not checked again.
func TestWatchEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w watch
		w.lost = func(k *call) error {
			w.end(k)
			return nil
		}
		w.begin(&call{Context: t.Context()})
		time.Sleep(2 * recheckEach)
		synctest.Wait()
		idle(t, &w)
	})
}

// idle checks that a watch has no calls, and that its timer does not run.
func idle(t *testing.T, w *watch) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.first != nil || w.last != nil || w.armed {
		t.Error("a watch without calls has a call or a running timer")
	}
}
