package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// Definition is a workflow to be applied. The caller has checked and compiled it.
type Definition struct {
	Namespace, Name string
	Source, Def     []byte
	Graph           []byte // packed
	Tasks           int    // the number of tasks in the graph, for the quota of its namespace
	Digest          []byte // digest of source and files
	Files           []store.File
	User            string
	// Revision is the revision that the caller expects (If-Match), or 0.
	Revision int64
	// Beside is the shard for a new workflow. If it is nil, the engine chooses one.
	Beside *dag.ShardID
}

// definition is a change of a workflow that the writer applies.
type definition struct {
	id              dag.WorkflowID // 0 means the workflow with this namespace and name, or a new one
	namespace, name string
	version         *store.Version // a new version
	current         int32          // version to make current, for a rollback
	state           string         // a new state
	revision        int64          // If-Match; 0 means any
	clock           reading
	beside          *dag.ShardID
}

// definitions holds the workflows of the owned shards. Only the owner changes them, so its copies are exact.
// The copies of a gateway may be older.
type definitions struct {
	known  map[dag.WorkflowID]store.Workflow
	names  *directory     // the copies of the workflows for the gateways
	system dag.WorkflowID // the workflow whose tasks this process executes without a slot; 0 if it is not known
	// release is the workflow of errands, or 0 if not known.
	release dag.WorkflowID

	limits   *limits
	schedule *schedule
	alerts   *alerts
	store    store.Store
	cluster  store.Cluster // nil if no other node owns shards
	planner  Planner
	definitionsCore
}

// definitionsCore is the part of the writer that definitions uses.
type definitionsCore interface {
	core
	here(dag.ShardID) error // returns an error that names the owner, if this writer does not own the shard
	firstShard() (dag.ShardID, bool)
}

func (d *definitions) set(e *Engine, w *writer) {
	d.names, d.limits, d.schedule, d.alerts, d.store, d.cluster, d.planner, d.definitionsCore = &e.directory, &w.limits, &w.schedule, &w.alerts, e.store, e.cluster, e.cfg.Planner, w
}

// definitionsMax bounds the definitions in memory. A dropped one is read again when needed.
const definitionsMax = 10_000

func (d *definitions) forget() {
	d.known = map[dag.WorkflowID]store.Workflow{}
	d.names.forget()
}

// trim drops definitions from memory. It is called between transactions, because a transaction must find the
// definitions that it changed.
func (d *definitions) trim() {
	if len(d.known) > definitionsMax {
		d.forget()
	}
}

// workflow returns a workflow as the transaction being made leaves it.
func (d *definitions) workflow(id dag.WorkflowID) (store.Workflow, error) {
	wf, ok := d.known[id]
	if ok {
		return wf, nil
	}
	wf, err := d.store.WorkflowByID(context.Background(), id)
	if err != nil {
		return wf, errkind.FromStore(fmt.Sprintf("workflow %d", id), err)
	}
	d.known[id] = wf
	return wf, nil
}

// named finds the workflow that has a name now. Its ID is 0 if there is none.
func (d *definitions) named(namespace, name string, beside *dag.ShardID) (store.Workflow, error) {
	inserts := d.txn().batch.WorkflowInserts
	for i := range inserts {
		if wf := d.known[inserts[i].ID]; wf.Namespace == namespace && wf.Name == name && wf.State != store.WorkflowDeleted {
			return wf, nil
		}
	}
	wf, err := d.store.Workflow(context.Background(), namespace, name)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return d.fresh(namespace, name, beside)
	case err != nil:
		return wf, errkind.FromStore("read the workflow", err)
	}
	if is, ok := d.known[wf.ID]; ok && is.State == store.WorkflowDeleted { // deleted in this transaction
		return d.fresh(namespace, name, beside)
	}
	return d.workflow(wf.ID)
}

// fresh prepares a new workflow. The workflow joins the given shard. If no shard is given, it joins the shard
// with the fewest workflows, so that workflows are spread evenly. fresh returns Elsewhere if another node
// owns the shard.
func (d *definitions) fresh(namespace, name string, beside *dag.ShardID) (store.Workflow, error) {
	wf := store.Workflow{Namespace: namespace, Name: name}
	first, owns := d.firstShard()
	if !owns {
		return wf, &errkind.Elsewhere{}
	}
	wf.Shard = first
	if beside != nil {
		wf.Shard = *beside
		return wf, d.here(wf.Shard)
	}
	if d.cluster == nil {
		return wf, nil
	}
	_, rows, err := d.cluster.Members(context.Background())
	if err != nil {
		return wf, errkind.FromStore("choose a shard", err)
	}
	wf.Shard = emptiest(rows)
	return wf, d.here(wf.Shard)
}

// emptiest returns the shard with the fewest workflows among the owned ones. Among equal shards it prefers
// one whose owner has the fewest workflows.
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

// Apply makes a version of a definition. If the current version has the same definition, Apply returns it,
// and created is false. If the newest version has the same definition but an older version is current, Apply
// makes the newest current again.
func (e *Engine) Apply(ctx context.Context, d Definition) (w store.Workflow, created bool, err error) {
	if err := checkTasks(e, d.Namespace, d.Tasks); err != nil {
		return w, false, err
	}
	is, err := e.store.Workflow(ctx, d.Namespace, d.Name)
	switch {
	case err == nil:
		v, err := e.store.Version(ctx, is.ID, is.Version)
		// retention may have deleted the version while a rollback to it was under way
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return w, false, errkind.FromStore("read the current version", err)
		}
		if err == nil && bytes.Equal(v.Digest, d.Digest) && (d.Revision == 0 || d.Revision == is.Revision) {
			return is, false, nil
		}
	case !errors.Is(err, store.ErrNotFound):
		return w, false, errkind.FromStore("read the workflow", err)
	}
	v := &store.Version{Source: d.Source, Def: d.Def, Graph: d.Graph, Digest: d.Digest, User: d.User, Files: d.Files}
	a, err := e.change(ctx, item{define: &definition{id: is.ID, namespace: d.Namespace, name: d.Name, version: v, revision: d.Revision, beside: d.Beside}})
	return a.result().workflow, err == nil && !a.existing, err
}

// SetState pauses, resumes or deletes a workflow. If once is not nil, the change is stored under its
// idempotency key: a repeated call changes nothing and returns the workflow as it is.
func (e *Engine) SetState(ctx context.Context, w store.Workflow, state string, revision int64, once *store.Request) (store.Workflow, error) {
	switch state {
	case store.WorkflowActive, store.WorkflowPaused, store.WorkflowDeleted:
	default:
		return w, fmt.Errorf("%w: %q is not a state of a workflow", errkind.ErrInvalid, state)
	}
	return e.changeOnce(ctx, definition{id: w.ID, state: state, revision: revision}, once)
}

// Rollback makes an earlier version the current one; once is as in SetState.
func (e *Engine) Rollback(ctx context.Context, w store.Workflow, version int32, revision int64, once *store.Request) (store.Workflow, error) {
	if _, err := e.store.Version(ctx, w.ID, version); err != nil {
		return w, errkind.FromStore(fmt.Sprintf("version %d of %s", version, w.Name), err)
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
	if err == nil && a.existing && a.result().workflow.ID == 0 {
		return e.WorkflowByID(ctx, d.id)
	}
	return a.result().workflow, err
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
	if err == nil && d.version != nil { // compile the version now, so that the first run need not wait for it
		wf := a.result().workflow
		_, _ = e.graphs.Get(wf.ID, wf.Version)
	}
	return a, err
}

// intent is the effect of a change on a workflow.
type intent struct {
	was, next store.Workflow
	existing  bool         // the version exists already
	decl      *Declaration // the new triggers; nil if they do not change
}

// same reports whether nothing changes.
func (i *intent) same() bool { return i.was.ID != 0 && i.next == i.was }

// intended returns the effect of a change on its workflow. It returns an error if the change is not possible.
// It changes nothing.
func (d *definitions) intended(ch *definition) (i intent, err error) {
	d.schedule.goBy(ch.clock)
	wf, err := d.defined(ch)
	if err == nil {
		err = d.here(wf.Shard)
	}
	if err != nil {
		return i, err
	}
	if wf.State == store.WorkflowDeleted {
		return i, fmt.Errorf("%w: workflow %s/%s was deleted", errkind.ErrConflict, wf.Namespace, wf.Name)
	}
	if ch.revision != 0 && ch.revision != wf.Revision {
		return i, fmt.Errorf("%w: workflow %s/%s has changed since you read it: it now has revision %d and is %s; read it again", errkind.ErrConflict, wf.Namespace, wf.Name, wf.Revision, wf.State)
	}
	i.was, i.next = wf, wf
	if ch.state != "" {
		i.next.State = ch.state
	}
	if ch.current != 0 {
		i.next.Version = ch.current
	}
	if ch.version != nil {
		if i.next.Version, err = d.numbered(&wf, ch.version.Digest); err != nil {
			return i, err
		}
		i.existing = i.next.Version <= wf.Latest
		i.next.Latest = max(wf.Latest, i.next.Version)
	}
	if !i.same() {
		i.decl, err = d.room(&i.next, &i.was, ch, i.existing)
	}
	return i, err
}

// define applies a change. It assigns ids and version numbers, because it is the only writer.
func (d *definitions) define(ch *definition) answer {
	is, err := d.intended(ch)
	if err != nil {
		return answer{err: err}
	}
	a, wf, next, decl := answer{more: &result{workflow: is.was}, existing: is.existing}, is.was, is.next, is.decl
	if is.same() {
		return a
	}
	if decl != nil {
		next.MaxRuns, next.Tags = decl.MaxRuns, decl.Tags
		// the due instants are decided by the version that was current when they became due
		if err := d.schedule.settleChanged(&wf, decl); err != nil {
			d.broken(err)
			return answer{err: err}
		}
	}
	next.Revision++
	next.Modified = d.txn().now.Wall
	if wf.ID == 0 {
		if next.ID, err = d.newWorkflowID(); err != nil {
			return answer{err: err}
		}
		next.State, next.Created = store.WorkflowActive, d.txn().now.Wall
		d.txn().batch.WorkflowInserts = append(d.txn().batch.WorkflowInserts, next)
	} else {
		d.txn().batch.WorkflowUpdates = append(d.txn().batch.WorkflowUpdates, next)
	}
	if ch.version != nil && !a.existing {
		v := *ch.version
		v.Workflow, v.Version, v.Created = next.ID, next.Version, d.txn().now.Wall
		d.txn().batch.Versions = append(d.txn().batch.Versions, v)
	}
	d.known[next.ID] = next
	d.noteSystem(&next)
	d.limits.gates.open[store.TriggerKey{Workflow: next.ID}] = true
	d.schedule.openBackfills(&next)
	if err := d.declared(&next, &wf, decl, ch); err != nil {
		d.broken(err)
		return answer{err: err}
	}
	a.more = &result{workflow: next}
	return a
}

// room returns the result of the method declaration, or a QuotaError if the change would exceed a quota of
// the namespace.
func (d *definitions) room(next, was *store.Workflow, ch *definition, existing bool) (*Declaration, error) {
	decl, err := d.declaration(next, was, ch)
	if err == nil {
		err = d.mayKeep(next, decl, ch, existing)
	}
	return decl, err
}

// mayKeep returns a QuotaError if the change would exceed a quota of stored objects of the namespace.
func (d *definitions) mayKeep(next *store.Workflow, decl *Declaration, ch *definition, existing bool) error {
	bounds := d.limits.quotas.known.quotasOf(next.Namespace)
	if !bounds.Stocked() {
		return nil
	}
	var more store.NamespaceStock
	if ch.version != nil && !existing {
		more.Versions, more.Bytes = 1, versionBytes(ch.version)
	}
	if decl != nil && len(decl.Triggers) > 0 && bounds.Triggers > 0 {
		is, err := d.schedule.triggersOf(next.ID)
		if err != nil {
			return err
		}
		more.Triggers = int64(len(decl.Triggers) - len(is))
	}
	return d.limits.quotas.mayKeep(next, &bounds, more)
}

// declared applies a change of a workflow to its alerts and triggers.
func (d *definitions) declared(next, was *store.Workflow, decl *Declaration, ch *definition) error {
	if next.Version != was.Version || next.State != was.State {
		def := []byte(nil)
		if ch.version != nil && next.Version > was.Latest {
			def = ch.version.Def
		}
		if err := d.alerts.declare(next, def, next.Version != was.Version); err != nil {
			return err
		}
	}
	if decl == nil {
		return nil
	}
	return d.schedule.declare(next, decl)
}

// declaration returns the new triggers of a changed workflow, or nil if the triggers do not change.
func (d *definitions) declaration(next, was *store.Workflow, ch *definition) (*Declaration, error) {
	p := d.planner
	switch {
	case p == nil || next.Version == was.Version && next.State == was.State:
		return nil, nil
	case next.State == store.WorkflowDeleted:
		return &Declaration{MaxRuns: next.MaxRuns, Tags: next.Tags}, nil
	case next.Version == was.Version:
		return nil, nil
	}
	def := []byte(nil)
	if ch.version != nil && next.Version > was.Latest {
		def = ch.version.Def
	} else {
		v, err := d.version(next.ID, next.Version)
		if err != nil {
			return nil, err
		}
		def = v.Def
	}
	decl, err := p.Declared(next.Namespace, next.Name, def)
	if err != nil {
		return nil, fmt.Errorf("%w: its triggers: %w", errkind.ErrInvalid, err)
	}
	return &decl, d.schedule.ring(next, &decl)
}

// defined finds the workflow of a change.
func (d *definitions) defined(ch *definition) (store.Workflow, error) {
	if ch.id != 0 {
		return d.workflow(ch.id)
	}
	if ch.version == nil {
		return store.Workflow{}, fmt.Errorf("%w: the workflow has no id", errkind.ErrInvalid)
	}
	return d.named(ch.namespace, ch.name, ch.beside)
}

// numbered returns the number for a version with a digest. If the current or the newest version has that
// digest, this is its number. Otherwise it is the next number.
func (d *definitions) numbered(wf *store.Workflow, digest []byte) (int32, error) {
	for _, n := range [...]int32{wf.Version, wf.Latest} {
		if n == 0 {
			break
		}
		is, err := d.digest(wf.ID, n)
		if errors.Is(err, errkind.ErrNotFound) { // retention may have deleted the version while the rollback was under way
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

func (d *definitions) digest(id dag.WorkflowID, version int32) ([]byte, error) {
	v, err := d.version(id, version)
	return v.Digest, err
}

// version returns a version as the transaction being made leaves it.
func (d *definitions) version(id dag.WorkflowID, version int32) (store.Version, error) {
	for i := range d.txn().batch.Versions {
		if v := &d.txn().batch.Versions[i]; v.Workflow == id && v.Version == version {
			return *v, nil
		}
	}
	v, err := d.store.Version(context.Background(), id, version)
	return v, errkind.FromStore(fmt.Sprintf("read version %d", version), err)
}

// newWorkflowID makes an id that no other owner can make: the present time in microseconds, or the next value
// that no workflow has. There is only one writer, so no value is used twice. The id fits into 53 bits, so
// that a JSON number can hold it.
func (d *definitions) newWorkflowID() (dag.WorkflowID, error) {
	for id := dag.WorkflowID(d.txn().now.Wall); ; id++ {
		_, err := d.workflow(id)
		if errors.Is(err, errkind.ErrNotFound) {
			return id, nil
		}
		if err != nil {
			return 0, err
		}
	}
}
