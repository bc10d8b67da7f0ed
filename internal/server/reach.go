package server

import (
	"context"
	"net/http"
	"strings"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/workflow"
	"skein.dev/skein/sdk/api/v1"
)

// mayReach refuses a workflow that starts or listens to workflows of other namespaces, unless these offer
// themselves to its namespace. A workflow without offers lets the rights of the author decide, which are
// checked here only. Offers are checked at each call and each look, too.
func mayReach(ctx context.Context, s *Server, def *workflow.Workflow) error {
	for _, name := range def.Calls() {
		if err := mayUse(ctx, s, def, name, access.RunStart, access.RunValues); err != nil {
			return err
		}
	}
	for i := range def.Tasks {
		if d := def.Tasks[i].Dependent; d != nil {
			if err := mayUse(ctx, s, def, def.TargetOf(d), access.RunRead); err != nil {
				return err
			}
		}
	}
	for i := range def.Triggers {
		for _, name := range def.Triggers[i].On() {
			if err := mayUse(ctx, s, def, name, access.RunRead); err != nil {
				return err
			}
		}
	}
	return nil
}

// withdrawn warns if a new version no longer has the key offers, because the workflows that use it need no
// offer then.
func withdrawn(ctx context.Context, s *Server, def *workflow.Workflow) []string {
	if def.Offers != nil {
		return nil
	}
	before, err := s.callee(ctx, &candidate{}, def.Namespace+"/"+def.Name)
	if err != nil || before == nil || len(before.Offers) == 0 {
		return nil
	}
	return []string{"without the key offers, workflows of other namespaces that were applied before still use this workflow; to refuse them, write offers: []"}
}

// mayUse decides about one other workflow. Without offers, an author needs the given verbs to use it.
func mayUse(ctx context.Context, s *Server, def *workflow.Workflow, name string, verbs ...access.Verb) error {
	if namespace, _, _ := strings.Cut(name, "/"); namespace == def.Namespace {
		return nil
	}
	other, err := s.callee(ctx, &candidate{}, name)
	if err != nil {
		return err
	}
	offered, declared := false, false
	if other != nil {
		offered, declared = other.OffersTo(def.Namespace)
	}
	if offered {
		return nil
	}
	for _, v := range verbs { // also before the refusal, which says that the workflow exists
		if err := mayName(ctx, v, name); err != nil {
			return err
		}
	}
	if declared {
		return fail(http.StatusForbidden, api.ProblemForbidden, "%v", other.NotOffered(def.Namespace))
	}
	return nil
}
