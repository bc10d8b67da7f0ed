package inspect

import (
	"context"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// addHandles adds the handles of a task's attempts. The row of an attempt has the handle in the column of the
// outputs.
func addHandles(ctx context.Context, st store.Store, run dag.RunID, v *TaskView) error {
	rows, err := st.Attempts(ctx, store.AttemptQuery{Run: run, Task: v.ID, One: true, Outputs: true, Sparing: true})
	if err != nil {
		return errkind.FromStore("the handles of task "+v.Name, err)
	}
	handles := map[dag.Token]dag.Handle{}
	for i := range rows {
		if h, ok := dag.HandleOf(&rows[i]); ok {
			handles[rows[i].Token] = h
		}
	}
	for i := range v.Attempts {
		v.Attempts[i].Handle = handles[v.Attempts[i].Token]
	}
	return nil
}
