package inspect

import (
	"context"
	"fmt"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
)

// Recovery describes the effect of a recover of a run now.
type Recovery struct {
	Row     dag.RunRow
	Graph   *dag.Graph      // nil if the recover is not allowed
	States  []dag.TaskState // state of each task
	Again   []bool          // for each task, whether the recover would run it again
	Refused string          // the reason why the recover is not allowed; "" if it is allowed
}

// PlanRecovery plans a recover of a run with the code of the recover itself, on the present rows. It returns
// errkind.ErrNotFound if the run or the task does not exist. task is "" for ScopeFailed.
func PlanRecovery(ctx context.Context, rd *Reader, id dag.RunID, scope dag.Scope, task string) (Recovery, error) {
	row, err := rd.store.Run(ctx, id)
	if err != nil {
		return Recovery{}, errkind.FromStore("run "+id.String(), err)
	}
	p := Recovery{Row: row}
	ev := dag.Event{Kind: dag.EvRecover, Scope: scope}
	switch {
	case row.Cause == dag.CauseCorrupt:
		p.Refused = "the run is quarantined: " + row.Message
		return p, nil
	case !row.State.Terminal() || row.SplitAt == 0:
		p.Refused = (&dag.Run{State: row.State}).Refusal(&ev)
		return p, nil
	}
	g, attempts, views, err := rd.derive(ctx, &row)
	if err != nil {
		return p, err
	}
	t := dag.LeaderTask
	if task != "" {
		found, ok := g.Find(task)
		if !ok {
			return p, errkind.NoTask(task, id)
		}
		t = found
	}
	now, err := rd.Clock(ctx)
	if err != nil {
		return p, err
	}
	r, err := dag.Load(&row, g, attempts, dag.Now{Wall: now}, &dag.Effects{})
	if err != nil {
		return p, fmt.Errorf("%w: %w", errkind.ErrDamaged, err)
	}
	p.Row = row
	if p.Again, p.Refused = r.PlanRecover(scope, t); p.Refused == "" {
		p.Graph, p.States = g, glanceOf(&row, g, views).States
	}
	return p, nil
}
