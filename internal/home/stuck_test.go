package home_test

import (
	"testing"
	"time"
)

// TestStuckFor: a home whose lock is held reports how long it is stuck, without that lock.
func TestStuckFor(t *testing.T) {
	t.Parallel()
	town := newTown(t, 1)
	h := town.nodes[0].h
	release := h.Seize()
	town.until("the home is stuck for a second", func() bool { return h.StuckFor() >= time.Second })
	release()
	town.until("the home works again", func() bool { return h.StuckFor() == 0 })
}
