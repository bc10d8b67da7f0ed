//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// eventsShort is the number of events that an ordinary test sends. SKEIN_EVENTS sets another number.
const eventsShort = 600

// TestEventsThroughKills sends numbered events while the server is killed. It repeats each event until it
// gets an answer. Each event is accepted once, and starts one run. SKEIN_EVENTS=10000 sends 10,000 events.
func TestEventsThroughKills(t *testing.T) {
	t.Parallel()
	events, kills := eventsShort, 4
	if text := os.Getenv("SKEIN_EVENTS"); text != "" {
		var err error
		if events, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
		kills = 20
	}
	l := serverLane(t)
	l.t = t
	source := `name: orders
params: {n: {type: int}}
triggers:
  - {name: e, event: {type: "order.*", source: /shop, filter: "event.data.n >= 0"}, overlap: allow, params: {n: "${{ trigger.event.data.n }}"}}
tasks: {a: {wait: 1ms}}
`
	if _, err := l.client().Apply(t.Context(), "orders", api.ApplyRequest{Source: source}); err != nil {
		t.Fatal(err)
	}
	var sent atomic.Int64
	var client atomic.Pointer[skein.Client]
	client.Store(l.client())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for n := 0; n < events && t.Context().Err() == nil; n = int(sent.Load()) {
			upTo := min(n+20, events)
			if sendNumbered(t.Context(), client.Load(), n, upTo) == nil {
				sent.Store(int64(upTo))
			}
		}
	}()
	for i := range kills {
		l.until("some events are answered", func() bool { return int(sent.Load()) >= events*(i+1)/(kills+1) })
		l.kill()
		l.start()
		client.Store(l.client())
	}
	<-ended
	seen, runs := map[string]int{}, map[string]bool{}
	l.until("every event has fired", func() bool {
		clear(seen)
		clear(runs)
		for f, err := range l.client().EachFire(t.Context(), skein.FiresQuery{Workflow: "orders", Trigger: "e", Limit: 1000}) {
			if err != nil {
				return false
			}
			if f.Key == nil || f.Run == nil || f.Count != 1 {
				t.Fatalf("%+v", f)
			}
			seen[*f.Key]++
			runs[*f.Run] = true
		}
		return len(seen) >= events
	})
	for n := range events {
		if key := fmt.Sprintf("/shop %d", n); seen[key] != 1 {
			t.Errorf("event %d fired %d times", n, seen[key])
		}
	}
	if len(seen) != events || len(runs) != events {
		t.Errorf("%d lines and %d runs for %d events", len(seen), len(runs), events)
	}
	is, err := l.client().Schedule(t.Context(), "orders", "e")
	if err != nil || is.Source == nil || is.Source.Cursor == nil || *is.Source.Cursor != strconv.Itoa(events) || is.Source.Lost != 0 {
		t.Errorf("%+v %v", is.Source, err)
	}
}

// sendNumbered sends the events from one number up to another.
func sendNumbered(ctx context.Context, k *skein.Client, from, to int) error {
	ctx, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	var all []json.RawMessage
	for n := from; n < to; n++ {
		all = append(all, fmt.Appendf(nil, `{"specversion":"1.0","id":"%d","source":"/shop","type":"order.created","data":{"n":%d}}`, n, n))
	}
	_, err := skein.NewEvents(k).Send(ctx, "", all...)
	return err
}

// keysOnce returns the keys of the fires of a trigger, and fails if a key fired twice or without a run.
func keysOnce(t *testing.T, l *lane, workflow, trigger string) map[string]bool {
	t.Helper()
	keys, runs := map[string]bool{}, map[string]bool{}
	for f, err := range l.client().EachFire(t.Context(), skein.FiresQuery{Workflow: workflow, Trigger: trigger, Limit: 1000}) {
		if err != nil {
			t.Fatal(err)
		}
		if f.Key == nil || f.Run == nil || f.Count != 1 || keys[*f.Key] || runs[*f.Run] {
			t.Fatalf("%+v", f)
		}
		keys[*f.Key], runs[*f.Run] = true, true
	}
	return keys
}
