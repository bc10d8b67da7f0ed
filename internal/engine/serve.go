package engine

import (
	"context"
	"errors"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// What the gateway reads besides read.go: narrow looks that are cheap for large runs.

// RunRow reads the row of a run, without deriving anything.
func (e *Engine) RunRow(ctx context.Context, id dag.RunID) (dag.RunRow, error) {
	row, err := e.store.Run(ctx, id)
	return row, fromStore("run "+id.String(), err)
}

// RunByKey finds the run that was started with an idempotency key.
func (e *Engine) RunByKey(ctx context.Context, w dag.WorkflowID, key string) (dag.RunRow, error) {
	row, err := store.RunByKey(ctx, e.store, w, key)
	return row, fromStore("run with that idempotency key", err)
}

// Attempts reads the attempts of one task, by token, without outputs.
func (e *Engine) Attempts(ctx context.Context, id dag.RunID, t dag.TaskID) ([]dag.AttemptRow, error) {
	as, err := e.store.Attempts(ctx, store.AttemptQuery{Run: id, Task: t, One: true})
	return as, fromStore("attempts of run "+id.String(), err)
}

// begun reads only the attempts with a row of their own: not those in flight or with a plain success, which
// are packed in the run's history and take longer to find.
func (e *Engine) begun(ctx context.Context, id dag.RunID, t dag.TaskID) ([]dag.AttemptRow, error) {
	as, err := e.store.Attempts(ctx, store.AttemptQuery{Run: id, Task: t, One: true, Sparing: true})
	return as, fromStore("attempts of run "+id.String(), err)
}

// Records names the tasks and holders of lines of a run's history. Of row only the ids and
// the version count.
func (e *Engine) Records(ctx context.Context, row *dag.RunRow, records []dag.Record) ([]RecordView, error) {
	g, err := e.graphs.get(row.Workflow, row.Version)
	if err == nil && slices.ContainsFunc(records, func(r dag.Record) bool { return int(r.Task) >= g.Len() }) { // an instance
		var whole dag.RunRow
		if whole, err = e.store.Run(ctx, row.ID); err == nil {
			g, err = e.graphOf(&whole)
		}
	}
	if errors.Is(err, ErrUnavailable) || errors.Is(err, store.ErrUnavailable) {
		return nil, fromStore("names of tasks", err)
	}
	views := make([]RecordView, 0, len(records))
	for _, rec := range records {
		v := RecordView{Record: rec}
		if rec.Task != dag.LeaderTask {
			v.TaskName = nameIn(g, rec.Task)
		}
		if v.By, err = e.handlers.get(ctx, e.store, rec.Handler); err != nil {
			return nil, err
		}
		views = append(views, v)
	}
	return views, nil
}

// Slots tells how many attempts may run at once and how many slots are taken.
func (e *Engine) Slots() (total, busy int) {
	return e.cfg.Slots, e.cfg.Slots - int(max(e.home.free.Load(), 0))
}

// SubmitRoom tells how many more submissions may wait for the writer now, and how many may
// at most; past that they are refused with ErrBusy.
func (e *Engine) SubmitRoom() (left, most int) {
	b := e.writer.inbox
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(b.submitMax-b.submits, 0), b.submitMax
}
