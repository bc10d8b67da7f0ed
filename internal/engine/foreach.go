package engine

import (
	"context"
	"fmt"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// listMax bounds the outputs of a foreach task, which are the list of the outputs of its instances, in bytes.
const listMax = 1 << 20

// joinedOutputs reads the outputs of the instances of a foreach task, on another goroutine than the writer's.
// It returns the item that settles the task.
func (c *calls) joinedOutputs(ctx context.Context, p *dag.Prepare, row *dag.RunRow, g *dag.Graph) (item, error) {
	ev := dag.Event{Kind: dag.EvSettle, Task: p.Task, Token: p.Token, Of: dag.Foreach,
		Child: dag.Child{Generation: row.Generation}, Result: dag.Result{State: dag.AttemptSucceeded}}
	list := []byte{'['}
	for i, t := range g.Instances(p.Task) {
		out, err := c.instanceOutputs(ctx, row.ID, t)
		if err != nil {
			return item{}, err
		}
		if i > 0 {
			list = append(list, ',')
		}
		if list = append(list, out...); len(list) > listMax {
			ev.Result = dag.Result{State: dag.AttemptFailed, Cause: dag.CauseOutput, Message: fmt.Sprintf(
				"the outputs of the instances of %s have more than %d bytes together, and an expression reads them: let the instances leave less", g.Name(p.Task), listMax)}
			list = nil
			break
		}
	}
	if list != nil {
		ev.Result.Outputs = append(list, ']')
	}
	return item{op: func(*writer) answer { return c.stepOther(p.Run, &ev) }}, nil
}

// instanceOutputs returns the outputs of an instance as JSON: an object, or null if it was skipped.
func (c *calls) instanceOutputs(ctx context.Context, id dag.RunID, t dag.TaskID) ([]byte, error) {
	rows, err := c.store.Attempts(ctx, store.AttemptQuery{Run: id, Task: t, One: true, Outputs: true, Sparing: true})
	if err != nil {
		return nil, errkind.FromStore("outputs", err)
	}
	if n := len(rows); n == 0 || rows[n-1].State != dag.AttemptSucceeded {
		return []byte("null"), nil
	} else if rows[n-1].Outputs != nil {
		return rows[n-1].Outputs, nil
	}
	return []byte("{}"), nil
}
