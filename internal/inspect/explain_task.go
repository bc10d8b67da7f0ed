package inspect

import (
	"context"
	"fmt"

	"skein.dev/skein/internal/dag"
)

// explainStartBy names the start deadline of the ready task that must be assigned first. A pause does not
// suspend the deadline.
func (x *explaining) explainStartBy(ctx context.Context, ready ...dag.TaskID) error {
	limited := false
	for _, t := range ready {
		limited = limited || x.Graph.Policy(t).StartDeadline > 0
	}
	if !limited || x.run.State.Terminal() {
		return nil
	}
	startBy, err := x.startsBy(ctx, ready)
	if err != nil {
		return err
	}
	var first dag.StartBy
	var name string
	for _, t := range ready {
		if d, ok := startBy(t); ok && (name == "" || first.Said && !d.Said || first.Said == d.Said && d.Due < first.Due) {
			first, name = d, x.Graph.Name(t)
		}
	}
	if name == "" {
		return nil
	}
	r := Reason{Kind: "start_deadline", Args: args{"task": name, "limit": first.Limit.String()},
		What:  fmt.Sprintf("task %s fails if it is not assigned within %s of being ready", name, first.Limit),
		Since: first.Due - dag.Micros(first.Limit.Microseconds()), Unblocks: "its assignment; at the expected time it fails", Expected: first.Due}
	switch {
	case first.Said:
		r.What = fmt.Sprintf("task %s was not assigned within %s of being ready; that was only recorded (on_timeout: warn)", name, first.Limit)
		r.Unblocks, r.Expected, r.Code = "nothing: this is only a record", 0, "start_late"
	case first.Warns:
		r.What = fmt.Sprintf("task %s is recorded as late if it is not assigned within %s of being ready (on_timeout: warn)", name, first.Limit)
		r.Unblocks = "its assignment; at the expected time the delay is recorded, and the task continues to wait"
	}
	x.add(r)
	return nil
}

// explainEnded explains how a task ended, and how it can run again.
func (x *explaining) explainEnded(ctx context.Context, t *TaskView) error {
	what := "it has ended: " + t.State.String()
	if n := len(t.Attempts); n > 0 && t.State == dag.Failed {
		what += " (" + describe(&t.Attempts[n-1].AttemptRow) + ")"
	} else if t.Cause != "" {
		why, err := x.condition(ctx, t)
		if err != nil {
			return err
		}
		what += " (" + why + ")"
	}
	unblocks, actions := x.again(t)
	x.add(Reason{Kind: "ended", Code: "task_ended", Args: args{"task": t.Name, "state": t.State.String()},
		Actions: actions, What: what,
		Since: t.Modified, Unblocks: unblocks})
	return nil
}

// again returns the verb that repeats an ended task, if that verb is allowed now.
func (x *explaining) again(t *TaskView) (string, []Action) {
	id := x.run.ID.String()
	if !x.run.State.Terminal() && x.run.Intent >= dag.IntentStop {
		return "the end of the run, and then skein run recover " + id, nil
	}
	if t.State == dag.UpstreamFailed { // the task cannot be retried before the failed task that it needs
		return "skein run recover " + id + " runs the failed tasks that it needs again; or decide about this task alone: skein task skip or mark " + id + "/" + t.Name,
			append(on(x.run.ID, "", "recover"), on(x.run.ID, t.Name, "skip", "mark")...)
	}
	g, views := x.Graph, x.Views
	first := t.ID
	for range g.Len() { // a graph has no cycle, so the loop ends
		n, ok := g.Missing(first, views)
		if !ok {
			break
		}
		first = n
	}
	switch {
	case first == t.ID:
		return "skein task retry " + id + "/" + t.Name, on(x.run.ID, t.Name, "retry")
	case !views[first].State.Terminal():
		return fmt.Sprintf("the end of task %s, which is %s and comes before it; then skein task retry %s/%s", g.Name(first), views[first].State, id, t.Name), nil
	case x.run.State.Terminal():
		return fmt.Sprintf("skein run recover %s runs all tasks again that did not succeed; this task alone needs task %s first, which is %s: skein task retry %s/%s",
			id, g.Name(first), views[first].State, id, g.Name(first)), append(on(x.run.ID, "", "recover"), on(x.run.ID, g.Name(first), "retry")...)
	}
	return fmt.Sprintf("skein task retry %s/%s, which comes first: task %s is %s; then skein task retry %s/%s", id, g.Name(first), g.Name(first), views[first].State, id, t.Name),
		on(x.run.ID, g.Name(first), "retry")
}

// causeScanMax bounds the transactions of a run that are searched for one sentence.
const causeScanMax = 1000

// condition returns the reason why a task ended without an attempt. If the condition of the task could not be
// evaluated, only the history has the reason.
func (x *explaining) condition(ctx context.Context, t *TaskView) (string, error) {
	if t.State != dag.Failed || t.Cause != string(dag.CauseCondition) {
		return t.Cause, nil
	}
	events, err := x.rd.Events(ctx, x.run.ID, 0, causeScanMax)
	if err != nil {
		return "", err
	}
	for i := range events {
		for _, rec := range events[i].Records {
			if rec.Kind == dag.RecEnded && rec.Task == t.ID && rec.Reason != "" {
				return rec.Reason, nil
			}
		}
	}
	return t.Cause, nil
}
