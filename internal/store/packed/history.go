package packed

import (
	"fmt"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// Past holds the events of a transaction, by run, until each is packed into a row.
type Past struct {
	rows  []dag.EventRow // the events of the batch
	runs  RunIndex       // finds the index of a run's events in rows
	taken []bool         // taken[i] says that rows[i] was packed into a row of the database
}

// Begin sets the events of a transaction. It returns ErrRefused if two of the rows are of the same run.
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
			return fmt.Errorf("two event rows of run %s in one transaction: %w", events[i].Run, store.ErrRefused)
		}
	}
	return nil
}

// Tells reports whether the transaction has events of a run that are not packed yet.
func (p *Past) Tells(id dag.RunID) bool {
	i := p.runs.Find(id)
	return i >= 0 && !p.taken[i]
}

// Of returns the events of a run if they are not packed yet. The caller packs them into the row of the run.
func (p *Past) Of(id dag.RunID) dag.EventRow {
	if e := p.Take(id); e != nil {
		return *e
	}
	return dag.EventRow{}
}

// Take removes the events of a run and returns them, or nil if they are already packed. The caller packs them
// into its row.
func (p *Past) Take(id dag.RunID) *dag.EventRow {
	i := p.runs.Find(id)
	if i < 0 || p.taken[i] {
		return nil
	}
	p.taken[i] = true
	return &p.rows[i]
}

// Tells returns a function that reports whether a batch has history of a run.
func Tells(b *store.Batch) func(dag.RunID) bool {
	var of RunIndex
	of.Reset(len(b.Events))
	for i := range b.Events {
		of.Add(b.Events[i].Run)
	}
	return of.Has
}
