package engine

import (
	"context"
	"errors"
	"fmt"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// Glance is the state of every task of a run at one moment, without what its attempts tell.
type Glance struct {
	Row    dag.RunRow
	Graph  *dag.Graph
	States []dag.TaskState
}

// Glance reads the state of every task of a run: of one that has ended from its row, of another from the memory of its
// owner. It returns ErrNotFound if there is no such run.
func (e *Engine) Glance(ctx context.Context, id dag.RunID) (Glance, error) {
	row, err := e.store.Run(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return Glance{}, fmt.Errorf("run %s: %w", id, ErrNotFound)
	}
	if err != nil {
		return Glance{}, fromStore("run "+id.String(), err)
	}
	if row.SplitAt == 0 || row.Cause == dag.CauseCorrupt { // it has no tasks yet, or none that can be read
		g, err := e.graphs.get(row.Workflow, row.Version)
		if err != nil {
			return Glance{}, err
		}
		return Glance{Row: row, Graph: g, States: make([]dag.TaskState, g.Len())}, nil
	}
	s, err := e.look(ctx, &row, dag.LeaderTask)
	if err != nil {
		return Glance{}, err
	}
	states := make([]dag.TaskState, len(s.views))
	for t := range s.views {
		states[t] = s.views[t].State
	}
	return Glance{Row: row, Graph: s.g, States: states}, nil
}
