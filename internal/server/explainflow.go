package server

import (
	"context"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

// triggersExplained bounds the triggers of a workflow that one explanation reads.
const triggersExplained = 200

type explainWorkflowIn struct {
	WorkflowPath
	Limit int `query:"limit" minimum:"1" maximum:"50" default:"50" doc:"How many reasons there are at most."`
}

// explainFlow says why a workflow starts no runs, and when its triggers start the next ones.
func (e eventing) explainFlow(ctx context.Context, in *explainWorkflowIn) (*jsonOut[api.Explanation], error) {
	w, err := e.s.workflow(ctx, &in.WorkflowPath)
	if err != nil {
		return nil, err
	}
	ts, err := e.s.engine.Triggers(ctx, store.TriggerQuery{Workflow: w.ID, Limit: triggersExplained})
	if err != nil {
		return nil, err
	}
	all := inspect.Idle(&w, ts, func(t *store.Trigger) (dag.Micros, string) {
		_, away, why, _ := e.stateOf(&w, t)
		return away, why
	})
	out := api.Explanation{ID: fullName(w.Namespace, w.Name), State: w.State, Reasons: []api.Reason{}}
	for i := range all[:min(len(all), in.Limit)] {
		out.Reasons = append(out.Reasons, reasonOf(&all[i]))
	}
	return &jsonOut[api.Explanation]{Body: out}, nil
}
