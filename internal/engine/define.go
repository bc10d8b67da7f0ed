package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// Definition is a workflow as it is applied: checked and compiled by the caller.
type Definition struct {
	Namespace, Name string
	Source, Def     []byte
	Graph           []byte // packed
	Digest          []byte // of source and files
	Files           []store.File
	User            string
	// Revision, if not 0, is what the caller believes: If-Match.
	Revision int64
}

// definition is a change of a workflow on its way through the writer.
type definition struct {
	is       store.Workflow // as the gateway read it; zero: it does not exist
	version  *store.Version // a new version
	current  int32          // roll back to this version
	state    string         // a new state
	revision int64          // If-Match; 0: any
}

// definitions remembers the workflows that this ownership changed: the writer is the only
// one who changes them, so whoever read a row either read what is here or is out of date.
type definitions map[dag.WorkflowID]store.Workflow

func (d definitions) latest(read store.Workflow) store.Workflow {
	if w, ok := d[read.ID]; ok && w.Revision >= read.Revision {
		return w
	}
	return read
}

// Apply makes a version of a definition, or finds that the newest is the same. created
// says which.
func (e *Engine) Apply(ctx context.Context, d Definition) (w store.Workflow, created bool, err error) {
	is, err := e.store.Workflow(ctx, d.Namespace, d.Name)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return w, false, fromStore("read the workflow", err)
	}
	if err == nil {
		v, err := e.store.Version(ctx, is.ID, is.Latest)
		if err != nil {
			return w, false, fromStore("read the newest version", err)
		}
		if bytes.Equal(v.Digest, d.Digest) && is.Version == is.Latest && (d.Revision == 0 || d.Revision == is.Revision) {
			return is, false, nil
		}
	} else {
		is = store.Workflow{Namespace: d.Namespace, Name: d.Name, Shard: e.shards[0]}
	}
	v := &store.Version{Source: d.Source, Def: d.Def, Graph: d.Graph, Digest: d.Digest, User: d.User, Files: d.Files}
	a, err := e.change(ctx, definition{is: is, version: v, revision: d.Revision})
	return a, err == nil, err
}

// SetState pauses, resumes or deletes a workflow.
func (e *Engine) SetState(ctx context.Context, w store.Workflow, state string, revision int64) (store.Workflow, error) {
	return e.change(ctx, definition{is: w, state: state, revision: revision})
}

// Rollback makes an earlier version the one that new runs get.
func (e *Engine) Rollback(ctx context.Context, w store.Workflow, version int32, revision int64) (store.Workflow, error) {
	if _, err := e.store.Version(ctx, w.ID, version); err != nil {
		return w, fromStore(fmt.Sprintf("version %d of %s", version, w.Name), err)
	}
	return e.change(ctx, definition{is: w, current: version, revision: revision})
}

func (e *Engine) change(ctx context.Context, d definition) (store.Workflow, error) {
	if err := e.Accepting(); err != nil {
		return store.Workflow{}, err
	}
	a, err := e.writer.inbox.send(ctx, item{define: &d})
	if err != nil {
		return store.Workflow{}, err
	}
	if d.version != nil { // compile it now: the first run need not wait for it
		_, _ = e.graphs.get(a.workflow.ID, a.workflow.Version)
	}
	return a.workflow, nil
}

// define applies a change; ids and version numbers are given here, by the only writer.
func (w *writer) define(d *definition, now dag.Now) answer {
	wf := w.changed.latest(d.is)
	if wf.ID == 0 {
		if made := w.changed.named(wf.Namespace, wf.Name); made.ID != 0 {
			wf = made // two first applies at once
		}
	}
	if wf.State == store.WorkflowDeleted || d.revision != 0 && d.revision != wf.Revision {
		return answer{err: fmt.Errorf("%w: workflow %s/%s was changed in between (revision %d)", ErrConflict, wf.Namespace, wf.Name, wf.Revision)}
	}
	wf.Revision++
	wf.Modified = now.Wall
	if d.state != "" {
		wf.State = d.state
	}
	if d.current != 0 {
		wf.Version = d.current
	}
	isNew := wf.ID == 0
	if isNew {
		wf.ID = newWorkflowID(now)
		for w.changed[wf.ID].ID != 0 {
			wf.ID++
		}
		wf.State, wf.Created = store.WorkflowActive, now.Wall
	}
	if d.version != nil {
		wf.Latest++
		wf.Version = wf.Latest
		v := *d.version
		v.Workflow, v.Version, v.Created = wf.ID, wf.Version, now.Wall
		w.batch.Versions = append(w.batch.Versions, v)
	}
	if isNew {
		w.batch.WorkflowInserts = append(w.batch.WorkflowInserts, wf)
	} else {
		w.batch.WorkflowUpdates = append(w.batch.WorkflowUpdates, wf)
	}
	w.changed[wf.ID] = wf
	return answer{workflow: wf}
}

// newWorkflowID makes an id that no other owner makes: the instant of the only writer. It
// fits in 53 bits, so that it survives a JSON number.
func newWorkflowID(now dag.Now) dag.WorkflowID { return dag.WorkflowID(now.Wall) }

func (d definitions) named(namespace, name string) store.Workflow {
	for _, w := range d {
		if w.Namespace == namespace && w.Name == name && w.State != store.WorkflowDeleted {
			return w
		}
	}
	return store.Workflow{}
}
