package sqlite

import (
	"encoding/binary"
	"fmt"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// history is the transaction's events by run, until a row has taken them.
//
// A run has a place by the end of its id, which is random, or one of the next: a transaction asks several times for
// thousands, and a map takes several times as long.
type history struct {
	seq    int64
	rows   []dag.EventRow // the batch's
	places []place        // a power of two, and more than twice the rows
}

// place is the index of a row, plus one; 0: the place is free; negative: its events have been taken.
type place int32

// placesMin is how many places there are at least.
const placesMin = 64

// begin takes in the events of a transaction.
func (h *history) begin(events []dag.EventRow, seq int64) error {
	h.seq, h.rows = seq, events
	size := placesMin
	for size <= 2*len(events) {
		size *= 2
	}
	if size > cap(h.places) {
		h.places = make([]place, size)
	}
	h.places = h.places[:size]
	clear(h.places)
	for i := range events {
		p := h.find(events[i].Run)
		if *p != 0 {
			return fmt.Errorf("two event rows of run %s in one transaction: %w", events[i].Run, store.ErrRefused)
		}
		*p = place(i + 1)
	}
	return nil
}

// find gives the place of a run, or the free one that it would have.
func (h *history) find(id dag.RunID) *place {
	last := uint32(len(h.places) - 1)
	for i := binary.BigEndian.Uint32(id[len(id)-4:]) & last; ; i = (i + 1) & last {
		p := &h.places[i]
		if *p == 0 || h.rows[max(*p, -*p)-1].Run == id {
			return p
		}
	}
}

// tells reports whether there are events of a run that no row has taken.
func (h *history) tells(id dag.RunID) bool { return *h.find(id) > 0 }

// of hands over a run's events, if there are any; the row of the run holds them.
func (h *history) of(id dag.RunID) dag.EventRow {
	if e := h.take(id); e != nil {
		return *e
	}
	return dag.EventRow{}
}

// take hands over a run's events; the caller's row holds them. nil: there are none left.
func (h *history) take(id dag.RunID) *dag.EventRow {
	p := h.find(id)
	if *p <= 0 {
		return nil
	}
	e := &h.rows[*p-1]
	*p = -*p
	return e
}
