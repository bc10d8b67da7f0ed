package home

import (
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
)

// TestExpectedReports: slots that are freed by reports which the engine has not settled yet are not returned,
// even if there is no demand. The next tasks become ready only when these reports are settled.
func TestExpectedReports(t *testing.T) {
	t.Parallel()
	h := New(Config{Directory: nowhere{}})
	c := &credit{lot: lot{worker: 7}, granted: 3}
	h.purse.enter(c, "w", &store.Traits{})
	h.purse.add(c, 3)
	h.purse.expect(7, 2)
	h.Want(nil, 0)
	if c.avail != 2 || c.returned != 1 || h.purse.total.Load() != 2 {
		t.Errorf("while two reports are under way %d of 3 slots are kept, %d returned", c.avail, c.returned)
	}
	h.purse.expect(7, -2)
	h.Want([]engine.Demand{{Place: dag.Anywhere, N: 1}}, 0)
	if c.avail != 2 {
		t.Errorf("of 2 slots that are wanted %d are kept", c.avail)
	}
	h.Want(nil, 0)
	if c.avail != 0 || c.returned != 3 || h.purse.total.Load() != 0 || len(h.purse.expected) != 0 {
		t.Errorf("when there are none %d are kept, %d returned", c.avail, c.returned)
	}
}
