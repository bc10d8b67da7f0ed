package inspect

import (
	"context"
	"errors"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// The functions of this file serve the gateway in addition to those of read.go. They read few columns, so
// they are cheap for large runs.

// RunRow reads the row of a run, without deriving anything.
func (rd *Reader) RunRow(ctx context.Context, id dag.RunID) (dag.RunRow, error) {
	row, err := rd.store.Run(ctx, id)
	return row, errkind.FromStore("run "+id.String(), err)
}

// RunByKey finds the run that was started with an idempotency key.
func (rd *Reader) RunByKey(ctx context.Context, w dag.WorkflowID, key string) (dag.RunRow, error) {
	row, err := store.RunByKey(ctx, rd.store, w, key)
	return row, errkind.FromStore("run with that idempotency key", err)
}

// Attempts reads the attempts of one task without outputs, ordered by token.
func (rd *Reader) Attempts(ctx context.Context, id dag.RunID, t dag.TaskID) ([]dag.AttemptRow, error) {
	as, err := rd.store.Attempts(ctx, store.AttemptQuery{Run: id, Task: t, One: true})
	return as, errkind.FromStore("attempts of run "+id.String(), err)
}

// Begun reads only the attempts with a row of their own. Attempts in flight or with a plain success are
// packed in the run's history, and take longer to find.
func (rd *Reader) Begun(ctx context.Context, id dag.RunID, t dag.TaskID) ([]dag.AttemptRow, error) {
	as, err := rd.store.Attempts(ctx, store.AttemptQuery{Run: id, Task: t, One: true, Sparing: true})
	return as, errkind.FromStore("attempts of run "+id.String(), err)
}

// Records adds the names of tasks and holders to lines of a run's history. It reads only the ids and the
// version of row.
func (rd *Reader) Records(ctx context.Context, row *dag.RunRow, records []dag.Record) ([]RecordView, error) {
	g, err := rd.graphs.Get(row.Workflow, row.Version)
	if err == nil && slices.ContainsFunc(records, func(r dag.Record) bool { return int(r.Task) >= g.Len() }) { // an instance
		var whole dag.RunRow
		if whole, err = rd.store.Run(ctx, row.ID); err == nil {
			g, err = rd.RunGraph(&whole)
		}
	}
	if errors.Is(err, errkind.ErrUnavailable) || errors.Is(err, store.ErrUnavailable) {
		return nil, errkind.FromStore("names of tasks", err)
	}
	views := make([]RecordView, 0, len(records))
	for _, rec := range records {
		v := RecordView{Record: rec}
		if rec.Task != dag.LeaderTask {
			v.TaskName = nameIn(g, rec.Task)
		}
		if v.By, err = rd.HandlerByID(ctx, rec.Handler); err != nil {
			return nil, err
		}
		views = append(views, v)
	}
	return views, nil
}
