package inspect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// The functions of this file read only rows, so any node can answer.

// RunView is a run as people see it.
type RunView struct {
	dag.RunRow
	Workflow store.Workflow        // only the parts that never change: numbers, names and the time of creation
	Counts   map[dag.TaskState]int // tasks by state; empty until the run is split
	Failed   []string              // the first tasks that failed, at most failedNamesMax
	Modified dag.Micros            // time of the run's newest event
	Leader   store.Handler         // the handler that split the run; zero if not split yet
	// ParentTask is the task of another run that called this one. It is "" if there is none.
	ParentTask string
	// Place is the run's position in its queue. It is nil if the run is not queued.
	Place *store.Place
}

// TaskView is a task of a run as people see it.
type TaskView struct {
	ID       dag.TaskID
	Name     string
	State    dag.TaskState
	Cause    string // why the task failed, was skipped, or is upstream_failed; "" means none of these
	Created  dag.Micros
	Modified dag.Micros
	Attempts []AttemptView
	Outputs  []byte // outputs of the succeeded attempt; a JSON object or nil
}

// AttemptView is an attempt and its present or last holder.
type AttemptView struct {
	dag.AttemptRow
	By     store.Handler
	Handle dag.Handle // the zero value: none, or it was not read (Reader.Task reads it)
}

// outline reads one run without counting its tasks.
func (rd *Reader) outline(ctx context.Context, id dag.RunID) (v RunView, err error) {
	v.RunRow, err = rd.store.Run(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return v, errkind.NoRun(id)
	}
	if err != nil {
		return v, errkind.FromStore("run "+id.String(), err)
	}
	v.Modified = max(v.Created, v.SplitAt, v.FinishedAt)
	if v.Workflow, err = rd.store.WorkflowByID(ctx, v.RunRow.Workflow); err != nil {
		return v, errkind.FromStore("workflow of run "+id.String(), err)
	}
	one := []RunView{v}
	err = rd.seat(ctx, one)
	return one[0], err
}

// GetRun reads one run.
func (rd *Reader) GetRun(ctx context.Context, id dag.RunID) (RunView, error) {
	row, err := rd.store.Run(ctx, id)
	if errors.Is(err, store.ErrNotFound) { // the text of the store's error does not help the caller
		return RunView{}, errkind.NoRun(id)
	}
	if err != nil {
		return RunView{}, errkind.FromStore("run "+id.String(), err)
	}
	v, err := rd.view(ctx, row)
	if err != nil || !row.Claim.InLine() {
		return v, err
	}
	one := []RunView{v}
	err = rd.seat(ctx, one)
	return one[0], err
}

func (rd *Reader) view(ctx context.Context, row dag.RunRow) (RunView, error) {
	v := RunView{RunRow: row}
	err := complete(ctx, rd, &v, &flowReads{store: rd.store})
	return v, err
}

// complete adds the remaining fields to a view that has its row. flows returns the workflow of the run.
func complete(ctx context.Context, rd *Reader, v *RunView, flows *flowReads) error {
	v.Modified = max(v.Created, v.SplitAt, v.FinishedAt)
	var err error
	if v.Workflow, err = flows.get(ctx, v.RunRow.Workflow); err != nil {
		return errkind.FromStore("workflow of run "+v.ID.String(), err)
	}
	if v.Leader, err = rd.HandlerByID(ctx, v.RunRow.Leader); err != nil {
		return err
	}
	if p := v.Parent(); p != nil {
		if v.ParentTask, err = rd.TaskName(ctx, p.Up().Run, p.Task); err != nil { // the name of the task is no longer stored
			v.ParentTask = fmt.Sprintf("#%d", p.Task)
		}
	}
	if v.Final != nil {
		if v.Counts == nil {
			v.Counts, err = dag.CountStates(v.Final)
		}
		if v.Counts[dag.Failed] > 0 {
			v.Failed = rd.FailedOf(&v.RunRow)
		}
		return err
	}
	v.Counts = map[dag.TaskState]int{}
	if v.SplitAt == 0 || v.Cause == dag.CauseCorrupt { // there are no tasks to count, or they cannot be counted
		return nil
	}
	row := v.RunRow // derive changes it
	g, attempts, views, err := rd.derive(ctx, &row)
	if err != nil {
		return err
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
	return nil
}

// failedNamesMax bounds the number of failed tasks that a view of a run names.
const failedNamesMax = 3

// FailedOf names failed tasks of an ended run. If they cannot be read, it names none, so that the run can
// still be shown.
func (rd *Reader) FailedOf(row *dag.RunRow) (names []string) {
	g, err := rd.RunGraph(row)
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

// rereads bounds how often a run is read again because it changed during the read.
const rereads = 10

// derive computes the state of every task of a run from its rows, which it reads one after the other. If some
// rows belong to a newer state of the run, derive reads the row of the run again.
func (rd *Reader) derive(ctx context.Context, row *dag.RunRow) (*dag.Graph, []dag.AttemptRow, []dag.TaskView, error) {
	for n := 0; ; n++ {
		g, err := rd.RunGraph(row)
		if err != nil {
			return nil, nil, nil, err
		}
		attempts, err := rd.store.Attempts(ctx, store.AttemptQuery{Run: row.ID, Outputs: g.KeepsAny()})
		if err != nil {
			return nil, nil, nil, errkind.FromStore("attempts of run "+row.ID.String(), err)
		}
		views, err := dag.Derive(g, row, attempts)
		if err == nil {
			return g, attempts, views, nil
		}
		now, gone := rd.store.Run(ctx, row.ID)
		switch {
		case gone != nil:
			return nil, nil, nil, errkind.FromStore("run "+row.ID.String(), gone)
		case n == rereads || reflect.DeepEqual(now, *row): // the run is damaged
			return nil, nil, nil, fmt.Errorf("%w: %w", errkind.ErrDamaged, err)
		}
		*row = now
	}
}

// Standing returns the graph of a run and the state of each of its tasks. If the given row is out of date,
// Standing replaces it.
func (rd *Reader) Standing(ctx context.Context, row *dag.RunRow) (*dag.Graph, []dag.TaskView, error) {
	g, _, views, err := rd.derive(ctx, row)
	return g, views, err
}

// RunPage is one page of a list of runs.
type RunPage struct {
	Runs  []RunView
	Next  dag.RunID // where the following page begins; zero if this is the last page
	Total store.Total
}

// Runs lists runs, newest first.
func (rd *Reader) Runs(ctx context.Context, q store.RunQuery) (RunPage, error) {
	page, err := rd.store.Runs(ctx, q)
	if err != nil {
		return RunPage{}, errkind.FromStore("list runs", err)
	}
	views, flows := make([]RunView, len(page.Runs)), &flowReads{store: rd.store}
	if !q.Params {
		flows.cache = &rd.graphs.flows
	}
	whole := new(RunView) // the previous run with this packed state
	for i := range page.Runs {
		v := &views[i]
		v.RunRow = page.Runs[i]
		if v.Final != nil && bytes.Equal(v.Final, whole.Final) {
			v.Counts = whole.Counts // the maps are never written to
		}
		err := complete(ctx, rd, v, flows)
		if errors.Is(err, errkind.ErrUnavailable) {
			return RunPage{}, err
		}
		if err != nil { // a damaged run must not hide the others
			v.Counts = map[dag.TaskState]int{}
		} else {
			whole = v
		}
	}
	return RunPage{views, page.Next, page.Total}, rd.seat(ctx, views)
}

// Tasks reads tasks of a run in the order of the graph, beginning at the position from. A negative limit
// reads all tasks. Tasks also returns the number of all tasks. A page of at most outputsPageMax tasks
// includes outputs. Such a page ends early if its outputs exceed outputsBytesMax.
func (rd *Reader) Tasks(ctx context.Context, id dag.RunID, from, limit int) ([]TaskView, int, error) {
	row, err := rd.store.Run(ctx, id)
	if err != nil {
		return nil, 0, errkind.FromStore("run "+id.String(), err)
	}
	if row.SplitAt == 0 {
		return nil, 0, nil
	}
	g, attempts, states, err := rd.derive(ctx, &row)
	if err != nil && row.Cause == dag.CauseCorrupt && !errors.Is(err, errkind.ErrUnavailable) {
		return nil, 0, nil // the run is in quarantine, and its message has the reason
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
		first := next // attempts are in the order of their tasks
		for next < len(attempts) && attempts[next].Task == t {
			next++
		}
		if err := rd.addAttempts(ctx, &v, attempts[first:next]); err != nil {
			return nil, 0, err
		}
		if v.Cause = causeWithout(g, states, &v); begins != nil && !begins[t] && v.State == dag.Skipped && len(v.Attempts) == 0 {
			v.Cause = "the run began at task " + row.Fire.From
		}
		views = append(views, v)
	}
	if len(views) <= outputsPageMax {
		views, err = rd.addOutputs(ctx, id, views)
	}
	return views, g.Len(), err
}

// beginning marks the tasks that depend on the task at which a run began. It returns nil if the run began at
// the beginning of its graph.
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

// Bounds of the outputs in one answer. A task may have outputs of 64 KiB.
const (
	outputsPageMax  = 1000
	outputsBytesMax = 8 << 20
)

func (rd *Reader) addAttempts(ctx context.Context, v *TaskView, attempts []dag.AttemptRow) error {
	for i := range attempts {
		a := &attempts[i]
		by, err := rd.HandlerByID(ctx, a.Handler)
		if err != nil {
			return err
		}
		v.Modified = max(v.Modified, a.Assigned, a.Started, a.Finished)
		v.Attempts = append(v.Attempts, AttemptView{AttemptRow: *a, By: by})
		v.Cause = string(a.Cause)
	}
	return nil
}

// addOutputs adds outputs to tasks. It omits outputs for which the answer has no room.
func (rd *Reader) addOutputs(ctx context.Context, id dag.RunID, views []TaskView) ([]TaskView, error) {
	bytes := 0
	for i := range views {
		v := &views[i]
		n := len(v.Attempts)
		if v.State != dag.Succeeded || n == 0 || v.Attempts[n-1].State != dag.AttemptSucceeded {
			continue
		}
		var err error
		if v.Outputs, err = rd.Outputs(ctx, id, v.ID); err != nil {
			return nil, err
		}
		if bytes += len(v.Outputs); bytes > outputsBytesMax && i > 0 {
			return views[:i], nil
		}
	}
	return views, nil
}

// causeOf returns the cause of a task whose row has none. It returns "" for other tasks.
func causeOf(g *dag.Graph, row *dag.RunRow, states []dag.TaskView, v *TaskView) string {
	if begins := beginning(g, row); begins != nil && !begins[v.ID] && v.State == dag.Skipped && len(v.Attempts) == 0 {
		return "the run began at task " + row.Fire.From
	}
	return causeWithout(g, states, v)
}

// causeWithout returns the cause of a task's newest attempt. If the task ended without an attempt, it returns
// the reason for that.
func causeWithout(g *dag.Graph, states []dag.TaskView, v *TaskView) string {
	byHand := v.State == dag.Skipped && v.Cause == string(dag.CauseSkip)
	if v.State == dag.UpstreamFailed || v.State == dag.Skipped && !byHand || v.State == dag.Failed && len(v.Attempts) == 0 {
		return derivedCause(g, states, v.ID)
	}
	return v.Cause
}

// derivedCause returns the reason why a task ended without an attempt.
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
	if states[t].State == dag.UpstreamFailed { // a recover of other tasks did not change the task
		return "one of its needs had failed, and it has not been repeated since"
	}
	return string(dag.CauseCondition)
}

// Task reads one task of a run by its name.
func (rd *Reader) Task(ctx context.Context, id dag.RunID, name string) (TaskView, error) {
	row, err := rd.store.Run(ctx, id)
	if err != nil {
		return TaskView{}, errkind.FromStore("run "+id.String(), err)
	}
	g, err := rd.RunGraph(&row)
	if err != nil {
		return TaskView{}, err
	}
	t, ok := g.Find(name)
	if !ok || row.SplitAt == 0 {
		return TaskView{}, errkind.NoTask(name, id)
	}
	views, _, err := rd.Tasks(ctx, id, int(t), 1)
	if err != nil || len(views) == 0 {
		return TaskView{}, errors.Join(err, errkind.ErrNotFound)
	}
	v := views[0]
	if g.Policy(t).Handles() && len(v.Attempts) > 0 {
		err = addHandles(ctx, rd.store, id, &v)
	}
	return v, err
}

// DefinedTask is the position of a task in the definition of its run.
type DefinedTask struct {
	Workflow dag.WorkflowID
	Version  int32
	Task     dag.TaskID // the number of the task, or of the foreach task for an instance
	Spread   bool       // the task itself is a foreach task
}

// DefinedTask finds the definition of a task of a run.
func (rd *Reader) DefinedTask(ctx context.Context, id dag.RunID, name string) (DefinedTask, error) {
	row, err := rd.store.Run(ctx, id)
	if err != nil {
		return DefinedTask{}, errkind.FromStore("run "+id.String(), err)
	}
	g, err := rd.RunGraph(&row)
	if err != nil {
		return DefinedTask{}, err
	}
	t, ok := g.Find(name)
	if !ok {
		return DefinedTask{}, errkind.NoTask(name, id)
	}
	d := DefinedTask{Workflow: row.Workflow, Version: row.Version, Task: t, Spread: g.Kind(t) == dag.Foreach}
	if of, ok := g.InstanceOf(t); ok {
		d.Task, d.Spread = of, false
	}
	return d, nil
}

// Outputs reads the outputs of a task's accepted attempt in the form in which dependents get them. An attempt
// with a plain end has no outputs.
func (rd *Reader) Outputs(ctx context.Context, id dag.RunID, t dag.TaskID) ([]byte, error) {
	attempts, err := rd.store.Attempts(ctx, store.AttemptQuery{Run: id, Task: t, One: true, Outputs: true, Sparing: true})
	if err != nil {
		return nil, errkind.FromStore("outputs", err)
	}
	for i := len(attempts) - 1; i >= 0; i-- {
		if attempts[i].State == dag.AttemptSucceeded {
			return attempts[i].Outputs, nil
		}
	}
	return nil, nil
}

// EventView holds the events of one run in one transaction.
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
func (rd *Reader) Events(ctx context.Context, id dag.RunID, after int64, limit int) ([]EventView, error) {
	row, err := rd.store.Run(ctx, id)
	if err != nil {
		return nil, errkind.FromStore("run "+id.String(), err)
	}
	rows, err := rd.store.Events(ctx, id, after, limit)
	if err != nil {
		return nil, errkind.FromStore("events", err)
	}
	g, err := rd.RunGraph(&row)
	if errors.Is(err, errkind.ErrUnavailable) {
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
			if line.By, err = rd.HandlerByID(ctx, rec.Handler); err != nil {
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

// TaskName returns the name of a task of a run. For the run itself it returns "".
func (rd *Reader) TaskName(ctx context.Context, id dag.RunID, t dag.TaskID) (string, error) {
	if t == dag.LeaderTask {
		return "", nil
	}
	row, err := rd.store.Run(ctx, id)
	if err != nil {
		return "", errkind.FromStore("run "+id.String(), err)
	}
	g, err := rd.RunGraph(&row)
	if errors.Is(err, errkind.ErrUnavailable) {
		return "", err
	}
	return nameIn(g, t), nil
}

// Graph returns the graph of a version.
func (rd *Reader) Graph(w dag.WorkflowID, version int32) (*dag.Graph, error) {
	return rd.graphs.Get(w, version)
}

// Workflow finds a workflow by its name.
func (rd *Reader) Workflow(ctx context.Context, namespace, name string) (store.Workflow, error) {
	w, err := rd.store.Workflow(ctx, namespace, name)
	return w, errkind.FromStore("workflow "+namespace+"/"+name, err)
}

// WorkflowByID finds a workflow by its row, even a deleted one.
func (rd *Reader) WorkflowByID(ctx context.Context, id dag.WorkflowID) (store.Workflow, error) {
	w, err := rd.store.WorkflowByID(ctx, id)
	return w, errkind.FromStore(fmt.Sprintf("workflow %d", id), err)
}

// Workflows lists workflows, ordered by name.
func (rd *Reader) Workflows(ctx context.Context, q store.WorkflowQuery) ([]store.Workflow, error) {
	ws, err := rd.store.Workflows(ctx, q)
	return ws, errkind.FromStore("list workflows", err)
}

// Version reads a version with its source and its canonical form.
func (rd *Reader) Version(ctx context.Context, w dag.WorkflowID, version int32) (store.Version, error) {
	v, err := rd.store.Version(ctx, w, version)
	return v, errkind.FromStore(fmt.Sprintf("version %d", version), err)
}

// Versions lists versions, newest first, without their contents.
func (rd *Reader) Versions(ctx context.Context, w dag.WorkflowID, before int32, limit int) ([]store.Version, error) {
	vs, err := rd.store.Versions(ctx, w, before, limit)
	return vs, errkind.FromStore("list versions", err)
}

// Files reads the files of a version.
func (rd *Reader) Files(ctx context.Context, q store.FileQuery) ([]store.File, error) {
	fs, err := rd.store.Files(ctx, q)
	return fs, errkind.FromStore("files of the version", err)
}

// Request finds the answer that is stored under an idempotency key.
func (rd *Reader) Request(ctx context.Context, scope, key string) (store.Request, error) {
	r, err := rd.store.Request(ctx, scope, key)
	return r, errkind.FromStore("idempotency key", err)
}

// Info describes the store.
func (rd *Reader) Info(ctx context.Context) (store.Info, error) {
	i, err := rd.store.Info(ctx)
	return i, errkind.FromStore("database", err)
}

// Unfinished counts the unfinished runs by state. Its time grows with their number.
func (rd *Reader) Unfinished(ctx context.Context) (map[string]int, error) {
	n, err := rd.store.Unfinished(ctx)
	return n, errkind.FromStore("unfinished runs", err)
}
