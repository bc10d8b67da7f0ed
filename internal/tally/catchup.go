package tally

import (
	"context"
	"errors"
	"fmt"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// catchUp counts the ends after the marks of a shard from the rows, and returns the new progress. The ends of
// later transactions are in Folder.held.
func (f *Folder) catchUp(ctx context.Context, s dag.ShardID) (*progress, error) {
	f.mu.Lock()
	delete(f.lost, s) // later ends are in Folder.held
	f.mu.Unlock()
	now, err := f.cfg.Store.Clock(ctx)
	if err != nil {
		return nil, err
	}
	fences, err := f.cfg.Store.Marks(ctx)
	if err != nil {
		return nil, err
	}
	p, to := &progress{}, int64(-1)
	for _, m := range fences {
		if m.Shard == s {
			p.epoch, to = m.Epoch, m.Seq
		}
	}
	marks, err := f.cfg.Store.TallyMarks(ctx, s)
	if err != nil {
		return nil, err
	}
	p.mark = store.TallyMark{Shard: s}
	if is, ok := store.Counted(marks, 0); ok {
		p.mark = is
	} else if err := f.write(ctx, p, nil, store.TallyStep{Seq: 0}); err != nil {
		return nil, err
	}
	if p.mark.Seq == to && len(marks) == 1 {
		return p, nil
	}
	err = f.workflows(ctx, s, func(w dag.WorkflowID) error {
		from := p.mark
		if is, ok := store.Counted(marks, w); ok {
			from = is
		}
		if from.Seq >= to {
			return nil
		}
		return f.recount(ctx, p, w, from, store.TallyMark{Workflow: w, Seq: to, At: now})
	})
	if err != nil {
		return nil, err
	}
	return p, f.write(ctx, p, nil, store.TallyStep{Seq: to, At: now, Whole: true})
}

// failuresShown bounds the number of damaged workflows that an error names.
const failuresShown = 10

// workflows calls a function for each workflow of a shard, including deleted ones. The error of a damaged
// workflow does not end the loop.
func (f *Folder) workflows(ctx context.Context, s dag.ShardID, see func(dag.WorkflowID) error) error {
	var failed []error
	show := func(page []store.Workflow) error {
		for i := range page {
			if page[i].Shard != s {
				continue
			}
			err := see(page[i].ID)
			if err != nil && !errors.Is(err, store.ErrCorrupt) {
				return errors.Join(append(failed, err)...)
			}
			if err != nil && len(failed) < failuresShown {
				failed = append(failed, fmt.Errorf("workflow %d: %w", page[i].ID, err))
			}
		}
		return nil
	}
	if err := EachWorkflow(ctx, f.cfg.Store, show); err != nil {
		return err
	}
	return errors.Join(failed...)
}

// EachWorkflow passes pages of all workflows, including deleted ones, to a function.
func EachWorkflow(ctx context.Context, st store.Store, show func([]store.Workflow) error) error {
	for after := ""; ; {
		page, err := st.Workflows(ctx, store.WorkflowQuery{After: after, Limit: pageRuns})
		if err == nil {
			err = show(page)
		}
		if err != nil {
			return err
		}
		if len(page) < pageRuns {
			break
		}
		after = page[len(page)-1].Namespace + "/" + page[len(page)-1].Name
	}
	rows := store.Can(st).Retention
	for after := dag.WorkflowID(0); rows != nil; {
		page, err := rows.DeletedWorkflows(ctx, after, pageRuns)
		if err == nil {
			err = show(page)
		}
		if err != nil {
			return err
		}
		if len(page) < pageRuns {
			break
		}
		after = page[len(page)-1].ID
	}
	return nil
}

// recount counts the ends of a workflow between two marks from its rows. If the counts of the workflow are
// damaged, it makes all counts again from the kept runs.
func (f *Folder) recount(ctx context.Context, p *progress, w dag.WorkflowID, from, to store.TallyMark) error {
	counts, err := f.between(ctx, w, from, to)
	if err != nil || len(counts) == 0 && from.Workflow == 0 {
		return err
	}
	return f.write(ctx, p, counts, store.TallyStep{Seq: -1, At: to.At, Marks: []store.TallyMark{to}})
}

// between counts the ends of a workflow after one mark and up to another. It skips runs that finished long
// before the first mark. If the clock was ahead at that mark, it skips none, because later ends may have
// earlier times.
func (f *Folder) between(ctx context.Context, w dag.WorkflowID, from, to store.TallyMark) (Counts, error) {
	b := batch{f: f, counts: Counts{}, after: from.Seq, to: to.Seq, at: from.At}
	old := dag.Micros(0)
	if from.At <= to.At {
		old = from.At - dag.Micros(store.ClockSlack.Microseconds())
	}
	for before := (dag.RunID{}); ; {
		began := time.Now()
		page, err := f.cfg.Store.Runs(ctx, store.RunQuery{Workflow: w, Before: before, Limit: pageRuns})
		if err != nil {
			return nil, err
		}
		for i := range page.Runs {
			r := &page.Runs[i]
			if r.FinishedAt == 0 && r.Generation == 1 || r.FinishedAt > 0 && r.FinishedAt < old {
				continue
			}
			b.ids = append(b.ids, r.ID)
		}
		if err := b.load(ctx); err != nil {
			return nil, err
		}
		if before = page.Next; before.IsZero() {
			return b.counts, nil
		}
		if err := f.pause(ctx, time.Since(began)/rest); err != nil { // the scan uses half of the time, and pauses for the other half
			return nil, err
		}
	}
}
