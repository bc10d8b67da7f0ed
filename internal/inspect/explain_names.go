package inspect

import (
	"context"
	"errors"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// elseRun stands for a run whose ID the caller may not know.
const elseRun = "a run of another namespace"

type readableKey struct{}

// WithReadable makes an explanation name runs of other namespaces only if readable returns true for their
// namespace. Locks and queues are shared by all namespaces, so any run can be a holder. Without WithReadable,
// an explanation names all runs.
func WithReadable(ctx context.Context, readable func(namespace string) bool) context.Context {
	return context.WithValue(ctx, readableKey{}, readable)
}

// nameOf names a run that holds something. With the workflow 0, it reads the run's row first.
func (x *explaining) nameOf(ctx context.Context, run dag.RunID, workflow dag.WorkflowID) (string, error) {
	name := "run " + run.String()
	readable, bounded := ctx.Value(readableKey{}).(func(string) bool)
	if !bounded || run == x.run.ID {
		return name, nil
	}
	if workflow == 0 {
		row, err := x.rd.store.Run(ctx, run)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return "", errkind.FromStore("read "+name, err)
		}
		workflow = row.Workflow
	}
	wf, err := x.rd.store.WorkflowByID(ctx, workflow)
	if errors.Is(err, store.ErrNotFound) {
		return elseRun, nil
	}
	if err != nil {
		return "", errkind.FromStore("read the workflow of "+name, err)
	}
	if wf.Namespace == x.run.Workflow.Namespace || readable(wf.Namespace) {
		return name, nil
	}
	return elseRun, nil
}
