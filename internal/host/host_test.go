package host_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"skein.dev/skein/internal/host"
)

func TestMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := host.Or(nil)
		began := m.Now()
		wake := make(chan struct{}, 1)
		if m.Await(t.Context(), wake, time.Second) || m.Now().Sub(began) != time.Second {
			t.Errorf("a bound of a second was %v", m.Now().Sub(began))
		}
		wake <- struct{}{}
		if !m.Await(t.Context(), wake, host.Forever) || len(wake) != 0 {
			t.Error("what wakes was not taken")
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		m.Go(&wg, func() { time.Sleep(time.Second); cancel() })
		if m.Await(ctx, wake, host.Forever) {
			t.Error("woken by nobody")
		}
		m.Wait(&wg)
		if a, b := m.ID(), m.ID(); string(a[:]) >= string(b[:]) {
			t.Errorf("%s comes before %s", a, b)
		}
		if j := m.Jitter(time.Second); j < 0 || j >= time.Second {
			t.Errorf("a jitter of %v", j)
		}
	})
}
