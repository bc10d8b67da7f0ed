package server

import (
	"context"
	"encoding/json"
	"net/http"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	api "skein.dev/skein/sdk/api/v1"
)

// taskVerb is an operator's verb on one task of a run.
type taskVerb struct {
	name, summary string
	mark          dag.Mark
}

var taskVerbs = [...]taskVerb{
	{"stop", "Stop a task; its run continues without the tasks that need it", dag.MarkStop},
	{"retry", "Retry a task: run it again, or without waiting for its next try", dag.MarkRetry},
	{"skip", "Skip a task", dag.MarkSkip},
}

type taskOut struct {
	Status int
	Body   api.Task
}

type taskVerbIn struct {
	TaskPath
	Idempotent
	Body *api.VerbRequest
}

func (s *Server) taskVerb(v taskVerb) func(context.Context, *taskVerbIn) (*taskOut, error) {
	return func(ctx context.Context, in *taskVerbIn) (*taskOut, error) {
		c := engine.Command{Mark: v.mark}
		if in.Body != nil {
			c.Reason = in.Body.Reason
		}
		return s.onTask(ctx, &in.TaskPath, in.Key, v.name, c)
	}
}

func (s *Server) onTask(ctx context.Context, in *TaskPath, key, name string, c engine.Command) (*taskOut, error) {
	id, err := in.run()
	if err != nil {
		return nil, err
	}
	if c.Mark == dag.MarkSucceeded || c.Mark == dag.MarkSkip {
		if err := mayPass(ctx, s, id, in.Task); err != nil {
			return nil, err
		}
	}
	if c.Mark == dag.MarkRetry || c.Mark == dag.MarkSucceeded || c.Mark == dag.MarkSkip {
		if err := mayForce(ctx, s, id, in.Task, c.Mark); err != nil {
			return nil, err
		}
	}
	c.Run, c.Task, c.Actor = id, in.Task, userOf(ctx)
	scope := "POST /runs/" + id.String() + "/tasks/" + in.Task + ":" + name
	status, err := s.once(ctx, key, &c, scope)
	if err != nil {
		return nil, err
	}
	v, err := s.engine.Task(ctx, id, in.Task)
	if err != nil {
		return nil, err
	}
	out, err := shownTask(ctx, s, id, &v)
	return &taskOut{Status: status, Body: out}, err
}

type recoverIn struct {
	RunPath
	Idempotent
	Body *api.RecoverRequest
}

func (s *Server) recoverRun(ctx context.Context, in *recoverIn) (*runOut, error) {
	id, err := in.run()
	if err != nil {
		return nil, err
	}
	c := engine.Command{Run: id, Recover: true, Actor: userOf(ctx)}
	if in.Body != nil {
		c.Reason, c.Task = in.Body.Reason, in.Body.From
		if c.Scope, err = scopeOf(in.Body); err != nil {
			return nil, err
		}
	}
	status, err := s.once(ctx, in.Key, &c, "POST /runs/"+id.String()+":recover")
	if err != nil {
		return nil, err
	}
	run, err := s.readRun(ctx, id, false)
	if err != nil {
		return nil, err
	}
	return &runOut{Status: status, Body: run}, nil
}

func scopeOf(req *api.RecoverRequest) (dag.Scope, error) {
	alone := req.TaskOnly || req.Upstreams || req.Dependents
	switch {
	case req.From == "" && alone:
		return 0, invalid("task_only, upstreams and dependents need a task: name it with from")
	case req.From == "":
		return dag.ScopeFailed, nil
	case !alone:
		return dag.ScopeFrom, nil
	}
	scope := dag.ScopeOnly
	if req.Upstreams {
		scope |= dag.ScopeUpstream
	}
	if req.Dependents {
		scope |= dag.ScopeDependents
	}
	return scope, nil
}

type rerunIn struct {
	RunPath
	Idempotent
	Body *api.RerunRequest
}

func (s *Server) rerunRun(ctx context.Context, in *rerunIn) (*runOut, error) {
	id, err := in.run()
	if err != nil {
		return nil, err
	}
	of, err := s.engine.GetRun(ctx, id)
	if err != nil {
		return nil, err
	}
	again := api.RerunRequest{}
	if in.Body != nil {
		again = *in.Body
	}
	req := api.RunRequest{Workflow: fullName(of.Workflow.Namespace, of.Workflow.Name), Priority: again.Priority,
		IdempotencyKey: in.Key, Origin: again.Origin, From: again.From, Params: api.Params{}}
	if !again.Newest {
		req.Version = of.Version
	}
	if req.Priority == "" {
		req.Priority = of.Priority.String()
	}
	if len(of.Params) > 0 {
		if err := json.Unmarshal(of.Params, &req.Params); err != nil {
			return nil, err
		}
	}
	for name, value := range again.Params {
		req.Params[name] = value
	}
	a, err := s.submit(ctx, &req, &of.Header)
	if err != nil {
		return nil, err
	}
	out := &runOut{Status: http.StatusAccepted, Location: api.Prefix + "/runs/" + a.Run.String()}
	if a.Existing {
		out.Status = http.StatusOK
	}
	out.Body, err = s.startedRun(ctx, &a, 0)
	return out, err
}
