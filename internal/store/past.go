package store

import (
	"fmt"

	"skein.dev/skein/internal/dag"
)

// Past is a transaction's events by run, until a row has taken them.
type Past struct {
	rows  []dag.EventRow // the batch's
	runs  RunIndex       // with the numbers of rows
	taken []bool         // by the same
}

// Begin takes in the events of a transaction. ErrRefused: a run has two rows of them.
func (p *Past) Begin(events []dag.EventRow) error {
	p.rows = events
	p.runs.Reset(len(events))
	if cap(p.taken) < len(events) {
		p.taken = make([]bool, len(events))
	}
	p.taken = p.taken[:len(events)]
	clear(p.taken)
	for i := range events {
		if _, added := p.runs.Add(events[i].Run); !added {
			return fmt.Errorf("two event rows of run %s in one transaction: %w", events[i].Run, ErrRefused)
		}
	}
	return nil
}

// Tells reports whether there are events of a run that no row has taken.
func (p *Past) Tells(id dag.RunID) bool {
	i := p.runs.Find(id)
	return i >= 0 && !p.taken[i]
}

// Of hands over a run's events, if there are any; the row of the run holds them.
func (p *Past) Of(id dag.RunID) dag.EventRow {
	if e := p.Take(id); e != nil {
		return *e
	}
	return dag.EventRow{}
}

// Take hands over a run's events; the caller's row holds them. nil: there are none left.
func (p *Past) Take(id dag.RunID) *dag.EventRow {
	i := p.runs.Find(id)
	if i < 0 || p.taken[i] {
		return nil
	}
	p.taken[i] = true
	return &p.rows[i]
}
