package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
)

// Bounds of looking for the run that a task depends on.
const (
	dependentPages  = 10 // of 1,000 runs each
	dependentRuns   = 20 // whose task is looked at
	lookSoon        = time.Second
	lookLate        = 30 * time.Second
	lookShareOfWait = 20 // the longer it waits, the rarer it looks
)

// condition looks at what a wait waits for.
func (l logic) condition(ctx context.Context, v *version, t int, in workflow.Inputs) (engine.Prepared, error) {
	now, err := l.store.Clock(ctx)
	if err != nil {
		return engine.Prepared{}, ofStore(err)
	}
	in.Now = now.Time()
	later, err := v.Holds(t, in)
	return engine.Prepared{Later: later, Why: engine.Reason{Kind: "wait", What: "until " + v.Tasks[t].Wait.Condition,
		Unblocks: fmt.Sprintf("that; it is looked at every %v", later)}}, err
}

// dependent looks for the run of another workflow, or its task, that a task waits for.
func (l logic) dependent(ctx context.Context, v *version, d *workflow.Needed, q *engine.PrepareQuery) (engine.Prepared, error) {
	target := v.TargetOf(d)
	row, err := l.find(ctx, target)
	if err != nil {
		return engine.Prepared{}, err
	}
	from, until, err := d.Span(q.Row.Instant().Time())
	if err != nil {
		return engine.Prepared{}, err
	}
	found, err := l.inSpan(ctx, row.ID, dag.Micro(from), dag.Micro(until))
	if err != nil {
		return engine.Prepared{}, ofStore(err)
	}
	why := engine.Reason{Kind: "dependent", What: d.Words(target, from, until) + "; there is none yet", Unblocks: "such a run: skein run list --workflow " + target}
	for i := range found {
		o := &found[i]
		state := o.State.String()
		if d.Task != "" {
			if state, err = l.taskState(ctx, o, d.Task); err != nil {
				return engine.Prepared{}, ofStore(err)
			}
		}
		if d.Accepts(state) {
			leaves, err := json.Marshal(map[string]string{"run": o.ID.String(), "state": state})
			return engine.Prepared{Leaves: leaves}, err
		}
		if why.Holder != "" {
			continue
		}
		why.Holder = "run " + o.ID.String() // the newest
		why.What = d.Words(target, from, until) + "; run " + o.ID.String() + " is " + o.State.String()
		if why.Unblocks = "its end: skein explain " + o.ID.String(); o.State.Terminal() {
			why.Unblocks = "skein run recover " + o.ID.String() + ", or another run within that span"
		}
	}
	now, err := l.store.Clock(ctx)
	if err != nil {
		return engine.Prepared{}, ofStore(err)
	}
	waited := time.Duration(max(now-q.Row.Created, 0)) * time.Microsecond
	return engine.Prepared{Later: min(max(waited/lookShareOfWait, lookSoon), lookLate), Why: why}, nil
}

// inSpan lists the runs of a workflow whose instant lies in a span, the newest first. None of them was
// made before its instant.
func (l logic) inSpan(ctx context.Context, id dag.WorkflowID, from, until dag.Micros) ([]dag.RunRow, error) {
	var found []dag.RunRow
	q := store.RunQuery{Workflow: id, Since: from, Limit: 1000}
	for range dependentPages {
		page, err := l.store.Runs(ctx, q)
		if err != nil {
			return nil, err
		}
		for i := range page.Runs {
			if at := page.Runs[i].Instant(); at >= from && at < until && len(found) < dependentRuns {
				found = append(found, page.Runs[i])
			}
		}
		if q.Before = page.Next; q.Before.IsZero() || len(found) == dependentRuns {
			break
		}
	}
	return found, nil
}

// taskState is how a task of another run stands; "" if that has no such task (yet).
func (l logic) taskState(ctx context.Context, row *dag.RunRow, task string) (string, error) {
	if row.SplitAt == 0 {
		return "", nil
	}
	g, views, err := l.engine.Standing(ctx, row)
	if err != nil {
		return "", err
	}
	t, ok := g.Find(task)
	if !ok {
		return "", nil
	}
	return views[t].State.String(), nil
}

// find is a workflow that starts runs, or will.
func (l logic) find(ctx context.Context, name string) (store.Workflow, error) {
	namespace, short, _ := strings.Cut(name, "/")
	row, err := l.store.Workflow(ctx, namespace, short)
	if errors.Is(err, store.ErrNotFound) {
		return row, fmt.Errorf("there is no workflow %s; apply it, then recover this run", name)
	}
	return row, ofStore(err)
}
