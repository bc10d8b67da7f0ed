package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/memory"
	"skein.dev/skein/internal/workflow"
	"skein.dev/skein/sdk/shared/output"
)

// countedLog counts the events that are read from the log.
type countedLog struct {
	*memory.Store
	events int
}

func (c *countedLog) EventsAfter(ctx context.Context, seq int64, limit, size int) ([]store.SentEvent, error) {
	page, err := c.Store.EventsAfter(ctx, seq, limit, size)
	c.events += len(page)
	return page, err
}

func (c *countedLog) send(t *testing.T, kind string, n int) {
	t.Helper()
	_, last, err := c.EventLog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var all []store.SentEvent
	for i := range int64(n) {
		all = append(all, store.SentEvent{Namespace: "ns", Source: "shop", ID: fmt.Sprint(last + i), Type: kind, Data: []byte(`{"data":1}`)})
	}
	if _, err := c.AddEvents(t.Context(), all); err != nil {
		t.Fatal(err)
	}
}

// waiter makes a task that waits for an event of a type. The log was searched for it up to a given number.
func (w *Awaited) waiter(token dag.Token, kind string, seq int64, idle bool) dag.AttemptKey {
	k := dag.AttemptKey{Token: token}
	w.all[k] = &awaiting{namespace: "ns", group: kind, of: &workflow.Awaited{EventSource: workflow.EventSource{Types: []string{kind}}}, begun: true, seq: seq, idle: idle}
	return k
}

// TestAwaitedPlaces: the log is read once for all idle tasks. Only tasks for whose type an event has come are
// due.
func TestAwaitedPlaces(t *testing.T) {
	t.Parallel()
	log := &countedLog{Store: memory.New(memory.Options{})}
	w := NewAwaited(AwaitedConfig{Events: log})
	log.send(t, "other", 5)
	log.send(t, "mine", 1)
	log.send(t, "other", 4)
	mine, late, busy, others := w.waiter(1, "mine", 2, true), w.waiter(2, "mine", 6, true), w.waiter(3, "mine", 0, false), w.waiter(4, "nothing", 3, true)
	from, reset, due := w.least()
	if from != 2 || len(due) != 0 {
		t.Fatalf("from %d, due %v", from, due)
	}
	page, err := log.EventsAfter(t.Context(), from, 100, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if due := w.pass(page, from, reset); !slices.Equal(due, []dag.AttemptKey{mine}) {
		t.Errorf("due are %v", due)
	}
	for k, want := range map[dag.AttemptKey]int64{mine: 5, late: 10, busy: 0, others: 10} {
		if a := w.all[k]; a.seq != want || a.idle != (k == late || k == others) {
			t.Errorf("%+v, want %d", a, want)
		}
	}
	if from, _, _ := w.least(); from != 10 {
		t.Errorf("then it is read from %d", from)
	}
	// The place of a task that has just become idle is before the page, so it must not move over events that
	// the page does not contain.
	w.all[busy].idle = true
	if w.pass(page, from, reset); w.all[busy].seq != 0 {
		t.Errorf("%+v", w.all[busy])
	}
	w.forget()
	if due := w.pass(page, from, reset); due != nil {
		t.Errorf("a page of the log before it went back makes %v due", due)
	}
	if from, _, due := w.least(); from != -1 || len(due) != 4 {
		t.Errorf("from %d, due %v", from, due)
	}
}

// TestAwaitedSearch: a look at the log is bounded. The next look continues at the same place, and stops at
// the first event for which the filter is true.
func TestAwaitedSearch(t *testing.T) {
	t.Parallel()
	log := &countedLog{Store: memory.New(memory.Options{})}
	w := NewAwaited(AwaitedConfig{Events: log})
	log.send(t, "mine", awaitedTries+20)
	log.send(t, "last", 1)
	k := w.waiter(1, "mine", 0, false)
	is := *w.all[k]
	tries := 0
	no := func(json.RawMessage) (bool, error) { tries++; return false, errors.New("no such key") }
	found, whole, err := w.search(t.Context(), &is, no)
	if found != nil || whole || err != nil || tries != awaitedTries || is.seq != awaitedTries || !strings.Contains(is.fault, "does not count: no such key") {
		t.Fatalf("%v %t %v after %d: %+v", found, whole, err, tries, is)
	}
	w.end(k, is, false, 0)
	if a := w.all[k]; a.idle || a.seq != awaitedTries {
		t.Errorf("%+v", a)
	}
	if found, whole, err = w.search(t.Context(), &is, no); found != nil || !whole || err != nil || is.seq != awaitedTries+21 {
		t.Fatalf("%v %t %v: %+v", found, whole, err, is)
	}
	w.end(k, is, true, 0)
	w.end(k, is, true, 1) // the log has gone back meanwhile
	log.events = 0
	if _, whole, err = w.search(t.Context(), &is, no); !whole || err != nil || log.events != 0 {
		t.Errorf("a second look has read %d events, %v", log.events, err)
	}
	log.send(t, "mine", 2)
	yes := func(json.RawMessage) (bool, error) { return true, nil }
	for range 2 { // first an explanation looks at the event, and then the owner of the task does
		if found, _, err = w.search(t.Context(), &is, yes); err != nil || found == nil || found.Seq != awaitedTries+22 || is.seq != awaitedTries+21 {
			t.Fatalf("%+v %v: %+v", found, err, is)
		}
	}
	if w.all[k].seq != awaitedTries+21 || !w.all[k].idle {
		t.Errorf("%+v", w.all[k])
	}
}

func TestEventOutputs(t *testing.T) {
	t.Parallel()
	ev := store.SentEvent{ID: "1", Source: "s", Type: "t", Received: 1_000_000}
	for data, want := range map[string]string{
		`{"time":"2027-01-01T00:00:00Z","data":{"n":9007199254740993,"x":"<"}}`: `{"data":{"n":9007199254740993,"x":"<"},"id":"1","source":"s","time":"2027-01-01T00:00:00Z","type":"t"}`,
		`{}`:                     `{"data":null,"id":"1","source":"s","time":"1970-01-01T00:00:01Z","type":"t"}`,
		`{"data_base64":"AAEC"}`: `{"data":"AAEC","id":"1","source":"s","time":"1970-01-01T00:00:01Z","type":"t"}`,
	} {
		ev.Data = []byte(data)
		if got, err := eventOutputs(&ev); err != nil || string(got) != want {
			t.Errorf("%s gives %s, %v", data, got, err)
		}
	}
	ev.Data = fmt.Appendf(nil, `{"data":"%s"}`, strings.Repeat("x", output.BytesMax))
	if _, err := eventOutputs(&ev); err == nil || !strings.Contains(err.Error(), "send a link to the data") {
		t.Error(err)
	}
}
