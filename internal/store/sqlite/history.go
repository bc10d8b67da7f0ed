package sqlite

import (
	"fmt"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// history is the transaction's events by run, until a row has taken them.
type history struct {
	seq   int64
	rows  []dag.EventRow // the batch's
	runs  store.RunIndex // with the numbers of rows
	taken []bool         // by the same
}

// begin takes in the events of a transaction.
func (h *history) begin(events []dag.EventRow, seq int64) error {
	h.seq, h.rows = seq, events
	h.runs.Reset(len(events))
	if cap(h.taken) < len(events) {
		h.taken = make([]bool, len(events))
	}
	h.taken = h.taken[:len(events)]
	clear(h.taken)
	for i := range events {
		if _, added := h.runs.Add(events[i].Run); !added {
			return fmt.Errorf("two event rows of run %s in one transaction: %w", events[i].Run, store.ErrRefused)
		}
	}
	return nil
}

// tells reports whether there are events of a run that no row has taken.
func (h *history) tells(id dag.RunID) bool {
	i := h.runs.Find(id)
	return i >= 0 && !h.taken[i]
}

// of hands over a run's events, if there are any; the row of the run holds them.
func (h *history) of(id dag.RunID) dag.EventRow {
	if e := h.take(id); e != nil {
		return *e
	}
	return dag.EventRow{}
}

// take hands over a run's events; the caller's row holds them. nil: there are none left.
func (h *history) take(id dag.RunID) *dag.EventRow {
	i := h.runs.Find(id)
	if i < 0 || h.taken[i] {
		return nil
	}
	h.taken[i] = true
	return &h.rows[i]
}
