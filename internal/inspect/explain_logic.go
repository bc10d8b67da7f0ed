package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// flags returns the flags for the answers that the form of an approval requires.
func (m *Missing) flags() string {
	var form []struct {
		Name, Type string
		Required   bool
	}
	if err := json.Unmarshal(m.Form, &form); err != nil {
		return ""
	}
	all := ""
	for _, f := range form {
		if f.Required {
			all += " --set " + f.Name + "=" + strings.ToUpper(f.Type)
		}
	}
	return all
}

// explainDeferred explains a task that waits for something outside its run.
func (x *explaining) explainDeferred(ctx context.Context, t *TaskView) error {
	g, a := x.Graph, &t.Attempts[len(t.Attempts)-1]
	r := Reason{Kind: g.Logic(t.ID).Name(), Args: args{"task": t.Name}, Since: a.Assigned,
		Expected: a.RetryAt}
	switch g.Kind(t.ID) {
	case dag.Wait:
		r.What, r.Unblocks = fmt.Sprintf("task %s waits for an instant", t.Name), "that instant"
		r.Code, r.Actions = "wait_time", on(x.run.ID, t.Name, "skip")
		if a.RetryAt == 0 {
			r.What, r.Unblocks = fmt.Sprintf("task %s waits for an instant that is being computed", t.Name), "the result of the computation"
			r.Code = "wait_instant"
		}
	case dag.Approval:
		r.Code, r.Actions = "approval", on(x.run.ID, t.Name, "approve")
		x.explainApproval(ctx, g, t, a, &r)
	case dag.Foreach:
		r.What, r.Unblocks = fmt.Sprintf("task %s waits for its %d instances", t.Name, len(g.Instances(t.ID))), "their end"
		r.Code, r.Args["instances"] = "foreach_instances", len(g.Instances(t.ID))
		if a.Started == 0 {
			r.What, r.Unblocks = fmt.Sprintf("task %s waits for its items, which are being computed", t.Name), "the result of the computation"
			r.Code = "foreach_items"
		}
	case dag.Call:
		return x.explainCall(ctx, t, a, r)
	default:
		if err := x.explainDependent(ctx, g, t, a, &r); err != nil {
			return err
		}
	}
	if x.rd.unserved() && (g.Kind(t.ID) == dag.Wait || g.Kind(t.ID) == dag.Dependent) {
		r.Unblocks = startServer
	}
	x.add(r)
	return nil
}

// explainApproval explains an approval that waits for a decision.
func (x *explaining) explainApproval(ctx context.Context, g *dag.Graph, t *TaskView, a *AttemptView, r *Reason) {
	asked, who := x.asked(ctx, g, t, a), "a person"
	if len(asked.By) > 0 {
		r.Holder = strings.Join(asked.By, " or ")
		who, r.Args["by"] = r.Holder, asked.By
	}
	starter := ""
	if asked.FourEyes {
		r.Args["four_eyes"] = true
		if starter = x.run.Starter(); starter != "" {
			who, r.Args["starter"] = who+" other than "+starter, starter
		}
	}
	r.What = fmt.Sprintf("task %s waits for %s to approve", t.Name, who)
	if asked.Message != "" {
		r.What, r.Args["message"] = r.What+": "+asked.Message, asked.Message
	}
	address, form := x.run.ID.String()+"/"+t.Name, ""
	if len(asked.Form) > 0 {
		r.Args["form"], form = json.RawMessage(asked.Form), asked.flags()
	}
	r.Unblocks = "skein task approve " + address + form + ", or with --reject"
	if starter != "" {
		r.Unblocks += ", by another person than " + starter + ", who started the run (four_eyes)"
	}
	if a.RetryAt != 0 {
		r.Unblocks += "; without a decision by the expected time, the task fails"
	}
}

// asked returns the question of an approval, and the principals that may decide if the workflow names them.
// If they cannot be read now, it returns neither.
func (x *explaining) asked(ctx context.Context, g *dag.Graph, t *TaskView, a *AttemptView) Missing {
	if x.rd.cfg.Outside == nil {
		return Missing{}
	}
	is, err := x.rd.cfg.Outside.Missing(ctx, &x.run.RunRow, g, t.ID, a.Token)
	if err != nil {
		return Missing{}
	}
	return is
}

// explainDependent reads the run that a task waits for, as its owner does.
func (x *explaining) explainDependent(ctx context.Context, g *dag.Graph, t *TaskView, a *AttemptView, r *Reason) error {
	r.What, r.Unblocks = fmt.Sprintf("task %s waits for a condition outside of its run", t.Name), "that condition"
	r.Code = "wait_outside"
	if x.rd.cfg.Outside != nil {
		is, err := x.rd.cfg.Outside.Missing(ctx, &x.run.RunRow, g, t.ID, a.Token)
		switch {
		case errors.Is(err, errkind.ErrUnavailable):
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
		r.Unblocks += "; at the expected time the task fails"
	}
	return nil
}

// explainCall describes the state of the run that a task has called.
func (x *explaining) explainCall(ctx context.Context, t *TaskView, a *AttemptView, r Reason) error {
	child, ok := dag.ChildOf(&a.AttemptRow)
	if !ok {
		r.Code = "call_starting"
		r.What, r.Unblocks = fmt.Sprintf("task %s calls a workflow, and its run is being started", t.Name), "the start of that run"
		x.add(r)
		return nil
	}
	row, err := x.rd.store.Run(ctx, child.Run)
	if errors.Is(err, store.ErrNotFound) {
		r.Code, r.Args["run"] = "call_sent", child.Run.String()
		r.What, r.Unblocks = fmt.Sprintf("task %s waits for run %s, which its owner has not taken yet", t.Name, child.Run), "the owner of that run"
		x.add(r)
		return nil
	}
	if err != nil {
		return errkind.FromStore("read run "+child.Run.String(), err)
	}
	r.Code, r.Args["run"], r.Args["state"] = "call_unfinished", child.Run.String(), row.State.String()
	r.Holder = "run " + child.Run.String()
	r.What = fmt.Sprintf("task %s waits for run %s, which is %s", t.Name, child.Run, row.State)
	r.Unblocks = "its end; skein explain " + child.Run.String() + " shows what it waits for"
	if a.RetryAt != 0 {
		r.Unblocks += "; at the expected time the run is stopped"
	}
	x.add(r)
	return nil
}
