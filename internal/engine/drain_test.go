package engine_test

import (
	"testing"

	"skein.dev/skein/internal/dag"
)

// TestDrain: an engine that drains finishes its attempts, assigns no further ones, and counts no loss. The
// next life of the node does the rest.
func TestDrain(t *testing.T) {
	st := openMemory(t)
	h := newHands(t)
	h.held = true
	n := start(t, st, h)
	id := n.submit(n.apply("w", graph(t, "a; b: a; c: b")))
	running := h.holding(1)
	n.Drain()
	h.end(running[0], success())
	if err := n.Barrier(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := h.starts(); got != 1 {
		t.Errorf("%d attempts were started, want only the one before the drain", got)
	}
	n.close()
	again := newHands(t)
	m := start(t, st, again)
	m.ends(id, dag.RunSucceeded)
	if lost := m.Stats().Lost.Load(); lost != 0 {
		t.Errorf("%d attempts were lost", lost)
	}
	m.close()
}
