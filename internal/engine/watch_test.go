package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
)

// TestNotices publishes each transaction of a run to its subscribers, in order, with the seq of its events.
// The channel is closed with the engine.
func TestNotices(t *testing.T) {
	n := start(t, openSQLite(t), newHands(t))
	w := n.apply("w", graph(t, "a; b: a"))
	s := submission(w)
	s.ID = engine.NewRunID()
	one, all, none := n.Watch(s.ID), n.Watch(dag.RunID{}), n.Watch(engine.NewRunID())
	if _, err := n.Submit(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	n.ends(s.ID, dag.RunSucceeded)
	n.quiet()
	events, err := n.Events(t.Context(), s.ID, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		for _, sub := range []*engine.Subscription{one, all} {
			got := <-sub.C
			var records []dag.Record
			for _, r := range e.Records {
				records = append(records, r.Record)
			}
			if got.Seq != e.Seq || got.Run != s.ID || got.Lost || !slices.Equal(got.Records, records) {
				t.Errorf("notice %+v, event %+v", got, e)
			}
		}
	}
	one.Close()
	one.Close()
	n.close()
	for _, sub := range []*engine.Subscription{one, all, none, n.Watch(s.ID)} {
		if got, open := <-sub.C; open {
			t.Errorf("one more: %+v", got)
		}
		sub.Close()
	}
}

// TestSlowSubscriber: a slow subscriber loses notices, and its next notice says so, even if no further notice
// follows. Afterwards it gets notices again.
func TestSlowSubscriber(t *testing.T) {
	n := start(t, openMemory(t), newHands(t))
	w := n.apply("w", graph(t, "a"))
	slow := n.Watch(dag.RunID{})
	defer slow.Close()
	many := make([]engine.Submission, engine.NoticesMax)
	for i := range many {
		many[i] = submission(w)
	}
	if _, err := n.SubmitAll(t.Context(), many); err != nil {
		t.Fatal(err)
	}
	n.quiet()
	lost := 0
	for i := range engine.NoticesMax {
		if got := <-slow.C; got.Lost {
			lost++
			if i != engine.NoticesMax-1 {
				t.Errorf("notice %d is marked", i)
			}
		}
	}
	if lost != 1 {
		t.Fatalf("%d notices are marked", lost)
	}
	id := n.submit(w)
	if got := <-slow.C; got.Lost || got.Run != id {
		t.Errorf("after it has caught up: %+v", got)
	}
	n.quiet()
}

// TestTimersOfEndedRuns: the engine keeps no timers of ended runs, however far in the future they are.
func TestTimersOfEndedRuns(t *testing.T) {
	h := newHands(t)
	n := start(t, openMemory(t), h, func(c *engine.Config) { c.Slots = 1 << 20 })
	w := n.apply("w", graph(t, "a", func(s *dag.GraphSpec) { s.Timeout = 24 * time.Hour }))
	for range 5 {
		many := make([]engine.Submission, engine.PruneMin)
		for i := range many {
			many[i] = submission(w)
		}
		if _, err := n.SubmitAll(t.Context(), many); err != nil {
			t.Fatal(err)
		}
		n.quiet()
	}
	err := n.Ask(t.Context(), func() error {
		if l := n.Timers(); l > 2*engine.PruneMin {
			return fmt.Errorf("%d timers are kept", l)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	// The timers for which a run still waits are kept, each once.
	h.mu.Lock()
	h.held = true
	h.mu.Unlock()
	id := n.submit(n.apply("v", graph(t, "a", func(s *dag.GraphSpec) { s.Timeout = 50 * time.Millisecond })))
	for range 100 {
		if err := n.Check(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	n.ends(id, dag.RunFailed)
	n.quiet()
}

// TestClean: the function clean makes texts that every store can hold.
func TestClean(t *testing.T) {
	for _, s := range []string{"", "fine", "a\x00b", "\xff\xfe", strings.Repeat("é", 5000), strings.Repeat("a", 1023) + "é" + strings.Repeat("b", 99), "x" + strings.Repeat("\x80", 5000)} {
		got := engine.Clean(s)
		if !utf8.ValidString(got) || strings.IndexByte(got, 0) >= 0 || len(got) > 3*1100 || len(s) < 100 && utf8.ValidString(s) && !strings.Contains(s, "\x00") && got != s {
			t.Errorf("%.20q becomes %.20q (%d bytes)", s, got, len(got))
		}
	}
}
