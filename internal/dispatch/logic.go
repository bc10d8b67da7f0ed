package dispatch

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
	"skein.dev/skein/sdk/shared/output"
)

// logic implements the engine's Preparer. It finds the events for which logical tasks wait.
type logic struct{ *Resolver }

// Preparer returns the implementation of the engine's Preparer.
func (r *Resolver) Preparer() engine.Preparer { return logic{r} }

// Prepare evaluates the end of a wait, or the start of a call.
func (l logic) Prepare(ctx context.Context, q engine.PrepareQuery) (engine.Prepared, error) {
	a := engine.Assignment{Run: q.Row.ID, Task: q.Task, Token: q.Token, Name: q.Graph.Name(q.Task), Graph: q.Graph}
	v, t, err := l.declared(&q, &a)
	if err != nil {
		return engine.Prepared{}, err
	}
	if by := v.Tasks[t].Approval; by != nil {
		is := engine.Prepared{By: by.By, Message: by.Message, FourEyes: by.FourEyes}
		if len(by.Form) > 0 {
			is.Form, err = json.Marshal(by.Form)
		}
		return is, err
	}
	known, err := l.outputs(ctx, &a, v.reads[t])
	if err != nil {
		return engine.Prepared{}, ofStore(err)
	}
	in := workflow.Inputs{RunID: q.Row.ID.String(), Version: int(q.Row.Version), Attempt: int(q.Token), Params: q.Row.Params, TriggerTime: q.Row.Instant().Time(),
		Item:    q.Graph.Item(q.Task),
		Outputs: func(task string) (json.RawMessage, dag.TaskState) { o := known[task]; return o.json, o.state }}
	if q.Graph.Kind(q.Task) == dag.Foreach {
		items, err := v.Items(t, in)
		return engine.Prepared{Items: items}, err
	}
	if v.Tasks[t].Notify != nil {
		return l.notify(ctx, v, t, &q, in)
	}
	if d := v.Tasks[t].Dependent; d != nil {
		return l.dependent(ctx, v, d, &q)
	}
	if w := v.Tasks[t].Wait; w != nil && w.Event != nil {
		return l.awaited.Look(ctx, &Wanted{Key: dag.KeyOf(q.Row.ID, q.Task, q.Token), Namespace: v.Namespace, Event: w.Event,
			Passes: func(event json.RawMessage) (bool, error) { return v.Passes(t, in, event) }})
	}
	if q.Graph.Kind(q.Task) == dag.Dependent {
		return l.condition(ctx, v, t, in)
	}
	if q.Graph.Kind(q.Task) == dag.Wait {
		at, err := v.Until(t, in)
		return engine.Prepared{Until: dag.Micro(at)}, err
	}
	if v.Tasks[t].Made != nil {
		return l.made(ctx, v, t, &q, in)
	}
	return l.call(ctx, v, t, in)
}

// declared returns the declaration of a task in the version of its run.
func (l logic) declared(q *engine.PrepareQuery, a *engine.Assignment) (*version, int, error) {
	v, err := l.versions.Get(versionID{q.Row.Workflow, q.Row.Version})
	if err != nil {
		return nil, 0, ofStore(err)
	}
	t, ok := v.position(a)
	if !ok {
		return nil, 0, fmt.Errorf("version %d of workflow %s has no task %q", q.Row.Version, v.Name, a.Name)
	}
	return v, t, nil
}

// made applies the workflow of an emitted task as a companion of the run's workflow. The same tasks give the
// same version, so a retry after a crash finds the version.
func (l logic) made(ctx context.Context, v *version, t int, q *engine.PrepareQuery, in workflow.Inputs) (engine.Prepared, error) {
	name := v.MadeName(t, strconv.FormatInt(int64(q.Row.Workflow), 10))
	source, err := v.MadeSource(t, in, name)
	if err != nil || source == nil {
		return engine.Prepared{Leaves: []byte("{}")}, err
	}
	own, unread := classesOf(ctx, l.cfg.Store)
	def, err := workflow.ParseMade(source, own)
	if *unread != nil {
		return engine.Prepared{}, ofStore(*unread)
	}
	if err != nil {
		return engine.Prepared{}, err
	}
	def.Origin = v.Origin
	d := engine.Definition{Namespace: def.Namespace, Name: def.Name, Source: source, User: q.Row.User, Beside: &q.Row.Shard}
	files, err := v.files()
	if err != nil {
		return engine.Prepared{}, ofStore(err)
	}
	for _, f := range files {
		d.Files = append(d.Files, store.File{Name: f.Name, Mode: uint32(f.Mode), Data: f.Content})
	}
	g, err := def.Graph(workflow.MadeTasksMax)
	if err != nil {
		return engine.Prepared{}, err
	}
	d.Graph, d.Tasks = g.Pack(), g.Len()
	if d.Def, err = json.Marshal(def); err != nil {
		return engine.Prepared{}, fmt.Errorf("encode workflow %s: %w", def.Name, err)
	}
	sum := sha256.Sum256(d.Def)
	d.Digest = sum[:]
	row, _, err := l.cfg.Engine().Apply(ctx, d)
	switch {
	case errors.Is(err, errkind.ErrConflict): // the workflow has changed in the meantime, so read it again
		return engine.Prepared{}, fmt.Errorf("%w: %w", errkind.ErrUnavailable, err)
	case err != nil:
		return engine.Prepared{}, ofStore(err)
	case row.State != store.WorkflowActive:
		return engine.Prepared{}, fmt.Errorf("workflow %s/%s, which this task makes, is %s, so it starts no runs; resume it, then recover this run", def.Namespace, def.Name, row.State)
	}
	return engine.Prepared{Workflow: row.ID, Version: row.Version, Exact: true, Name: def.Namespace + "/" + def.Name, Priority: q.Row.Priority, Params: q.Row.Params}, nil
}

// classesOf returns a function that reads the resource classes when it is called. The error says why they
// could not be read.
func classesOf(ctx context.Context, st store.Classes) (func(namespace string) map[string]dag.Need, *error) {
	failed := new(error)
	return func(namespace string) map[string]dag.Need {
		all, err := st.ClassList(ctx)
		*failed = err
		return store.Needs(all, namespace)
	}, failed
}

// call finds the present version of the workflow that a task calls, and makes the parameters of the called
// run.
func (l logic) call(ctx context.Context, v *version, t int, in workflow.Inputs) (engine.Prepared, error) {
	name := v.Target(v.Tasks[t].Call)
	row, err := l.find(ctx, name)
	if err != nil {
		return engine.Prepared{}, err
	}
	if row.State != store.WorkflowActive {
		return engine.Prepared{}, fmt.Errorf("workflow %s is %s, so it starts no runs; resume it, then recover this run", name, row.State)
	}
	child, err := l.versions.Get(versionID{row.ID, row.Version})
	if err != nil {
		return engine.Prepared{}, ofStore(err)
	}
	if offered, declared := child.OffersTo(v.Namespace); declared && !offered {
		return engine.Prepared{}, child.NotOffered(v.Namespace)
	}
	params, err := v.CallParams(t, in, child.Workflow)
	if err != nil {
		return engine.Prepared{}, fmt.Errorf("the parameters of workflow %s: %w", name, err)
	}
	is := engine.Prepared{Workflow: row.ID, Version: row.Version, Name: name, Priority: child.Level(), Params: params}
	for _, g := range v.Tasks[t].Call.With {
		is.Given = append(is.Given, g.Name)
	}
	return is, nil
}

// Outputs makes the outputs of a call from the outputs of the last tasks of the called run. Each output that
// the call declares must be among them, with the declared type.
func (l logic) Outputs(_ context.Context, q engine.PrepareQuery, last [][]byte) ([]byte, error) {
	v, t, err := l.declared(&q, &engine.Assignment{Run: q.Row.ID, Task: q.Task, Name: q.Graph.Name(q.Task), Graph: q.Graph})
	if err != nil {
		return nil, err
	}
	merged, err := workflow.MergeOutputs(last)
	if err != nil {
		return nil, err
	}
	out, err := output.Object(merged, v.types[t])
	if err != nil {
		return nil, fmt.Errorf("the outputs of the last tasks of its run: %w", err)
	}
	return out, nil
}

// ofStore converts an error of a store that did not answer, so that the engine repeats the call.
func ofStore(err error) error {
	if errors.Is(err, store.ErrUnavailable) {
		return fmt.Errorf("%w: %w", errkind.ErrUnavailable, err)
	}
	return err
}
