package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

// orphans are the routes of orphans: handles for whose release a run no longer waits. Each orphan has an
// errand, which is a run of system/release. So the list consists of the errands that have not succeeded, and
// each one is compared with the handle in the row of its attempt.
type orphans struct{ s *Server }

// orphansMax bounds the errands that one page looks at: each costs two reads.
const orphansMax = 200

func orphanRoutes(s *Server, runs tag) {
	o := orphans{s}
	route(s, runs.get("/orphans", "list-orphans", "List the work outside of processes that no run waits for any more, newest release first"), o.list)
	route(s, runs.verb("/runs/{id}/tasks/{task}:release", "release-orphans", "Try again to end the orphans of a task"), o.release)
	route(s, runs.verb("/runs/{id}/tasks/{task}:dismiss", "dismiss-orphans", "Remove the orphans of a task from the list, and stop their release"), o.dismiss)
}

type listOrphansIn struct {
	Page
	Namespace string `query:"namespace" maxLength:"63" doc:"Only orphans of tasks of this namespace. A page can be empty and have a next one."`
}

func (o orphans) list(ctx context.Context, in *listOrphansIn) (*jsonOut[api.List[api.Orphan]], error) {
	after, err := in.after()
	if err != nil {
		return nil, err
	}
	q := store.RunQuery{States: []string{store.StateActive, dag.RunFailed.String(), dag.RunStopped.String()}, Limit: min(in.Limit, orphansMax), Params: true, Bytes: answerBytesMax}
	if after != "" {
		if q.Before, err = dag.ParseRunID(after); err != nil {
			return nil, badCursor()
		}
	}
	is, err := o.s.engine.Workflow(ctx, engine.SystemNamespace, engine.ReleaseName)
	if errors.Is(err, errkind.ErrNotFound) { // no errand was ever needed
		return list([]api.Orphan{}, ""), nil
	}
	if err != nil {
		return nil, err
	}
	q.Workflow = is.ID
	page, err := o.s.engine.Runs(ctx, q)
	if err != nil {
		return nil, err
	}
	items := []api.Orphan{}
	for i := range page.Runs {
		item, err := o.of(ctx, &page.Runs[i], in.Namespace)
		if err != nil {
			return nil, err
		}
		if item != nil {
			items = append(items, *item)
		}
	}
	next := ""
	if !page.Next.IsZero() {
		next = page.Next.String()
	}
	return list(items, next), nil
}

// of returns the orphan that an errand did not release. It returns nil if the handle is no orphan, if
// its run was deleted, or if it belongs to another namespace.
func (o orphans) of(ctx context.Context, errand *inspect.RunView, namespace string) (*api.Orphan, error) {
	var p engine.ErrandParams
	if json.Unmarshal(errand.Params, &p) != nil || p.Run.IsZero() {
		return nil, nil
	}
	v, err := o.s.engine.GetRun(ctx, p.Run)
	switch {
	case errors.Is(err, errkind.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	case namespace != "" && v.Workflow.Namespace != namespace:
		return nil, nil
	}
	out := &api.Orphan{Run: p.Run.String(), Workflow: fullName(v.Workflow.Namespace, v.Workflow.Name), RunState: v.State.String(), Task: p.Name,
		Attempt: p.Token.Number(), Handle: p.Handle, Errand: errand.ID.String(), ErrandState: errand.State.String()}
	buried := v.State.Terminal() && v.Cause == dag.CauseCorrupt
	task, err := o.s.engine.Task(ctx, p.Run, p.Name)
	switch {
	case err != nil && buried && !errors.Is(err, errkind.ErrUnavailable): // its rows cannot be read
		out.Since, out.Why = instant(v.FinishedAt), engine.QuarantinedWhy
		return out, nil
	case errors.Is(err, errkind.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	for i := range task.Attempts {
		switch h := &task.Attempts[i].Handle; {
		case task.Attempts[i].Token != p.Token:
		case h.State == dag.HandleOrphan:
			out.Handle, out.Since, out.Why = h.Text, instant(h.Since), h.Why
			return out, nil
		case buried && h.Text != "":
			out.Since, out.Why = instant(v.FinishedAt), engine.QuarantinedWhy
			return out, nil
		}
	}
	return nil, nil
}

type orphanIn struct {
	TaskPath
	Body *api.OrphanRequest
}

func (o orphans) release(ctx context.Context, in *orphanIn) (*taskOut, error) {
	return o.decide(ctx, in, false)
}

func (o orphans) dismiss(ctx context.Context, in *orphanIn) (*taskOut, error) {
	return o.decide(ctx, in, true)
}

func (o orphans) decide(ctx context.Context, in *orphanIn, dismiss bool) (*taskOut, error) {
	id, err := in.run()
	if err != nil {
		return nil, err
	}
	c := engine.OrphanCommand{Run: id, Task: in.Task, Dismiss: dismiss, Actor: userOf(ctx)}
	number := int32(0)
	if in.Body != nil {
		c.Reason, number = in.Body.Reason, in.Body.Attempt
	}
	v, err := o.s.engine.Task(ctx, id, in.Task)
	if err != nil {
		return nil, err
	}
	for i := range v.Attempts {
		if number != 0 && v.Attempts[i].Token.Number() == number {
			c.Token = v.Attempts[i].Token
		}
	}
	if number != 0 && c.Token == 0 {
		return nil, notFound("task %s of run %s has no attempt %d", in.Task, id, number)
	}
	if err := engine.OnOrphans(ctx, o.s.engine, c); err != nil {
		return nil, err
	}
	if v, err = o.s.engine.Task(ctx, id, in.Task); err != nil {
		return nil, err
	}
	out, err := shownTask(ctx, o.s, id, &v)
	return &taskOut{Status: http.StatusOK, Body: out}, err
}
