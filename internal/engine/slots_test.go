package engine

import (
	"testing"

	"skein.dev/skein/internal/dag"
)

// TestSecondSlotOfAnAttempt: a task that is assigned twice under one token has two slots with their
// resources. If one assignment is not written, its slot is returned. The end of the attempt returns all slots
// of the attempt.
func TestSecondSlotOfAnAttempt(t *testing.T) {
	all := dag.Need{CPU: 4000}
	place := dag.Anywhere.With(dag.Need{CPU: 1500})
	k := dag.KeyOf(dag.RunID{1}, 2, 3)
	h := &slots{booked: map[dag.AttemptKey]int{}}
	h.free.Store(3)
	h.room.open(all)
	assign := func() {
		t.Helper()
		if !h.claim() || !h.room.take(place) {
			t.Fatal("no slot")
		}
		h.note(k)
		h.room.note(k, place)
	}
	is := func(free int64, cpu int64, has bool) {
		t.Helper()
		if got := h.free.Load(); got != free || int64(h.room.free.CPU) != cpu || h.has(k) != has {
			t.Errorf("%d slots and cpu %d are free, booked: %v; want %d, %d, %v", got, h.room.free.CPU, h.has(k), free, cpu, has)
		}
	}
	assign()
	is(2, 2500, true)
	assign()
	is(1, 1000, true)
	h.release(k, place)
	is(2, 2500, true)
	assign()
	h.unbook(k)
	is(3, 4000, false)
	h.release(k, place) // the assignment of an attempt that has ended meanwhile
	is(3, 4000, false)
	assign()
	h.release(k, place)
	is(3, 4000, false)
}
