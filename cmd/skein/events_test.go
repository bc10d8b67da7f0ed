//go:build linux

package main

import (
	"sync"
	"testing"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// ear holds the events that a stream has sent so far.
type ear struct {
	w *skein.Watcher

	mu     sync.Mutex // protects following fields
	ended  map[string]bool
	seen   map[string][]int64 // sequence numbers of events, by run
	resets int
}

func (m *member) listen(q skein.WatchQuery) *ear {
	m.home.t.Helper()
	w, err := m.client.Watch(m.home.t.Context(), q)
	if err != nil {
		m.home.t.Fatal(err)
	}
	e := &ear{w: w, ended: map[string]bool{}, seen: map[string][]int64{}}
	m.home.t.Cleanup(func() { _ = w.Close() })
	go func() {
		for c, err := range w.Changes() {
			if err != nil {
				return
			}
			e.hear(&c)
		}
	}()
	return e
}

func (e *ear) hear(c *api.Change) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c.Reset {
		e.resets++
		return
	}
	e.seen[c.Run] = append(e.seen[c.Run], c.Seq)
	for _, ev := range c.Events {
		if ev.Kind == "state" && *ev.State == "succeeded" {
			e.ended[c.Run] = true
		}
	}
}

// heard reports whether the end of a run was sent, and the number of resets.
func (e *ear) heard(run string) (ended bool, resets int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ended[run], e.resets
}

// TestEventsOfAllNodes: a stream of all events, or of the events of workflows, sends through any node the
// events that all nodes commit. If a node is gone or has joined, and may have committed events that the
// stream did not get, the stream sends a reset.
func TestEventsOfAllNodes(t *testing.T) {
	t.Parallel()
	f := newFlight(t, 2)
	one, two := f.members[0], f.members[1]
	f.own(map[string]int{"n1": 16, "n2": 16})
	for name, node := range map[string]string{"here": "n1", "there": "n2"} {
		f.flow(name, "true")
		one.home.run("node", "move", name, node)
		one.home.until(name+" is on "+node, func() bool { return f.ownerOf(name) == node })
	}
	all, both, theirs := one.listen(skein.WatchQuery{}), two.listen(skein.WatchQuery{Workflows: []string{"here", "there"}}), one.listen(skein.WatchQuery{Workflows: []string{"there"}})
	ids := []string{one.detach("here"), one.detach("there")}
	for _, id := range ids {
		for _, e := range []*ear{all, both} {
			one.home.until("the end is told", func() bool { ended, _ := e.heard(id); return ended })
		}
	}
	one.home.until("the end is told", func() bool { ended, _ := theirs.heard(ids[1]); return ended })
	for e, wanted := range map[*ear]int{all: 2, both: 2, theirs: 1} {
		e.mu.Lock()
		if len(e.seen) != wanted || e.resets != 0 {
			t.Errorf("%d runs, %d resets, want %d and none", len(e.seen), e.resets, wanted)
		}
		for id, seqs := range e.seen {
			for i := range seqs {
				if i > 0 && seqs[i] <= seqs[i-1] {
					t.Errorf("run %s: %v", id, seqs)
				}
			}
		}
		e.mu.Unlock()
	}
	two.kill()
	one.home.until("that something may be missed is told", func() bool { _, resets := all.heard(""); return resets > 0 })
	two.start()
	f.listed(2)
	one.home.until("there is on n2 again", func() bool { return f.ownerOf("there") == "n2" })
	one.home.until("it is listened to again", func() bool { _, resets := all.heard(""); return resets > 1 })
	id := one.detach("there")
	one.home.until("the end is told", func() bool { ended, _ := all.heard(id); return ended })
	two.stop()
	one.stop()
}
