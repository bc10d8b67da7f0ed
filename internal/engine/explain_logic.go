package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// explainDeferred covers a task that waits for something outside its run.
func (e *Engine) explainDeferred(ctx context.Context, v *RunView, t *TaskView, x *explaining) error {
	g, a := x.g, &t.Attempts[len(t.Attempts)-1]
	r := Reason{Kind: g.Logic(t.ID).Name(), Args: args{"task": t.Name}, Since: a.Assigned,
		Expected: a.RetryAt}
	address := v.ID.String() + "/" + t.Name
	switch g.Kind(t.ID) {
	case dag.Wait:
		r.What, r.Unblocks = fmt.Sprintf("task %s waits until its time has come", t.Name), "time"
		r.Code, r.Actions = "wait_time", on(v.ID, t.Name, "skip")
		if a.RetryAt == 0 {
			r.What, r.Unblocks = fmt.Sprintf("task %s waits for an instant that is being computed", t.Name), "that"
			r.Code = "wait_instant"
		}
	case dag.Approval:
		r.What = fmt.Sprintf("task %s waits for a person to approve", t.Name)
		r.Code, r.Actions = "approval", on(v.ID, t.Name, "approve")
		if by := e.approvers(ctx, v, g, t, a); len(by) > 0 {
			r.Holder = strings.Join(by, " or ")
			r.What, r.Args["by"] = fmt.Sprintf("task %s waits for %s to approve", t.Name, r.Holder), by
		}
		r.Unblocks = "skein task approve " + address + ", or with --reject"
		if a.RetryAt != 0 {
			r.Unblocks += "; if it is not decided by the expected time, it fails"
		}
	case dag.Foreach:
		r.What, r.Unblocks = fmt.Sprintf("task %s waits for its %d instances", t.Name, len(g.Instances(t.ID))), "their end"
		r.Code, r.Args["instances"] = "foreach_instances", len(g.Instances(t.ID))
		if a.Started == 0 {
			r.What, r.Unblocks = fmt.Sprintf("task %s waits for its items, which are being computed", t.Name), "that"
			r.Code = "foreach_items"
		}
	case dag.Call:
		return e.explainCall(ctx, t, a, r, x)
	default:
		if err := e.explainDependent(ctx, v, g, t, a, &r); err != nil {
			return err
		}
	}
	if e.reads() && (g.Kind(t.ID) == dag.Wait || g.Kind(t.ID) == dag.Dependent) {
		r.Unblocks = startServer
	}
	x.add(r)
	return nil
}

// approvers are those by whom alone an approval can be decided; nil: there are none, or that cannot be read now.
func (e *Engine) approvers(ctx context.Context, v *RunView, g *dag.Graph, t *TaskView, a *AttemptView) []string {
	if e.cfg.Preparer == nil {
		return nil
	}
	is, err := e.cfg.Preparer.Prepare(ctx, PrepareQuery{Row: &v.RunRow, Graph: g, Task: t.ID, Token: a.Token})
	if err != nil {
		return nil
	}
	return is.By
}

// explainDependent looks at what a task waits for, as its owner does.
func (e *Engine) explainDependent(ctx context.Context, v *RunView, g *dag.Graph, t *TaskView, a *AttemptView, r *Reason) error {
	r.What, r.Unblocks = fmt.Sprintf("task %s waits for something outside of its run", t.Name), "that"
	r.Code = "wait_outside"
	if e.cfg.Preparer != nil {
		is, err := e.cfg.Preparer.Prepare(ctx, PrepareQuery{Row: &v.RunRow, Graph: g, Task: t.ID, Token: a.Token})
		switch {
		case errors.Is(err, ErrUnavailable):
			return err
		case err != nil:
			r.What, r.Unblocks = fmt.Sprintf("task %s fails: %v", t.Name, err), "nothing"
			r.Code, r.Args["why"] = "wait_fails", err.Error()
		case is.Later == 0:
			r.What, r.Unblocks = fmt.Sprintf("the condition of task %s is met", t.Name), "the next evaluation by its owner"
			r.Code = "wait_met"
		default:
			r.Kind, r.What, r.Holder, r.Unblocks = is.Why.Kind, fmt.Sprintf("task %s waits %s", t.Name, is.Why.What), is.Why.Holder, is.Why.Unblocks
			r.Code, r.Args["what"] = is.Why.Code, is.Why.What
		}
	}
	if a.RetryAt != 0 {
		r.Unblocks += "; at the expected time it fails"
	}
	return nil
}

// explainCall says how the run stands that a task has called.
func (e *Engine) explainCall(ctx context.Context, t *TaskView, a *AttemptView, r Reason, x *explaining) error {
	child, ok := dag.ChildOf(&a.AttemptRow)
	if !ok {
		r.Code = "call_starting"
		r.What, r.Unblocks = fmt.Sprintf("task %s calls a workflow, whose run is being started", t.Name), "that"
		x.add(r)
		return nil
	}
	row, err := e.store.Run(ctx, child.Run)
	if errors.Is(err, store.ErrNotFound) {
		r.Code, r.Args["run"] = "call_sent", child.Run.String()
		r.What, r.Unblocks = fmt.Sprintf("task %s waits for run %s, which is on its way to its owner", t.Name, child.Run), "its owner"
		x.add(r)
		return nil
	}
	if err != nil {
		return fromStore("read run "+child.Run.String(), err)
	}
	r.Code, r.Args["run"], r.Args["state"] = "call_unfinished", child.Run.String(), row.State.String()
	r.Holder = "run " + child.Run.String()
	r.What = fmt.Sprintf("task %s waits for run %s, which is %s", t.Name, child.Run, row.State)
	r.Unblocks = "its end; skein explain " + child.Run.String() + " shows what it waits for"
	if a.RetryAt != 0 {
		r.Unblocks += "; at the expected time it is stopped"
	}
	x.add(r)
	return nil
}
