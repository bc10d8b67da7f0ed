package engine

import (
	"context"
	"fmt"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// StateChange is a new state of a workflow.
type StateChange struct {
	Workflow dag.WorkflowID
	State    string
}

// ApplySet applies definitions and changes states in one transaction: all of them, or none. Every workflow
// must be in a shard of this node; otherwise the error is Elsewhere. No workflow may be named twice. The
// result has the workflows of the definitions, in the same order.
func ApplySet(ctx context.Context, e *Engine, all []Definition, states []StateChange) ([]store.Workflow, error) {
	if err := e.Accepting(); err != nil {
		return nil, err
	}
	clock, err := e.readClock(ctx)
	if err != nil {
		return nil, err
	}
	changes := make([]*definition, 0, len(all)+len(states))
	for i := range all {
		d := &all[i]
		if err := checkTasks(e, d.Namespace, d.Tasks); err != nil {
			return nil, err
		}
		changes = append(changes, &definition{namespace: d.Namespace, name: d.Name, revision: d.Revision, beside: d.Beside, clock: clock,
			version: &store.Version{Source: d.Source, Def: d.Def, Graph: d.Graph, Digest: d.Digest, User: d.User, Files: d.Files}})
	}
	for _, s := range states {
		switch s.State {
		case store.WorkflowActive, store.WorkflowPaused, store.WorkflowDeleted:
		default:
			return nil, fmt.Errorf("%w: %q is not a state of a workflow", errkind.ErrInvalid, s.State)
		}
		changes = append(changes, &definition{id: s.Workflow, state: s.State, clock: clock})
	}
	var out []store.Workflow
	_, err = e.operated(ctx, nil, func(w *writer) answer {
		var a answer
		out, a = w.defs.defineSet(changes, len(all))
		return a
	})
	if err != nil { // the writer may still use the slice
		return nil, err
	}
	for i := range out { // compile now, as Apply does, so that the first runs need not wait for it
		_, _ = e.graphs.Get(out[i].ID, out[i].Version)
	}
	return out, nil
}

// defineSet applies all changes or none. First it checks whether each change is possible. Later, only the
// store can fail, and then the whole transaction is undone.
func (d *definitions) defineSet(changes []*definition, named int) ([]store.Workflow, answer) {
	d.schedule.beside = d.heardAfter(changes)
	defer func() { d.schedule.beside = nil }()
	for _, ch := range changes {
		if _, err := d.intended(ch); err != nil {
			return nil, answer{err: err}
		}
	}
	out := make([]store.Workflow, 0, named)
	for i, ch := range changes {
		a := d.define(ch)
		if a.err != nil {
			if i > 0 {
				d.broken(a.err)
			}
			return nil, answer{err: a.err}
		}
		if i < named {
			out = append(out, a.result().workflow)
		}
	}
	return out, answer{}
}

// heardAfter lists, by full name, the workflows whose ends fire triggers of the workflows that a set changes.
func (d *definitions) heardAfter(changes []*definition) map[string][]string {
	all := map[string][]string{}
	for _, ch := range changes {
		switch {
		case d.planner == nil:
		case ch.version != nil:
			// an error is ignored here, because the function intended returns it
			if decl, err := d.planner.Declared(ch.namespace, ch.name, ch.version.Def); err == nil {
				all[ch.namespace+"/"+ch.name] = decl.heard()
			}
		case ch.state == store.WorkflowDeleted:
			if wf, err := d.workflow(ch.id); err == nil {
				all[wf.Namespace+"/"+wf.Name] = nil
			}
		}
	}
	return all
}

// EmptiestShard returns the shard that a new workflow would join.
func EmptiestShard(ctx context.Context, e *Engine) (dag.ShardID, error) {
	if e.cluster == nil {
		return 0, nil
	}
	_, rows, err := e.cluster.Members(ctx)
	if err != nil {
		return 0, errkind.FromStore("choose a shard", err)
	}
	return emptiest(rows), nil
}
