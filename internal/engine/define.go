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
	// Beside, if not nil, is the shard that a new workflow is to be of.
	Beside *dag.ShardID
}

// definition is a change of a workflow on its way through the writer.
type definition struct {
	id              dag.WorkflowID // 0: the one of that name, or a new one
	namespace, name string
	version         *store.Version // a new version
	current         int32          // roll back to this version
	state           string         // a new state
	revision        int64          // If-Match; 0: any
	clock           reading
	beside          *dag.ShardID
}

// definitions are workflows as this owner knows them. It alone changes them, so what is
// here is exact, while what a gateway has read may be out of date.
type definitions struct {
	known map[dag.WorkflowID]store.Workflow
	names *directory // what the gateways keep of them
}

// definitionsMax bounds the definitions in memory. A dropped one is read again when needed.
const definitionsMax = 10_000

func (d *definitions) forget() {
	d.known = map[dag.WorkflowID]store.Workflow{}
	d.names.forget()
}

// trim is called between transactions, because a transaction must find the definitions that it changed.
func (d *definitions) trim() {
	if len(d.known) > definitionsMax {
		d.forget()
	}
}

// workflow gives a workflow as it is in the transaction being made.
func (w *writer) workflow(id dag.WorkflowID) (store.Workflow, error) {
	wf, ok := w.defs.known[id]
	if ok {
		return wf, nil
	}
	wf, err := w.e.store.WorkflowByID(context.Background(), id)
	if err != nil {
		return wf, fromStore(fmt.Sprintf("workflow %d", id), err)
	}
	w.defs.known[id] = wf
	return wf, nil
}

// named finds the workflow that has a name now; its ID is 0 if there is none.
func (w *writer) named(namespace, name string, beside *dag.ShardID) (store.Workflow, error) {
	inserts := w.tx.batch.WorkflowInserts
	for i := range inserts {
		if wf := w.defs.known[inserts[i].ID]; wf.Namespace == namespace && wf.Name == name && wf.State != store.WorkflowDeleted {
			return wf, nil
		}
	}
	wf, err := w.e.store.Workflow(context.Background(), namespace, name)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return w.fresh(namespace, name, beside)
	case err != nil:
		return wf, fromStore("read the workflow", err)
	}
	if is, ok := w.defs.known[wf.ID]; ok && is.State == store.WorkflowDeleted { // in this transaction
		return w.fresh(namespace, name, beside)
	}
	return w.workflow(wf.ID)
}

// fresh prepares a new workflow. Its shard is that of the given workflow, or the one with the fewest
// workflows, so that they spread evenly. It returns Elsewhere if another node owns the shard.
func (w *writer) fresh(namespace, name string, beside *dag.ShardID) (store.Workflow, error) {
	wf := store.Workflow{Namespace: namespace, Name: name}
	if len(w.fences) == 0 {
		return wf, &Elsewhere{}
	}
	wf.Shard = w.fences[0].Shard
	if beside != nil {
		wf.Shard = *beside
		return wf, w.here(wf.Shard)
	}
	if w.e.cluster == nil {
		return wf, nil
	}
	_, rows, err := w.e.cluster.Members(context.Background())
	if err != nil {
		return wf, fromStore("choose a shard", err)
	}
	wf.Shard = emptiest(rows)
	return wf, w.here(wf.Shard)
}

// emptiest is the owned shard with fewest workflows, of those the one whose owner has fewest.
func emptiest(rows []store.ShardRow) dag.ShardID {
	of := map[dag.HandlerID]int{}
	for i := range rows {
		of[rows[i].Owner] += rows[i].Workflows
	}
	best := -1
	for i := range rows {
		r := &rows[i]
		switch {
		case r.Owner == 0:
		case best < 0, r.Workflows < rows[best].Workflows,
			r.Workflows == rows[best].Workflows && of[r.Owner] < of[rows[best].Owner]:
			best = i
		}
	}
	if best < 0 {
		return 0
	}
	return rows[best].ID
}

// Apply makes a version of a definition, or finds that new runs get the same already;
// created says which. If the newest version is the same but an older one is current, it is
// made current again.
func (e *Engine) Apply(ctx context.Context, d Definition) (w store.Workflow, created bool, err error) {
	is, err := e.store.Workflow(ctx, d.Namespace, d.Name)
	switch {
	case err == nil:
		v, err := e.store.Version(ctx, is.ID, is.Version)
		if err != nil && !errors.Is(err, store.ErrNotFound) { // retention may have met a rollback
			return w, false, fromStore("read the current version", err)
		}
		if err == nil && bytes.Equal(v.Digest, d.Digest) && (d.Revision == 0 || d.Revision == is.Revision) {
			return is, false, nil
		}
	case !errors.Is(err, store.ErrNotFound):
		return w, false, fromStore("read the workflow", err)
	}
	v := &store.Version{Source: d.Source, Def: d.Def, Graph: d.Graph, Digest: d.Digest, User: d.User, Files: d.Files}
	a, err := e.change(ctx, item{define: &definition{id: is.ID, namespace: d.Namespace, name: d.Name, version: v, revision: d.Revision, beside: d.Beside}})
	return a.workflow, err == nil && !a.existing, err
}

// SetState pauses, resumes or deletes a workflow. once, if not nil, keeps the change under
// an idempotency key: a repeat changes nothing and gives the workflow as it is.
func (e *Engine) SetState(ctx context.Context, w store.Workflow, state string, revision int64, once *store.Request) (store.Workflow, error) {
	switch state {
	case store.WorkflowActive, store.WorkflowPaused, store.WorkflowDeleted:
	default:
		return w, fmt.Errorf("%w: a workflow is not %q", ErrInvalid, state)
	}
	return e.changeOnce(ctx, definition{id: w.ID, state: state, revision: revision}, once)
}

// Rollback makes an earlier version the one that new runs get; once is as in SetState.
func (e *Engine) Rollback(ctx context.Context, w store.Workflow, version int32, revision int64, once *store.Request) (store.Workflow, error) {
	if _, err := e.store.Version(ctx, w.ID, version); err != nil {
		return w, fromStore(fmt.Sprintf("version %d of %s", version, w.Name), err)
	}
	return e.changeOnce(ctx, definition{id: w.ID, current: version, revision: revision}, once)
}

func (e *Engine) changeOnce(ctx context.Context, d definition, once *store.Request) (store.Workflow, error) {
	it := item{define: &d}
	if once != nil {
		req := *once
		if err := checkTexts("scope", req.Scope, "idempotency key", req.Key); err != nil {
			return store.Workflow{}, err
		}
		it.req = &req
	}
	a, err := e.change(ctx, it)
	if err == nil && a.existing && a.workflow.ID == 0 {
		return e.WorkflowByID(ctx, d.id)
	}
	return a.workflow, err
}

func (e *Engine) change(ctx context.Context, it item) (answer, error) {
	if err := e.Accepting(); err != nil {
		return answer{}, err
	}
	d := it.define
	var err error
	if d.clock, err = e.readClock(ctx); err != nil {
		return answer{}, err
	}
	a, err := e.writer.inbox.send(ctx, it)
	if err == nil && d.version != nil { // compile it now: the first run need not wait for it
		_, _ = e.graphs.get(a.workflow.ID, a.workflow.Version)
	}
	return a, err
}

// define applies a change; ids and version numbers are given here, by the only writer.
func (w *writer) define(d *definition) answer {
	w.goBy(d.clock)
	wf, err := w.defined(d)
	if err == nil {
		err = w.here(wf.Shard)
	}
	if err != nil {
		return answer{err: err}
	}
	if wf.State == store.WorkflowDeleted || d.revision != 0 && d.revision != wf.Revision {
		return answer{err: fmt.Errorf("%w: workflow %s/%s was changed in between (revision %d, %s)", ErrConflict, wf.Namespace, wf.Name, wf.Revision, wf.State)}
	}
	a := answer{workflow: wf}
	next := wf
	if d.state != "" {
		next.State = d.state
	}
	if d.current != 0 {
		next.Version = d.current
	}
	if d.version != nil {
		if next.Version, err = w.numbered(&wf, d.version.Digest); err != nil {
			return answer{err: err}
		}
		a.existing = next.Version <= wf.Latest
		next.Latest = max(wf.Latest, next.Version)
	}
	if wf.ID != 0 && next == wf {
		return a // nothing to change
	}
	decl, err := w.declaration(&next, &wf, d)
	if err != nil {
		return answer{err: err}
	}
	if decl != nil {
		next.MaxRuns = decl.MaxRuns
		if err := w.settleChanged(&wf, decl); err != nil { // by the version that they were due under
			w.broken(err)
			return answer{err: err}
		}
	}
	next.Revision++
	next.Modified = w.tx.now.Wall
	if wf.ID == 0 {
		if next.ID, err = w.newWorkflowID(); err != nil {
			return answer{err: err}
		}
		next.State, next.Created = store.WorkflowActive, w.tx.now.Wall
		w.tx.batch.WorkflowInserts = append(w.tx.batch.WorkflowInserts, next)
	} else {
		w.tx.batch.WorkflowUpdates = append(w.tx.batch.WorkflowUpdates, next)
	}
	if d.version != nil && !a.existing {
		v := *d.version
		v.Workflow, v.Version, v.Created = next.ID, next.Version, w.tx.now.Wall
		w.tx.batch.Versions = append(w.tx.batch.Versions, v)
	}
	w.defs.known[next.ID] = next
	w.noteSystem(&next)
	w.gates.open[store.TriggerKey{Workflow: next.ID}] = true
	w.openBackfills(&next)
	if decl != nil {
		if err := w.declare(&next, decl); err != nil {
			w.broken(err)
			return answer{err: err}
		}
	}
	a.workflow = next
	return a
}

// declaration is what the triggers of a changed workflow are to be; nil: as they are.
func (w *writer) declaration(next, was *store.Workflow, d *definition) (*Declaration, error) {
	p := w.e.cfg.Planner
	switch {
	case p == nil || next.Version == was.Version && next.State == was.State:
		return nil, nil
	case next.State == store.WorkflowDeleted:
		return &Declaration{MaxRuns: next.MaxRuns}, nil
	case next.Version == was.Version:
		return nil, nil
	}
	def := []byte(nil)
	if d.version != nil && next.Version > was.Latest {
		def = d.version.Def
	} else {
		v, err := w.version(next.ID, next.Version)
		if err != nil {
			return nil, err
		}
		def = v.Def
	}
	decl, err := p.Declared(next.Namespace, next.Name, def)
	if err != nil {
		return nil, fmt.Errorf("%w: its triggers: %w", ErrInvalid, err)
	}
	return &decl, w.ring(next, &decl)
}

// defined finds what a change is about.
func (w *writer) defined(d *definition) (store.Workflow, error) {
	if d.id != 0 {
		return w.workflow(d.id)
	}
	if d.version == nil {
		return store.Workflow{}, fmt.Errorf("%w: a workflow without an id", ErrInvalid)
	}
	return w.named(d.namespace, d.name, d.beside)
}

// numbered gives the number of the version with a digest: the current one, the newest, or
// one more.
func (w *writer) numbered(wf *store.Workflow, digest []byte) (int32, error) {
	for _, n := range [...]int32{wf.Version, wf.Latest} {
		if n == 0 {
			break
		}
		is, err := w.digest(wf.ID, n)
		if errors.Is(err, ErrNotFound) { // retention has met a rollback to it
			continue
		}
		if err != nil {
			return 0, err
		}
		if bytes.Equal(is, digest) {
			return n, nil
		}
	}
	return wf.Latest + 1, nil
}

func (w *writer) digest(id dag.WorkflowID, version int32) ([]byte, error) {
	v, err := w.version(id, version)
	return v.Digest, err
}

// version gives a version as it is in the transaction being made.
func (w *writer) version(id dag.WorkflowID, version int32) (store.Version, error) {
	for i := range w.tx.batch.Versions {
		if v := &w.tx.batch.Versions[i]; v.Workflow == id && v.Version == version {
			return *v, nil
		}
	}
	v, err := w.e.store.Version(context.Background(), id, version)
	return v, fromStore(fmt.Sprintf("read version %d", version), err)
}

// newWorkflowID makes an id that no other owner makes: the instant of the only writer. It
// fits in 53 bits, so that it survives a JSON number.
func (w *writer) newWorkflowID() (dag.WorkflowID, error) {
	for id := dag.WorkflowID(w.tx.now.Wall); ; id++ {
		_, err := w.workflow(id)
		if errors.Is(err, ErrNotFound) {
			return id, nil
		}
		if err != nil {
			return 0, err
		}
	}
}
