package dispatch

import (
	"bytes"
	"context"
	"encoding/binary"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
)

// countedRuns is a store that counts which runs are read. Runs whose id begins with 1 are large.
type countedRuns struct {
	store.Store
	reads map[dag.RunID]int
}

func (c countedRuns) Run(_ context.Context, id dag.RunID) (dag.RunRow, error) {
	c.reads[id]++
	row := dag.RunRow{Header: dag.Header{ID: id}}
	if id[0] == 1 {
		row.Params = bytes.Repeat([]byte("x"), idleBytesMax+1)
	}
	return row, nil
}

// TestRunsAreKept: the row of a run is read once for all its attempts, also if they come one after the
// other. It is not cached for ever, not if it is large, and not if the generation of an attempt is unknown.
func TestRunsAreKept(t *testing.T) {
	t.Parallel()
	st := countedRuns{reads: map[dag.RunID]int{}}
	r := NewResolver(Config{Store: st})
	pass := func(id dag.RunID, generation int32) {
		t.Helper()
		if _, err := r.enter(&engine.Assignment{Run: id, Generation: generation}); err != nil {
			t.Fatal(err)
		}
		r.leave(id)
	}
	small, large := dag.RunID{2}, dag.RunID{1}
	for range 3 {
		pass(small, 1)
		pass(large, 1)
	}
	if st.reads[small] != 1 || st.reads[large] != 3 {
		t.Errorf("the small row was read %d times, the large one %d times", st.reads[small], st.reads[large])
	}
	pass(small, 0)
	if st.reads[small] != 2 {
		t.Errorf("for an attempt of an unknown generation it was read %d times", st.reads[small])
	}
	for i := range uint32(2 * idleMax) {
		id := dag.RunID{3}
		binary.BigEndian.PutUint32(id[4:], i)
		pass(id, 1)
	}
	if len(r.runs) > idleMax || len(r.idle) > idleMax {
		t.Errorf("%d rows are kept, %d are listed", len(r.runs), len(r.idle))
	}
	for range 3 * idleMax { // a long chain
		pass(small, 1)
	}
	if st.reads[small] != 3 {
		t.Errorf("in a long chain the row was read %d times more", st.reads[small]-2)
	}
	r.leave(dag.RunID{9}) // it was never entered
}
