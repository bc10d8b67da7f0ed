package home_test

import (
	"testing"
	"time"
)

// TestStuckFor: a home whose lock somebody keeps says that it is stuck, and for how long, without that lock.
func TestStuckFor(t *testing.T) {
	t.Parallel()
	h := newTown(t, 1).nodes[0].h
	release := h.Seize()
	for h.StuckFor() < time.Second {
		time.Sleep(time.Millisecond)
	}
	release()
	for h.StuckFor() != 0 {
		time.Sleep(time.Millisecond)
	}
}
