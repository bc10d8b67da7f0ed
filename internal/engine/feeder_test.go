package engine_test

import (
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

// TestFeeder: triggers get the events of their namespace, type and source from the log, each once. They
// collect batches, wait for room, and count what the log has lost.
func TestFeeder(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		one := x.set("one", eventsParams, `name: e, event: {type: "a.*", source: s, from: beginning}, overlap: allow, params: {n: "${{ trigger.event.n }}"}`)
		many := x.set("many", eventsParams, `name: e, event: {batch: {max: 3, wait: 10s}}, overlap: allow, params: {n: "${{ size(trigger.event.items) }}"}`)
		slow := x.set("slow", "", `name: e, event: a.x`)
		f := source.NewFeeder(source.FeederConfig{Log: x.st, Intake: engine.IntakeOf(x.Engine), Messages: slog.New(slog.DiscardHandler),
			Triggers:  x.Sensors,
			Namespace: func(context.Context, dag.WorkflowID) (string, error) { return "test", nil }})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); f.Run(ctx) }()
		defer func() { stop(); <-ended }()
		send := func(namespace, kind, from string, n int) {
			if _, err := f.AddEvents(t.Context(), []store.SentEvent{{Namespace: namespace, Source: from, ID: fmt.Sprint(n), Type: kind, Data: fmt.Appendf(nil, `{"n":%d}`, n)}}); err != nil {
				t.Fatal(err)
			}
		}
		counts := func(when string, want ...int) {
			t.Helper()
			got := []int{len(x.lines(one.ID, "e")), len(x.lines(many.ID, "e")), len(x.lines(slow.ID, "e"))}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: %v lines, want %v", when, got, want)
			}
		}
		x.slow.Store(int64(20 * time.Second))
		pass(time.Second)
		send("test", "a.x", "s", 1)
		send("other", "a.x", "s", 2)
		pass(2 * time.Second)
		counts("one event of the namespace", 1, 0, 1)
		send("test", "a.x", "s", 3)
		send("test", "a.x", "s", 1)
		pass(2 * time.Second)
		counts("while a run is active", 2, 0, 1)
		pass(7 * time.Second)
		counts("when the batch has waited", 2, 1, 1)
		for n := 10; n < 16; n++ {
			send("test", "b", "s", n)
		}
		pass(2 * time.Second)
		counts("two full batches", 2, 3, 1)
		pass(20 * time.Second)
		counts("when there is room again", 2, 3, 2)
		x.rest()
	})
}
