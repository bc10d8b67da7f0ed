package server

import (
	"context"

	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/workflow"
	api "skein.dev/skein/sdk/api/v1"
)

// shownRun makes a run for an answer.
func shownRun(ctx context.Context, s *Server, v *inspect.RunView) (api.Run, error) {
	run, err := runAmong(v, new(shared))
	maskParams(ctx, s, v, &run)
	return run, err
}

// maskParams hides the values of type secret that are not sealed. They exist if another program inserted the
// run in its own transaction. If the version cannot be read, maskParams hides all values, because any of them
// may be secret.
func maskParams(ctx context.Context, s *Server, v *inspect.RunView, run *api.Run) {
	if len(run.Params) == 0 {
		return
	}
	def, err := s.definition(ctx, &v.Workflow, v.Version)
	if err != nil {
		for name := range run.Params {
			run.Params[name] = workflow.SecretShown
		}
		return
	}
	for i := range def.Params {
		p := &def.Params[i]
		if p.Type == workflow.Secret && run.Params[p.Name] != nil {
			run.Params[p.Name] = workflow.SecretShown
		}
	}
}
