package engine_test

import (
	"fmt"
	"testing"
	"time"

	"skein.dev/skein/internal/store"
)

// TestFeeder: triggers get the events of their namespace, type and source from the log, each once. They
// collect batches, wait for room, and count what the log has lost.
func TestFeeder(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		one := x.set("one", eventsParams, `name: e, event: {type: "a.*", source: s, from: beginning}, overlap: allow, params: {n: "${{ trigger.event.n }}"}`)
		many := x.set("many", eventsParams, `name: e, event: {batch: {max: 3, wait: 10s}}, overlap: allow, params: {n: "${{ size(trigger.event.items) }}"}`)
		slow := x.set("slow", "", `name: e, event: a.x`)
		f := x.feeds(x.st)
		send := func(namespace, kind string, n int) {
			if _, err := f.AddEvents(t.Context(), []store.SentEvent{{Namespace: namespace, Source: "s", ID: fmt.Sprint(n), Type: kind, Data: fmt.Appendf(nil, `{"n":%d}`, n)}}); err != nil {
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
		f.during(func() {
			x.slow.Store(int64(20 * time.Second))
			pass(time.Second)
			send("test", "a.x", 1)
			send("other", "a.x", 2)
			pass(2 * time.Second)
			counts("one event of the namespace", 1, 0, 1)
			send("test", "a.x", 3)
			send("test", "a.x", 1)
			pass(2 * time.Second)
			counts("while a run is active", 2, 0, 1)
			pass(7 * time.Second)
			counts("when the batch has waited", 2, 1, 1)
			for n := 10; n < 16; n++ {
				send("test", "b", n)
			}
			pass(2 * time.Second)
			counts("two full batches", 2, 3, 1)
			pass(20 * time.Second)
			counts("when there is room again", 2, 3, 2)
		})
		x.rest()
	})
}
