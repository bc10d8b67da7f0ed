package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
)

// Bounds of the search for the run for which a dependent task waits.
const (
	dependentPages  = 10 // the number of pages, of 1,000 runs each
	dependentRuns   = 20 // runs of which a task is read
	lookSoon        = time.Second
	lookLate        = 30 * time.Second
	lookShareOfWait = 20 // the pause before the next check is the wait so far divided by this number
)

// condition checks the condition of a wait.
func (l logic) condition(ctx context.Context, v *version, t int, in workflow.Inputs) (engine.Prepared, error) {
	now, err := l.cfg.Store.Clock(ctx)
	if err != nil {
		return engine.Prepared{}, ofStore(err)
	}
	in.Now = now.Time()
	later, err := v.Holds(t, in)
	return engine.Prepared{Later: later, Why: inspect.Reason{Kind: "wait", Code: "wait_condition", What: "until " + v.Tasks[t].Wait.Condition,
		Unblocks: fmt.Sprintf("that; it is looked at every %v", later)}}, err
}

// dependent searches the run of another workflow, or the task of that run, for which a task waits.
func (l logic) dependent(ctx context.Context, v *version, d *workflow.Needed, q *engine.PrepareQuery) (engine.Prepared, error) {
	target := v.TargetOf(d)
	row, err := l.find(ctx, target)
	if err != nil {
		return engine.Prepared{}, err
	}
	if row.Namespace != v.Namespace { // only needed for a definition in another namespace
		other, err := l.versions.Get(versionID{row.ID, row.Version})
		if err != nil {
			return engine.Prepared{}, ofStore(err)
		}
		if offered, declared := other.OffersTo(v.Namespace); declared && !offered {
			return engine.Prepared{}, other.NotOffered(v.Namespace)
		}
	}
	from, until, err := d.Span(q.Row.Instant().Time())
	if err != nil {
		return engine.Prepared{}, err
	}
	found, err := l.inSpan(ctx, row.ID, dag.Micro(from), dag.Micro(until))
	if err != nil {
		return engine.Prepared{}, ofStore(err)
	}
	why := inspect.Reason{Kind: "dependent", Code: "wait_dependent", What: d.Words(target, from, until) + "; there is none yet", Unblocks: "such a run: skein run list --workflow " + target}
	known := d.Task == "" // if no task is named, any run will do; otherwise a run that has the task was found
	for i := range found {
		o := &other{RunRow: &found[i], state: found[i].State.String(), has: true}
		if d.Task != "" {
			if err := l.lookAt(ctx, o, d.Task); err != nil {
				return engine.Prepared{}, ofStore(err)
			}
			known = known || o.has
		}
		if d.Accepts(o.state) {
			leaves, err := json.Marshal(map[string]string{"run": o.ID.String(), "state": o.state})
			return engine.Prepared{Leaves: leaves}, err
		}
		if why.Holder != "" {
			continue
		}
		why.Holder = "run " + o.ID.String() // the run is the newest one
		why.What = d.Words(target, from, until) + "; " + o.words(d.Task)
		why.Unblocks = o.remedy(d.Task)
	}
	if !known {
		if err := l.taskToCome(&row, target, d.Task); err != nil {
			return engine.Prepared{}, ofStore(err)
		}
	}
	now, err := l.cfg.Store.Clock(ctx)
	if err != nil {
		return engine.Prepared{}, ofStore(err)
	}
	waited := time.Duration(max(now-q.Row.Created, 0)) * time.Microsecond
	return engine.Prepared{Later: min(max(waited/lookShareOfWait, lookSoon), lookLate), Why: why}, nil
}

// inSpan lists the runs of a workflow whose instants are in a span, the newest first. A run is never made
// before its instant.
func (l logic) inSpan(ctx context.Context, id dag.WorkflowID, from, until dag.Micros) ([]dag.RunRow, error) {
	var found []dag.RunRow
	q := store.RunQuery{Workflow: id, Since: from, Limit: 1000}
	for range dependentPages {
		page, err := l.cfg.Store.Runs(ctx, q)
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

// other is a run that a dependent task checks.
type other struct {
	*dag.RunRow
	state string // the state of the run or of the named task; "" if it does not exist yet
	has   bool   // the run has the named task, or will have it
}

// lookAt reads the state of a task of the other run.
func (l logic) lookAt(ctx context.Context, o *other, task string) error {
	o.state = ""
	if o.SplitAt == 0 { // the tasks are not made yet, but the version has their names
		v, err := l.versions.Get(versionID{o.Workflow, o.Version})
		if err == nil {
			_, o.has = v.Find(task)
		}
		return err
	}
	g, views, err := l.cfg.Engine().Standing(ctx, o.RunRow)
	if err != nil {
		return err
	}
	t, ok := g.Find(task)
	if o.has = ok; ok {
		o.state = views[t].State.String()
	}
	return nil
}

// words describes the state of the other run.
func (o *other) words(task string) string {
	run := "run " + o.ID.String()
	switch {
	case !o.has:
		return fmt.Sprintf("%s, of version %d, has no task %s", run, o.Version, task)
	case task == "" || o.state == "":
		return run + " is " + o.State.String()
	}
	return fmt.Sprintf("%s is %s, its task %s is %s", run, o.State, task, o.state)
}

// remedy returns a verb on the run that would let the waiting tasks continue.
func (o *other) remedy(task string) string {
	const another = "another run within that span"
	switch {
	case !o.has, o.State == dag.RunSkipped, o.State.Terminal() && o.SplitAt == 0:
		return another
	case !o.State.Terminal():
		return "its end: skein explain " + o.ID.String()
	// a recover of the whole run does not run this task again
	case task != "" && (o.State == dag.RunSucceeded || o.state == dag.Skipped.String()):
		return "skein run recover " + o.ID.String() + " --from " + task + ", or " + another
	}
	return "skein run recover " + o.ID.String() + ", or " + another
}

// taskToCome returns an error if the present version of the workflow does not have the task either.
func (l logic) taskToCome(row *store.Workflow, target, task string) error {
	v, err := l.versions.Get(versionID{row.ID, row.Version})
	if err != nil {
		return err
	}
	if _, ok := v.Find(task); ok {
		return nil
	}
	return errors.New(v.WithoutTask(target, task) + "; correct the name or apply that workflow with the task, then recover this run")
}

// find returns a workflow that can start runs now or later.
func (l logic) find(ctx context.Context, name string) (store.Workflow, error) {
	namespace, short, _ := strings.Cut(name, "/")
	row, err := l.cfg.Store.Workflow(ctx, namespace, short)
	if errors.Is(err, store.ErrNotFound) {
		return row, fmt.Errorf("there is no workflow %s; apply it, then recover this run", name)
	}
	return row, ofStore(err)
}
