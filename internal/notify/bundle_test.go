package notify_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/notify"
	"skein.dev/skein/internal/store"
)

// chat is a receiver for people.
type chat struct {
	began time.Time
	mu    sync.Mutex // protects following fields
	heard []string   // "SECONDS TEXT"
	fails int        // number of calls that still fail
}

// RoundTrip answers a call as the receiver.
func (c *chat) RoundTrip(r *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(r.Body)
	var msg struct{ Text, Content string }
	_ = json.Unmarshal(body, &msg)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard = append(c.heard, fmt.Sprintf("%d %s", int(time.Since(c.began).Seconds()), msg.Content))
	if c.fails > 0 {
		c.fails--
		return said(500)
	}
	return said(204)
}

// TestBundles: people get the first notices as separate messages, and one message for many notices that are
// due together.
func TestBundles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.channel("hook")
		if _, err := w.st.PutAlertChannel(t.Context(), store.AlertChannel{Namespace: "shop", Name: "people", Version: 1, Data: []byte(`{"discord":{"url":{"secret":"s"}}}`)}); err != nil {
			t.Fatal(err)
		}
		c := &chat{began: w.began}
		w.answer = func(string, int, *http.Request) (*http.Response, error) { return said(200) }
		s := notify.New(notify.Options{Store: w.st, Shards: func() []dag.ShardID { return w.shards },
			Transport: func(context.Context, string) (http.RoundTripper, error) { return either{c, w}, nil },
			Secret:    func(context.Context, string, string) ([]byte, error) { return []byte("https://people.example/x"), nil },
			Jitter:    func(d time.Duration) time.Duration { return d / 2 }, Log: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { s.Run(ctx) })
		w.tell(1, 1, "people", "hook")
		s.Wake()
		time.Sleep(2 * time.Second)
		c.fails = 1
		for n := range byte(40) {
			w.tell(2+n, 1, "people", "hook")
		}
		s.Wake()
		time.Sleep(time.Second)
		for n := range byte(8) {
			w.tell(50+n, 1, "people")
		}
		s.Wake()
		time.Sleep(time.Minute)
		cancel()
		running.Wait()
		if len(c.heard) != 3 {
			t.Fatalf("%d messages: %q", len(c.heard), c.heard)
		}
		for i, want := range []string{"0 **[error] shop/orders: run x failed**", "2 **[error] 40 alerts of 1 workflows**", "12 **[error] 48 alerts of 1 workflows**"} {
			if !strings.HasPrefix(c.heard[i], want) {
				t.Errorf("message %d is %q, want %q", i+1, c.heard[i], want)
			}
		}
		if !strings.Contains(c.heard[2], "and 28 more") || strings.Count(c.heard[2], "run x failed") != 20 {
			t.Errorf("the bundle is %q", c.heard[2])
		}
		if n := len(w.hears("hook")); n != 41 {
			t.Errorf("a program got %d messages", n)
		}
		w.want("one of the first bundle", w.notices(2), "1 hook sent 1", "1 people sent 2")
		w.want("one of the last", w.notices(57), "1 people sent 1")
	})
}

// either sends each call to the receiver for people, or to the other receivers.
type either struct {
	people *chat
	other  *world
}

// RoundTrip implements http.RoundTripper.
func (e either) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host == "people.example" {
		return e.people.RoundTrip(r)
	}
	return e.other.RoundTrip(r)
}
