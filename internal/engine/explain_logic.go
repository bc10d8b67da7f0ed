package engine

import (
	"context"
	"errors"
	"fmt"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// explainDeferred covers a task that waits for something outside its run.
func (e *Engine) explainDeferred(ctx context.Context, v *RunView, t *TaskView, x *Explanation) error {
	g, err := e.graphOf(&v.RunRow)
	if err != nil {
		return err
	}
	a := &t.Attempts[len(t.Attempts)-1]
	r := Reason{Kind: g.Kind(t.ID).String(), Since: a.Assigned, Expected: a.RetryAt}
	address := v.ID.String() + "/" + t.Name
	switch g.Kind(t.ID) {
	case dag.Wait:
		r.What, r.Unblocks = fmt.Sprintf("task %s waits until its time has come", t.Name), "time"
		if a.RetryAt == 0 {
			r.What, r.Unblocks = fmt.Sprintf("task %s waits for an instant that is being worked out", t.Name), "that"
		}
	case dag.Approval:
		r.What = fmt.Sprintf("task %s waits for a person to approve", t.Name)
		r.Unblocks = "skein task approve " + address + ", or with --reject"
		if a.RetryAt != 0 {
			r.Unblocks += "; not decided by then, it fails"
		}
	case dag.Foreach:
		r.What, r.Unblocks = fmt.Sprintf("task %s waits for its %d instances", t.Name, len(g.Instances(t.ID))), "their end"
		if a.Started == 0 {
			r.What, r.Unblocks = fmt.Sprintf("task %s waits for its items, which are being worked out", t.Name), "that"
		}
	case dag.Call:
		return e.explainCall(ctx, t, a, r, x)
	default:
		r.What, r.Unblocks = fmt.Sprintf("task %s waits for something outside its run", t.Name), "that"
	}
	if e.reads() && g.Kind(t.ID) == dag.Wait {
		r.Unblocks = startServer
	}
	x.add(r)
	return nil
}

// explainCall says how the run stands that a task has called.
func (e *Engine) explainCall(ctx context.Context, t *TaskView, a *AttemptView, r Reason, x *Explanation) error {
	child, ok := dag.ChildOf(&a.AttemptRow)
	if !ok {
		r.What, r.Unblocks = fmt.Sprintf("task %s calls a workflow, whose run is being started", t.Name), "that"
		x.add(r)
		return nil
	}
	row, err := e.store.Run(ctx, child.Run)
	if errors.Is(err, store.ErrNotFound) {
		r.What, r.Unblocks = fmt.Sprintf("task %s waits for run %s, which is on its way to its owner", t.Name, child.Run), "its owner"
		x.add(r)
		return nil
	}
	if err != nil {
		return fromStore("read run "+child.Run.String(), err)
	}
	r.Holder = "run " + child.Run.String()
	r.What = fmt.Sprintf("task %s waits for run %s, which is %s", t.Name, child.Run, row.State)
	r.Unblocks = "its end; skein explain " + child.Run.String() + " says what it waits for"
	if a.RetryAt != 0 {
		r.Unblocks += "; at the instant expected it is stopped"
	}
	x.add(r)
	return nil
}
