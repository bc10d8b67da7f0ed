package engine

import (
	"context"
	"fmt"

	"skein.dev/skein/internal/dag"
)

// completed returns the parameters of a run. If another program inserted the run, it completes them by the
// defaults of the version.
func (w *writer) completed(r *dag.Run) ([]byte, error) {
	if !r.Raw() || w.e.cfg.Planner == nil {
		return r.Params, nil
	}
	return w.e.cfg.Planner.Params(context.Background(), *rawParams(r))
}

func rawParams(r *dag.Run) *ParamsQuery {
	return &ParamsQuery{Workflow: r.Workflow, Version: r.Version, Given: r.Params, Instant: r.Instant(), Literal: true}
}

// filling returns the data for completing the parameters of a run that another program inserted in its own
// transaction, or nil if they are complete.
func (w *writer) filling(a Assignment) *ParamsQuery {
	r := w.runs[a.Run]
	if r == nil || !r.Raw() {
		return nil
	}
	return rawParams(r)
}

// split does Leader work: it makes the graph of a run and, with fill, completes the parameters. If the
// parameters are invalid, it returns an error, and those of the parameters that the run's row may keep.
func (e *Engine) split(ctx context.Context, a *Assignment, fill *ParamsQuery) (*dag.Graph, []byte, error) {
	g, err := e.graphs.Get(a.Workflow, a.Version)
	if err != nil || fill == nil {
		return g, nil, err
	}
	if e.cfg.Planner == nil {
		return g, fill.Given, nil
	}
	params, err := e.cfg.Planner.Params(ctx, *fill)
	if err != nil {
		return nil, params, fmt.Errorf("its parameters: %w", err)
	}
	return g, params, nil
}
