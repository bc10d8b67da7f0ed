package engine

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// Everything in this file looks only at rows: any node can answer.

// RunView is a run as people see it.
type RunView struct {
	dag.RunRow
	Workflow store.Workflow
	Counts   map[dag.TaskState]int // tasks by state; empty until it is split
	Failed   []string              // the first tasks that failed, at most failedNamesMax
	Modified dag.Micros            // of its newest event
	Leader   store.Handler         // the handler that split it; zero: not split yet
	// ParentTask is the task of another run that called it; "": none did.
	ParentTask string
	// Place is its position in its queue. nil: it is not queued.
	Place *store.Place
}

// TaskView is a task of a run as people see it.
type TaskView struct {
	ID       dag.TaskID
	Name     string
	State    dag.TaskState
	Cause    string // why it failed, was skipped, or is upstream_failed; "": does not apply
	Created  dag.Micros
	Modified dag.Micros
	Attempts []AttemptView
	Outputs  []byte // of the succeeded attempt; a JSON object or nil
}

// AttemptView is an attempt and its present or last holder.
type AttemptView struct {
	dag.AttemptRow
	By store.Handler
}

// outline reads one run without counting its tasks.
func (e *Engine) outline(ctx context.Context, id dag.RunID) (v RunView, err error) {
	v.RunRow, err = e.store.Run(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return v, fmt.Errorf("run %s: %w", id, ErrNotFound)
	}
	if err != nil {
		return v, fromStore("run "+id.String(), err)
	}
	v.Modified = max(v.Created, v.SplitAt, v.FinishedAt)
	if v.Workflow, err = e.store.WorkflowByID(ctx, v.RunRow.Workflow); err != nil {
		return v, fromStore("workflow of run "+id.String(), err)
	}
	one := []RunView{v}
	err = e.seat(ctx, one)
	return one[0], err
}

// GetRun reads one run.
func (e *Engine) GetRun(ctx context.Context, id dag.RunID) (RunView, error) {
	row, err := e.store.Run(ctx, id)
	if errors.Is(err, store.ErrNotFound) { // the store's own message does not help the caller
		return RunView{}, fmt.Errorf("run %s: %w", id, ErrNotFound)
	}
	if err != nil {
		return RunView{}, fromStore("run "+id.String(), err)
	}
	v, err := e.view(ctx, row)
	if err != nil || !row.Claim.InLine() {
		return v, err
	}
	one := []RunView{v}
	err = e.seat(ctx, one)
	return one[0], err
}

func (e *Engine) view(ctx context.Context, row dag.RunRow) (RunView, error) {
	return viewWith(ctx, e, row, map[dag.WorkflowID]store.Workflow{})
}

// viewWith is view for one run of several; workflows are those that have been read for the others.
func viewWith(ctx context.Context, e *Engine, row dag.RunRow, workflows map[dag.WorkflowID]store.Workflow) (RunView, error) {
	v := RunView{RunRow: row, Modified: max(row.Created, row.SplitAt, row.FinishedAt)}
	var err error
	known := false
	if v.Workflow, known = workflows[row.Workflow]; !known {
		if v.Workflow, err = e.store.WorkflowByID(ctx, row.Workflow); err != nil {
			return v, fromStore("workflow of run "+row.ID.String(), err)
		}
		workflows[row.Workflow] = v.Workflow
	}
	if v.Leader, err = e.handlers.get(ctx, e.store, row.Leader); err != nil {
		return v, err
	}
	if p := row.Parent(); p != nil {
		if v.ParentTask, err = e.TaskName(ctx, p.Up().Run, p.Task); err != nil { // it is not kept any more
			v.ParentTask = fmt.Sprintf("#%d", p.Task)
		}
	}
	if row.Final != nil {
		if v.Counts, err = dag.CountStates(row.Final); err == nil && v.Counts[dag.Failed] > 0 {
			v.Failed = e.failedOf(&row)
		}
		return v, err
	}
	v.Counts = map[dag.TaskState]int{}
	if row.SplitAt == 0 || row.Cause == dag.CauseCorrupt { // nothing to count, or nothing that can be
		return v, nil
	}
	g, attempts, views, err := e.derive(ctx, &row)
	if err != nil {
		return v, err
	}
	v.RunRow = row
	for i := range views {
		if v.Counts[views[i].State]++; views[i].State == dag.Failed && len(v.Failed) < failedNamesMax {
			v.Failed = append(v.Failed, g.Name(dag.TaskID(i)))
		}
	}
	for i := range attempts {
		v.Modified = max(v.Modified, attempts[i].Assigned, attempts[i].Started, attempts[i].Finished)
	}
	return v, nil
}

// failedNamesMax is how many tasks that failed are named with their run.
const failedNamesMax = 3

// failedOf names tasks of an ended run that failed. What cannot be read names none: the run is shown all the
// same.
func (e *Engine) failedOf(row *dag.RunRow) (names []string) {
	g, err := e.graphOf(row)
	if err != nil {
		return nil
	}
	for _, t := range dag.TasksIn(row.Final, dag.Failed, failedNamesMax) {
		if int(t) < g.Len() {
			names = append(names, g.Name(t))
		}
	}
	return names
}

// rereads is how often a run that goes on while it is read is read again.
const rereads = 10

// derive computes the state of every task of a run from its rows. They are read one after the other: if
// what belongs to a newer row was found, the row is read again, in its place.
func (e *Engine) derive(ctx context.Context, row *dag.RunRow) (*dag.Graph, []dag.AttemptRow, []dag.TaskView, error) {
	for n := 0; ; n++ {
		g, err := e.graphOf(row)
		if err != nil {
			return nil, nil, nil, err
		}
		attempts, err := e.store.Attempts(ctx, store.AttemptQuery{Run: row.ID, Outputs: g.KeepsAny()})
		if err != nil {
			return nil, nil, nil, fromStore("attempts of run "+row.ID.String(), err)
		}
		views, err := dag.Derive(g, row, attempts)
		if err == nil {
			return g, attempts, views, nil
		}
		now, gone := e.store.Run(ctx, row.ID)
		switch {
		case gone != nil:
			return nil, nil, nil, fromStore("run "+row.ID.String(), gone)
		case n == rereads || reflect.DeepEqual(now, *row): // it is damaged
			return nil, nil, nil, fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		*row = now
	}
}

// Standing is the graph of a run and the state of each of its tasks. A row that is out of date is replaced.
func (e *Engine) Standing(ctx context.Context, row *dag.RunRow) (*dag.Graph, []dag.TaskView, error) {
	g, _, views, err := e.derive(ctx, row)
	return g, views, err
}

// RunPage is one page of a list of runs.
type RunPage struct {
	Runs  []RunView
	Next  dag.RunID // where the following page begins; zero: there is none
	Total store.Total
}

// Runs lists runs, newest first.
func (e *Engine) Runs(ctx context.Context, q store.RunQuery) (RunPage, error) {
	page, err := e.store.Runs(ctx, q)
	if err != nil {
		return RunPage{}, fromStore("list runs", err)
	}
	views, workflows := make([]RunView, 0, len(page.Runs)), map[dag.WorkflowID]store.Workflow{}
	for _, row := range page.Runs {
		v, err := viewWith(ctx, e, row, workflows)
		if errors.Is(err, ErrUnavailable) {
			return RunPage{}, err
		}
		if err != nil { // one damaged run does not hide the others
			v.Counts = map[dag.TaskState]int{}
		}
		views = append(views, v)
	}
	return RunPage{views, page.Next, page.Total}, e.seat(ctx, views)
}

// Tasks reads tasks of a run in the order of its graph, from one on; a negative limit
// reads all. It returns how many tasks there are. Outputs come with pages of at most
// outputsPageMax tasks; such a page ends early where they are more than outputsBytesMax together.
func (e *Engine) Tasks(ctx context.Context, id dag.RunID, from, limit int) ([]TaskView, int, error) {
	row, err := e.store.Run(ctx, id)
	if err != nil {
		return nil, 0, fromStore("run "+id.String(), err)
	}
	if row.SplitAt == 0 {
		return nil, 0, nil
	}
	g, attempts, states, err := e.derive(ctx, &row)
	if err != nil && row.Cause == dag.CauseCorrupt && !errors.Is(err, ErrUnavailable) {
		return nil, 0, nil // in quarantine: its message says what is wrong with it
	}
	if err != nil {
		return nil, 0, err
	}
	from = max(from, 0)
	to := g.Len()
	if limit >= 0 && limit < to-from {
		to = from + limit
	}
	begins, at := beginning(g, &row), moments(g, &row, attempts, states)
	next, _ := slices.BinarySearchFunc(attempts, dag.TaskID(from), func(a dag.AttemptRow, t dag.TaskID) int { return int(a.Task - t) })
	var views []TaskView
	for t := dag.TaskID(from); int(t) < to; t++ {
		v := TaskView{ID: t, Name: g.Name(t), State: states[t].State, Created: row.SplitAt, Modified: at[t]}
		first := next // attempts come by task
		for next < len(attempts) && attempts[next].Task == t {
			next++
		}
		if err := e.addAttempts(ctx, &v, attempts[first:next]); err != nil {
			return nil, 0, err
		}
		if v.Cause = causeWithout(g, states, &v); begins != nil && !begins[t] && v.State == dag.Skipped && len(v.Attempts) == 0 {
			v.Cause = "the run began at task " + row.Fire.From
		}
		views = append(views, v)
	}
	if len(views) <= outputsPageMax {
		views, err = e.addOutputs(ctx, id, views)
	}
	return views, g.Len(), err
}

// beginning tells which tasks depend on the one that a run began at; nil: it began at the first.
func beginning(g *dag.Graph, row *dag.RunRow) []bool {
	if row.Fire == nil || row.Fire.From == "" {
		return nil
	}
	from, ok := g.Find(row.Fire.From)
	if !ok {
		return nil
	}
	return g.After(from)
}

// Bounds of the outputs that one read holds: each may be 64 KiB.
const (
	outputsPageMax  = 1000
	outputsBytesMax = 8 << 20
)

func (e *Engine) addAttempts(ctx context.Context, v *TaskView, attempts []dag.AttemptRow) error {
	for i := range attempts {
		a := &attempts[i]
		by, err := e.handlers.get(ctx, e.store, a.Handler)
		if err != nil {
			return err
		}
		v.Modified = max(v.Modified, a.Assigned, a.Started, a.Finished)
		v.Attempts = append(v.Attempts, AttemptView{AttemptRow: *a, By: by})
		v.Cause = string(a.Cause)
	}
	return nil
}

// addOutputs adds outputs to tasks, and leaves out those for which there is no room.
func (e *Engine) addOutputs(ctx context.Context, id dag.RunID, views []TaskView) ([]TaskView, error) {
	bytes := 0
	for i := range views {
		v := &views[i]
		n := len(v.Attempts)
		if v.State != dag.Succeeded || n == 0 || v.Attempts[n-1].State != dag.AttemptSucceeded {
			continue
		}
		var err error
		if v.Outputs, err = e.Outputs(ctx, id, v.ID); err != nil {
			return nil, err
		}
		if bytes += len(v.Outputs); bytes > outputsBytesMax && i > 0 {
			return views[:i], nil
		}
	}
	return views, nil
}

// causeOf says why one task has the state that it has, for those that have no cause: "".
func causeOf(g *dag.Graph, row *dag.RunRow, states []dag.TaskView, v *TaskView) string {
	if begins := beginning(g, row); begins != nil && !begins[v.ID] && v.State == dag.Skipped && len(v.Attempts) == 0 {
		return "the run began at task " + row.Fire.From
	}
	return causeWithout(g, states, v)
}

// causeWithout is the cause of the newest attempt of a task, or why it has its end without one.
func causeWithout(g *dag.Graph, states []dag.TaskView, v *TaskView) string {
	byHand := v.State == dag.Skipped && v.Cause == string(dag.CauseSkip)
	if v.State == dag.UpstreamFailed || v.State == dag.Skipped && !byHand || v.State == dag.Failed && len(v.Attempts) == 0 {
		return derivedCause(g, states, v.ID)
	}
	return v.Cause
}

// derivedCause says why a task has the end that it has without an attempt.
func derivedCause(g *dag.Graph, states []dag.TaskView, t dag.TaskID) string {
	skipped := len(g.Needs(t)) > 0
	for _, n := range g.Needs(t) {
		s := states[n].State
		if states[t].State == dag.UpstreamFailed && (s == dag.Failed || s == dag.UpstreamFailed) {
			return "task " + g.Name(n) + " is " + s.String()
		}
		skipped = skipped && s == dag.Skipped
	}
	if skipped {
		return "everything it needs was skipped"
	}
	for _, n := range g.Needs(t) {
		if g.Kind(n) == dag.Switch && states[n].State == dag.Succeeded && g.Condition(t) == nil {
			return "switch " + g.Name(n) + " chose another"
		}
	}
	if states[t].State == dag.UpstreamFailed { // a recover of certain tasks left it as it was
		return "one of its needs had failed, and it has not been repeated since"
	}
	return string(dag.CauseCondition)
}

// Task reads one task of a run by its name.
func (e *Engine) Task(ctx context.Context, id dag.RunID, name string) (TaskView, error) {
	row, err := e.store.Run(ctx, id)
	if err != nil {
		return TaskView{}, fromStore("run "+id.String(), err)
	}
	g, err := e.graphOf(&row)
	if err != nil {
		return TaskView{}, err
	}
	t, ok := g.Find(name)
	if !ok || row.SplitAt == 0 {
		return TaskView{}, fmt.Errorf("task %s of run %s: %w", name, id, ErrNotFound)
	}
	views, _, err := e.Tasks(ctx, id, int(t), 1)
	if err != nil || len(views) == 0 {
		return TaskView{}, errors.Join(err, ErrNotFound)
	}
	return views[0], nil
}

// DefinedTask is where the definition of a task of a run stands.
type DefinedTask struct {
	Workflow dag.WorkflowID
	Version  int32
	Task     dag.TaskID // its place; of an instance that of the task with foreach
	Spread   bool       // it is such a task itself
}

// DefinedTask finds the definition of a task of a run.
func (e *Engine) DefinedTask(ctx context.Context, id dag.RunID, name string) (DefinedTask, error) {
	row, err := e.store.Run(ctx, id)
	if err != nil {
		return DefinedTask{}, fromStore("run "+id.String(), err)
	}
	g, err := e.graphOf(&row)
	if err != nil {
		return DefinedTask{}, err
	}
	t, ok := g.Find(name)
	if !ok {
		return DefinedTask{}, fmt.Errorf("task %s of run %s: %w", name, id, ErrNotFound)
	}
	d := DefinedTask{Workflow: row.Workflow, Version: row.Version, Task: t, Spread: g.Kind(t) == dag.Foreach}
	if of, ok := g.InstanceOf(t); ok {
		d.Task, d.Spread = of, false
	}
	return d, nil
}

// Outputs reads the outputs of a task's accepted attempt, as those that need it see them. What plainly ended left none.
func (e *Engine) Outputs(ctx context.Context, id dag.RunID, t dag.TaskID) ([]byte, error) {
	attempts, err := e.store.Attempts(ctx, store.AttemptQuery{Run: id, Task: t, One: true, Outputs: true, Sparing: true})
	if err != nil {
		return nil, fromStore("outputs", err)
	}
	for i := len(attempts) - 1; i >= 0; i-- {
		if attempts[i].State == dag.AttemptSucceeded {
			return attempts[i].Outputs, nil
		}
	}
	return nil, nil
}

// EventView is what one transaction did to a run.
type EventView struct {
	Seq     int64
	At      dag.Micros
	Records []RecordView
}

// RecordView is one line of a run's history.
type RecordView struct {
	dag.Record
	TaskName string
	By       store.Handler
}

// Events reads a run's history in order, after a seq.
func (e *Engine) Events(ctx context.Context, id dag.RunID, after int64, limit int) ([]EventView, error) {
	row, err := e.store.Run(ctx, id)
	if err != nil {
		return nil, fromStore("run "+id.String(), err)
	}
	rows, err := e.store.Events(ctx, id, after, limit)
	if err != nil {
		return nil, fromStore("events", err)
	}
	g, err := e.graphOf(&row)
	if errors.Is(err, ErrUnavailable) {
		return nil, err
	}
	views := make([]EventView, 0, len(rows))
	for i := range rows {
		records, err := dag.UnpackRecords(rows[i].Records)
		if err != nil {
			return nil, fmt.Errorf("run %s: %w", id, err)
		}
		v := EventView{Seq: rows[i].Seq, At: rows[i].At}
		for _, rec := range records {
			line := RecordView{Record: rec}
			if rec.Task != dag.LeaderTask {
				line.TaskName = nameIn(g, rec.Task)
			}
			if line.By, err = e.handlers.get(ctx, e.store, rec.Handler); err != nil {
				return nil, err
			}
			v.Records = append(v.Records, line)
		}
		views = append(views, v)
	}
	return views, nil
}

func nameIn(g *dag.Graph, t dag.TaskID) string {
	if g == nil || int(t) >= g.Len() {
		return fmt.Sprintf("#%d", t)
	}
	return g.Name(t)
}

// TaskName is the name of a task of a run; "" is the run itself.
func (e *Engine) TaskName(ctx context.Context, id dag.RunID, t dag.TaskID) (string, error) {
	if t == dag.LeaderTask {
		return "", nil
	}
	row, err := e.store.Run(ctx, id)
	if err != nil {
		return "", fromStore("run "+id.String(), err)
	}
	g, err := e.graphOf(&row)
	if errors.Is(err, ErrUnavailable) {
		return "", err
	}
	return nameIn(g, t), nil
}

// Graph gives the graph of a run's version.
func (e *Engine) Graph(w dag.WorkflowID, version int32) (*dag.Graph, error) {
	return e.graphs.get(w, version)
}

// Workflow finds a workflow by its name; WorkflowByID by its row, deleted ones too.
func (e *Engine) Workflow(ctx context.Context, namespace, name string) (store.Workflow, error) {
	w, err := e.store.Workflow(ctx, namespace, name)
	return w, fromStore("workflow "+namespace+"/"+name, err)
}

// WorkflowByID finds a workflow by its row, deleted ones too.
func (e *Engine) WorkflowByID(ctx context.Context, id dag.WorkflowID) (store.Workflow, error) {
	w, err := e.store.WorkflowByID(ctx, id)
	return w, fromStore(fmt.Sprintf("workflow %d", id), err)
}

// Workflows lists workflows by name.
func (e *Engine) Workflows(ctx context.Context, q store.WorkflowQuery) ([]store.Workflow, error) {
	ws, err := e.store.Workflows(ctx, q)
	return ws, fromStore("list workflows", err)
}

// Version reads a version, its source and canonical form included.
func (e *Engine) Version(ctx context.Context, w dag.WorkflowID, version int32) (store.Version, error) {
	v, err := e.store.Version(ctx, w, version)
	return v, fromStore(fmt.Sprintf("version %d", version), err)
}

// Versions lists versions, newest first, without their contents.
func (e *Engine) Versions(ctx context.Context, w dag.WorkflowID, before int32, limit int) ([]store.Version, error) {
	vs, err := e.store.Versions(ctx, w, before, limit)
	return vs, fromStore("list versions", err)
}

// Files reads the files of a version.
func (e *Engine) Files(ctx context.Context, w dag.WorkflowID, version int32) ([]store.File, error) {
	fs, err := e.store.Files(ctx, w, version)
	return fs, fromStore("files of the version", err)
}

// Request finds the answer that was kept under an idempotency key.
func (e *Engine) Request(ctx context.Context, scope, key string) (store.Request, error) {
	r, err := e.store.Request(ctx, scope, key)
	return r, fromStore("idempotency key", err)
}

// Info tells about the store.
func (e *Engine) Info(ctx context.Context) (store.Info, error) {
	i, err := e.store.Info(ctx)
	return i, fromStore("database", err)
}

// Unfinished counts the unfinished runs by state. It takes as long as there are many.
func (e *Engine) Unfinished(ctx context.Context) (map[string]int, error) {
	n, err := e.store.Unfinished(ctx)
	return n, fromStore("unfinished runs", err)
}

// handlerCache keeps handlers by their number; their rows never change.
type handlerCache struct {
	mu    sync.Mutex // protects following fields
	known map[dag.HandlerID]store.Handler
}

// handlersMax bounds the cache.
const handlersMax = 10_000

func (c *handlerCache) get(ctx context.Context, st store.Store, id dag.HandlerID) (store.Handler, error) {
	if id == 0 {
		return store.Handler{}, nil
	}
	c.mu.Lock()
	h, ok := c.known[id]
	c.mu.Unlock()
	if ok {
		return h, nil
	}
	found, err := st.Handlers(ctx, []dag.HandlerID{id})
	if err != nil || len(found) == 0 {
		return store.Handler{ID: id}, fromStore("handler", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known) >= handlersMax {
		c.known = map[dag.HandlerID]store.Handler{}
	}
	c.known[id] = found[0]
	return found[0], nil
}
