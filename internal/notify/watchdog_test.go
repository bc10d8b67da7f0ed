package notify_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"skein.dev/skein/internal/notify"
)

// line is a transport whose answers the test sets.
type line struct {
	mu    sync.Mutex // protects following fields
	calls []string
	err   error
	code  int
}

// RoundTrip implements http.RoundTripper.
func (l *line) RoundTrip(r *http.Request) (*http.Response, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, r.Method+" "+r.URL.String())
	if l.err != nil {
		return nil, l.err
	}
	return said(l.code)
}

// errNotMine is the error of a node that leaves the calls to another node.
var errNotMine = errors.New("another node calls")

// TestWatchdog: the address is called while the scheduler works. No log line contains it.
func TestWatchdog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "watchdog")
		l := &line{code: 200}
		var log bytes.Buffer
		alive := error(nil)
		w := notify.Watchdog{File: file, Transport: func() (http.RoundTripper, error) { return l, nil },
			Alive: func(context.Context) error { return alive }, NotMine: errNotMine, Log: slog.New(slog.NewTextHandler(&log, nil))}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { w.Run(ctx) })
		step := func(calls int, says string, change func()) {
			t.Helper()
			change()
			l.mu.Lock()
			l.calls = nil
			l.mu.Unlock()
			log.Reset()
			time.Sleep(3 * time.Minute)
			synctest.Wait()
			if len(l.calls) != calls || !strings.Contains(log.String(), says) || says == "" && log.Len() > 0 || strings.Count(log.String(), "watchdog_silent") > 1 {
				t.Errorf("%d calls, want %d; %q, want %q", len(l.calls), calls, log.String(), says)
			}
			if strings.Contains(log.String(), "ping.example") {
				t.Errorf("the log names the address: %s", log.String())
			}
		}
		time.Sleep(time.Second)
		step(3, "", func() {
			if err := os.WriteFile(file, []byte("https://ping.example/a-key\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		})
		step(3, "the answer was 500", func() { l.code = 500 })
		step(3, "dial its host: no route", func() { l.err = errors.New("dial ping.example: no route") })
		step(0, "shard 3 has no owner", func() { alive, l.err, l.code = errors.New("shard 3 has no owner"), nil, 200 })
		step(0, "", func() { alive = errNotMine })
		step(3, "", func() { alive = nil })
		step(0, "holds no http or https address", func() { _ = os.WriteFile(file, []byte("nothing"), 0o600) })
		cancel()
		running.Wait()
	})
}
