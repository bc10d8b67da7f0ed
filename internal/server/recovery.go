package server

import (
	"context"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/inspect"
	api "skein.dev/skein/sdk/api/v1"
)

type recoveryIn struct {
	RunPath
	From       string `query:"from" maxLength:"300" doc:"A task."`
	TaskOnly   bool   `query:"task_only" doc:"Only the task."`
	Upstreams  bool   `query:"upstreams" doc:"Only the task and all that it needs."`
	Dependents bool   `query:"dependents" doc:"Only the task and all that needs it."`
}

// planned returns what a recover of a run would do, but does not do it.
func planned(s *Server) func(context.Context, *recoveryIn) (*jsonOut[api.RecoveryPlan], error) {
	return func(ctx context.Context, in *recoveryIn) (*jsonOut[api.RecoveryPlan], error) {
		id, err := in.run()
		if err != nil {
			return nil, err
		}
		scope, err := scopeOf(&api.RecoverRequest{From: in.From, TaskOnly: in.TaskOnly, Upstreams: in.Upstreams, Dependents: in.Dependents})
		if err != nil {
			return nil, err
		}
		p, err := inspect.PlanRecovery(ctx, s.engine.Reader, id, scope, in.From)
		if err != nil {
			return nil, err
		}
		return &jsonOut[api.RecoveryPlan]{Body: planOf(&p)}, nil
	}
}

// Bounds of the lists in a plan.
const (
	plannedTasksMax  = 200
	plannedQueuesMax = 20
)

// planOf shows a plan. Tasks that themselves failed come first, because people look for them.
func planOf(p *inspect.Recovery) api.RecoveryPlan {
	out := api.RecoveryPlan{Run: p.Row.ID.String(), Refused: textOrNull(p.Refused), Generation: p.Row.Generation + 1,
		Tasks: []api.PlannedTask{}, Queues: []string{}, Locks: []string{}}
	if p.Refused != "" {
		out.Generation = p.Row.Generation
		return out
	}
	if c := p.Row.Claim; c != nil {
		out.Queue, out.Locks = textOrNull(c.Queue), append(out.Locks, dag.LockNames(c.Locks)...)
	}
	var rest []api.PlannedTask
	for t, again := range p.Again {
		if !again {
			if p.States[t].Terminal() {
				out.Kept++
			}
			continue
		}
		out.Again++
		id := dag.TaskID(t)
		task := api.PlannedTask{Name: p.Graph.Name(id), State: p.States[t].String()}
		switch bad := p.States[t] == dag.Failed || p.States[t] == dag.Stopped; {
		case bad && len(out.Tasks) < plannedTasksMax:
			out.Tasks = append(out.Tasks, task)
		case len(rest) < plannedTasksMax:
			rest = append(rest, task)
		}
		if q := p.Graph.Policy(id).Queue; q != "" && len(out.Queues) < plannedQueuesMax && !slices.Contains(out.Queues, q) {
			out.Queues = append(out.Queues, q)
		}
	}
	out.Tasks = append(out.Tasks, rest[:min(len(rest), plannedTasksMax-len(out.Tasks))]...)
	return out
}
