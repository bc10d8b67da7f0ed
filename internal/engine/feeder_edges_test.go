package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/source"
	"skein.dev/skein/internal/store"
)

// feeds is a Feeder over the log of a timed node.
type feeds struct {
	*source.Feeder
	x *timed
}

func (x *timed) feeds(log store.SentEvents) *feeds {
	return &feeds{x: x, Feeder: source.NewFeeder(source.FeederConfig{Events: log, Intake: engine.IntakeOf(x.Engine), Log: slog.New(slog.DiscardHandler),
		Triggers:  x.Sensors,
		Namespace: func(context.Context, dag.WorkflowID) (string, error) { return "test", nil }})}
}

// during runs the Feeder while do runs.
func (f *feeds) during(do func()) {
	ctx, stop := context.WithCancel(f.x.t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); f.Run(ctx) }()
	defer func() { stop(); <-ended }()
	do()
}

func (f *feeds) send(kind string, n int, data []byte) {
	f.x.t.Helper()
	if _, err := f.AddEvents(f.x.t.Context(), []store.SentEvent{{Namespace: "test", Source: "s", ID: fmt.Sprint(n), Type: kind, Data: data}}); err != nil {
		f.x.t.Fatal(err)
	}
}

// TestFeederLargeEvents: two events are taken although their values and keys together do not fit into one
// batch.
func TestFeederLargeEvents(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		w := x.set("w", "", `name: e, event: {from: beginning}, overlap: allow`)
		f := x.feeds(x.st)
		large := fmt.Appendf(nil, `{"a":"%s"}`, bytes.Repeat([]byte("x"), engine.BatchBytesMax/2-10))
		f.send("a", 1, large)
		f.send("a", 2, large)
		f.during(func() { pass(3 * time.Second) })
		if got := len(x.lines(w.ID, "e")); got != 2 {
			t.Errorf("%d lines for two large events", got)
		}
		x.rest()
	})
}

// TestFeederIdleLog: a cursor follows events that the trigger does not want, also when no others come. So
// their deletion is no loss.
func TestFeederIdleLog(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		w := x.set("w", "", `name: e, event: {type: a, from: beginning}, overlap: allow`)
		f := x.feeds(x.st)
		f.during(func() {
			f.send("a", 1, []byte(`{}`))
			pass(time.Second)
			f.send("b", 2, []byte(`{}`))
			pass(2 * time.Minute)
		})
		if pos := x.position(w); string(pos.Cursor) != "2" {
			t.Errorf("the cursor is %s, and the log ends at 2", pos.Cursor)
		}
		x.rest()
	})
}

// shrinking is a log whose oldest events are deleted after the caller has read its first and last Seq.
type shrinking struct {
	store.SentEvents
	gone int64
}

func (s *shrinking) EventsAfter(ctx context.Context, seq int64, limit, size int) ([]store.SentEvent, error) {
	return s.SentEvents.EventsAfter(ctx, max(seq, s.gone), limit, size)
}

// TestFeederCountsGaps: events that are deleted while the log is read are lost, and counted.
func TestFeederCountsGaps(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		w := x.set("w", "", `name: e, event: {type: a, from: beginning, lost: skip}, overlap: allow`)
		log := &shrinking{SentEvents: x.st}
		f := x.feeds(log)
		f.send("a", 1, []byte(`{}`))
		f.during(func() { pass(time.Second) })
		for n := 2; n <= 5; n++ {
			f.send("a", n, []byte(`{}`))
		}
		log.gone = 4
		f.during(func() { pass(time.Second) })
		if pos := x.position(w); string(pos.Cursor) != "5" || pos.Lost != 3 {
			t.Errorf("cursor %s, %d lost", pos.Cursor, pos.Lost)
		}
		x.rest()
	})
}
