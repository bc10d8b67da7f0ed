package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
)

// logic finds out what logical tasks wait for: it is the engine's Preparer.
type logic struct{ *resolver }

// Prepare evaluates the instant of a wait, or what a call starts.
func (l logic) Prepare(ctx context.Context, q engine.PrepareQuery) (engine.Prepared, error) {
	v, err := l.versions.get(versionID{q.Row.Workflow, q.Row.Version})
	if err != nil {
		return engine.Prepared{}, ofStore(err)
	}
	a := engine.Assignment{Run: q.Row.ID, Task: q.Task, Token: q.Token, Name: q.Graph.Name(q.Task), Graph: q.Graph}
	t, ok := v.position(&a)
	if !ok {
		return engine.Prepared{}, fmt.Errorf("version %d of workflow %s has no task %q", q.Row.Version, v.Name, a.Name)
	}
	known, err := l.outputs(ctx, &a, v.reads[t])
	if err != nil {
		return engine.Prepared{}, ofStore(err)
	}
	in := workflow.Inputs{RunID: q.Row.ID.String(), Attempt: int(q.Token), Params: q.Row.Params, TriggerTime: q.Row.Instant().Time(),
		Outputs: func(task string) (json.RawMessage, dag.TaskState) { o := known[task]; return o.json, o.state }}
	if q.Graph.Kind(q.Task) == dag.Foreach {
		items, err := v.Items(t, in)
		return engine.Prepared{Items: items}, err
	}
	if d := v.Tasks[t].Dependent; d != nil {
		return l.dependent(ctx, v, d, &q)
	}
	if q.Graph.Kind(q.Task) == dag.Dependent {
		return l.condition(ctx, v, t, in)
	}
	if q.Graph.Kind(q.Task) == dag.Wait {
		at, err := v.Until(t, in)
		return engine.Prepared{Until: dag.Micro(at)}, err
	}
	return l.call(ctx, v, t, in)
}

// call finds the workflow that a task calls, as it is now, and makes the parameters of its run.
func (l logic) call(ctx context.Context, v *version, t int, in workflow.Inputs) (engine.Prepared, error) {
	name := v.Target(v.Tasks[t].Call)
	row, err := l.find(ctx, name)
	if err != nil {
		return engine.Prepared{}, err
	}
	if row.State != store.WorkflowActive {
		return engine.Prepared{}, fmt.Errorf("workflow %s is %s and starts nothing; resume it, then recover this run", name, row.State)
	}
	child, err := l.versions.get(versionID{row.ID, row.Version})
	if err != nil {
		return engine.Prepared{}, ofStore(err)
	}
	params, err := v.CallParams(t, in, child.Workflow)
	if err != nil {
		return engine.Prepared{}, fmt.Errorf("the parameters of workflow %s: %w", name, err)
	}
	return engine.Prepared{Workflow: row.ID, Version: row.Version, Name: name, Priority: child.Level(), Params: params}, nil
}

// Outputs makes the outputs of a call of those of the last tasks of its run.
func (l logic) Outputs(last [][]byte) ([]byte, error) { return workflow.MergeOutputs(last) }

// ofStore has the engine ask again what the store could not read now.
func ofStore(err error) error {
	if errors.Is(err, store.ErrUnavailable) {
		return fmt.Errorf("%w: %w", engine.ErrUnavailable, err)
	}
	return err
}
