//go:build linux

package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// reluctant is a server that refuses all calls, and records the times of the calls.
type reluctant struct {
	*httptest.Server
	mu    sync.Mutex // protects following fields
	asked []time.Time
}

// newReluctant starts a server that refuses calls. retryAfter is its Retry-After; "" means none. With
// silent it does not answer at all.
func newReluctant(t *testing.T, retryAfter string, silent bool) *reluctant {
	t.Helper()
	s := &reluctant{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.asked = append(s.asked, time.Now())
		s.mu.Unlock()
		if silent {
			<-r.Context().Done()
			return
		}
		if retryAfter != "" {
			w.Header().Set("Retry-After", retryAfter)
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(s.Close)
	return s
}

// TestPatience: a command calls a busy server at growing intervals, and not before the server's
// Retry-After. In all it waits no longer than its timeout.
func TestPatience(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		retryAfter string
		silent     bool
		most       int // the maximum number of requests
		apart      time.Duration
	}{
		{"it says when", "2", false, 4, 2 * time.Second},
		{"it does not say when", "", false, 12, 50 * time.Millisecond},
		{"it says nothing at all", "", true, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := newReluctant(t, c.retryAfter, c.silent)
			for _, args := range [][]string{{"run", "anything"}, {"run", "watch", "anything@latest"}} {
				s.mu.Lock()
				s.asked = nil
				s.mu.Unlock()
				o := w.skein(append(args, "--server", s.URL, "--timeout", "5s")...)
				s.mu.Lock()
				n := len(s.asked)
				for i := 1; i < n && args[1] != "watch"; i++ {
					if pause := s.asked[i].Sub(s.asked[i-1]); pause < c.apart {
						t.Errorf("skein %q asked again after %v", args, pause)
					}
				}
				s.mu.Unlock()
				if n > c.most {
					t.Errorf("skein %q asked %d times, want at most %d", args, n, c.most)
				}
				if args[1] == "watch" && !c.silent {
					continue // skein run watch ends with the refusal, because it only reads
				}
				if o.code != exitTimedOut || !strings.Contains(o.err, "stopped waiting") {
					t.Errorf("skein %q: %v", args, o)
				}
			}
		})
	}
}
