package server

import (
	"context"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/trigger"
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
	now, err := e.s.engine.Clock(ctx)
	if err != nil {
		return nil, err
	}
	for i := range ts {
		if next, err := trigger.NextOpen(&ts[i]); err == nil { // a trigger with damaged data is shown as it is
			ts[i].Next = next
		}
	}
	all := inspect.Idle(&w, ts, inspect.Sights{
		Away: func(t *store.Trigger) (dag.Micros, string) {
			_, away, why, _ := e.stateOf(&w, t)
			return away, why
		},
		Pause: func(t *store.Trigger) (until dag.Micros, actor, reason string) {
			pauses, _ := trigger.Pauses(t) // damaged data have no pauses
			if p := trigger.PauseAt(pauses, now); p != nil {
				return p.Until, p.Actor, p.Reason
			}
			return 0, "", ""
		},
	})
	out := api.Explanation{ID: fullName(w.Namespace, w.Name), State: w.State, Reasons: []api.Reason{}}
	for i := range all[:min(len(all), in.Limit)] {
		out.Reasons = append(out.Reasons, reasonOf(&all[i]))
	}
	return &jsonOut[api.Explanation]{Body: out}, nil
}
