package tally

import (
	"context"
	"errors"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// batch counts runs from their rows.
type batch struct {
	f      *Folder
	counts Counts
	ids    []dag.RunID
	// ends contains the ends to be counted, by run. If it is nil, all ends between the positions after and to
	// are counted. An end at the position to is counted, and an end at the position after is not.
	ends      map[dag.RunID][]*store.Ended
	after, to int64
	at        dag.Micros // the time of the position after
}

// load reads the runs in the field ids, and counts them. A run can have 100,000 attempts, and the number is
// known only after it is read. So a read loads at most twice as many runs as the read before, and fewer after
// a read of more attempts than loadAttempts.
func (b *batch) load(ctx context.Context) error {
	for len(b.ids) > 0 {
		n := min(max(b.f.loads, 1), len(b.ids))
		recs, err := b.f.cfg.Store.Load(ctx, store.LoadQuery{IDs: b.ids[:n]})
		if err != nil {
			return err
		}
		attempts := 0
		for i := range recs {
			attempts += len(recs[i].Attempts)
		}
		if b.f.loads = min(max(b.f.loads, 2*n), loadRuns); attempts > loadAttempts {
			b.f.loads = n * loadAttempts / attempts
		}
		for i := range recs {
			if err := b.run(ctx, &recs[i]); err != nil {
				return err
			}
		}
		for _, id := range b.ids[:n] { // an id without rows: the run is quarantined or deleted
			for _, e := range b.ends[id] {
				if end := EndOf(e); e.Generation == 1 {
					b.counts.Run(e.Workflow, &end)
				}
			}
		}
		b.ids = b.ids[n:]
	}
	return nil
}

// run counts a run. It reads the run's history only if the row does not suffice.
func (b *batch) run(ctx context.Context, rec *store.RunRecord) error {
	if rec.Bad != nil {
		return nil
	}
	row := &rec.Run
	var all []End
	if known := b.ends[row.ID]; len(known) == 1 && row.Generation == 1 {
		all = []End{EndOf(known[0])}
	} else {
		events, err := b.f.history(ctx, row)
		if err == nil {
			all, err = Ends(row, events)
		}
		if errors.Is(err, store.ErrCorrupt) { // skein verify reports the damaged history
			all = b.byRow(row, events)
		} else if err != nil {
			return err
		}
		if all == nil {
			return nil // load has already counted this end
		}
	}
	g, err := b.graph(row)
	if err != nil {
		return err
	}
	for i := range all {
		if e := &all[i]; b.wants(row.ID, e.Seq) {
			b.counts.Run(row.Workflow, e)
			if g != nil {
				b.counts.Tasks(row.Workflow, e, g, rec.Attempts)
			}
		}
	}
	delete(b.ends, row.ID)
	return nil
}

// byRow returns the end of a run whose history is damaged. In its first generation, a run has its end in its
// row. The transaction of the end is that of the last event. If no event can be read, the time of the end
// decides.
func (b *batch) byRow(row *dag.RunRow, events []dag.EventRow) []End {
	if row.Generation > 1 || !row.State.Terminal() || b.ends != nil {
		return nil
	}
	seq := b.after
	if len(events) > 0 {
		seq = events[len(events)-1].Seq
	} else if row.FinishedAt > b.at {
		seq = b.to
	}
	return []End{EndOf(&store.Ended{Fence: store.Fence{Seq: seq}, State: row.State, Created: row.Created, Split: row.SplitAt, Finished: row.FinishedAt})}
}

// graph returns the graph of a run if the attempts of its tasks are counted. Otherwise it returns nil.
func (b *batch) graph(row *dag.RunRow) (*dag.Graph, error) {
	tasks, err := b.f.countsTasks(row.Workflow, row.Version)
	if err != nil || !tasks {
		return nil, err
	}
	g, err := b.f.cfg.Graphs.Of(row)
	if err != nil {
		return nil, UnlessForever(err)
	}
	return g, nil
}

func (b *batch) wants(id dag.RunID, seq int64) bool {
	if b.ends == nil {
		return seq > b.after && seq <= b.to
	}
	for _, e := range b.ends[id] {
		if e.Seq == seq {
			return true
		}
	}
	return false
}

// history reads all events of a run that could be its end.
func (f *Folder) history(ctx context.Context, row *dag.RunRow) (all []dag.EventRow, err error) {
	for after := int64(-1); ; {
		page, err := f.cfg.Store.Events(ctx, row.ID, after, pageRuns)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if len(page) < pageRuns {
			return all, nil
		}
		after = page[len(page)-1].Seq
	}
}
