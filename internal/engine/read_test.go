package engine_test

import (
	"context"
	"sync/atomic"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
)

// older is a store that returns an earlier row of a run once, as a reader gets it while the run changes.
type older struct {
	store.Store
	row atomic.Pointer[dag.RunRow]
}

func (o *older) Run(ctx context.Context, id dag.RunID) (dag.RunRow, error) {
	if row := o.row.Swap(nil); row != nil {
		return *row, nil
	}
	return o.Store.Run(ctx, id)
}

// lister finds two items for every foreach task, once the test allows it.
type lister struct {
	caller
	found chan struct{}
}

func (l lister) Prepare(ctx context.Context, q engine.PrepareQuery) (engine.Prepared, error) {
	if q.Graph.Kind(q.Task) != dag.Foreach {
		return l.caller.Prepare(ctx, q)
	}
	select {
	case <-l.found:
		return engine.Prepared{Items: &dag.Items{Values: [][]byte{[]byte("1"), []byte("2")}}}, nil
	case <-ctx.Done():
		return engine.Prepared{}, ctx.Err()
	}
}

// TestReadWhileItGrows: the row of a run is read, then the run gets further tasks, and then its attempts are
// read.
func TestReadWhileItGrows(t *testing.T) {
	st := &older{Store: openMemory(t)}
	found := make(chan struct{})
	n := start(t, st, newHands(t), func(c *engine.Config) { c.Preparer = lister{caller{st}, found} })
	id := n.submit(n.apply("w", graph(t, "a; each: a", logical(map[string]*dag.Logic{"each": {Kind: dag.Foreach}}))))
	var before dag.RunRow
	for before.SplitAt == 0 {
		var err error
		if before, err = st.Run(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	close(found)
	n.ends(id, dag.RunSucceeded)
	reads := map[string]func() (tasks int, err error){
		"run": func() (int, error) {
			v, err := n.GetRun(t.Context(), id)
			return v.Counts[dag.Succeeded], err
		},
		"tasks": func() (int, error) {
			_, all, err := n.Tasks(t.Context(), id, 0, -1)
			return all, err
		},
		"standing": func() (int, error) {
			row, err := st.Run(t.Context(), id)
			if err != nil {
				return 0, err
			}
			_, views, err := n.Standing(t.Context(), &row)
			return len(views), err
		},
	}
	for name, read := range reads {
		st.row.Store(&before)
		if tasks, err := read(); err != nil || tasks != 4 {
			t.Errorf("%s: %d tasks, %v", name, tasks, err)
		}
	}
}
