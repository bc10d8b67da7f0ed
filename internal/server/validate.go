package server

import (
	"context"

	api "skein.dev/skein/api/v1"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/workflow"
)

// What is said of the namespace of the program's own workflows.
const (
	reservedNamespace = "is for workflows that come with the program"
	otherNamespace    = "choose another one"
)

type validateIn struct{ DefinitionBody }

// validate finds all that an apply of these workflows, one after the other, would be refused for.
func (s *Server) validate(ctx context.Context, in *validateIn) (*jsonOut[api.Validation], error) {
	leave, err := s.heavy.enter(ctx, len(in.RawBody))
	if err != nil {
		return nil, err
	}
	defer leave()
	req, err := in.request()
	if err != nil {
		return nil, err
	}
	defs, faults, err := s.parseAll(ctx, req)
	if err == nil && len(faults) == 0 {
		faults, err = s.refused(ctx, req, defs)
	}
	if err != nil {
		return nil, err
	}
	return &jsonOut[api.Validation]{Body: api.Validation{Errors: fileErrors(faults)}}, nil
}

// refused is what stands against workflows that are good by themselves. Of those that call each other in a circle, the
// first that leads into it is told.
func (s *Server) refused(ctx context.Context, req *api.ApplyRequest, defs []*workflow.Workflow) (all workflow.Errors, err error) {
	beside := map[string]*workflow.Workflow{}
	for _, def := range defs {
		beside[def.Namespace+"/"+def.Name] = def
	}
	for i, def := range defs {
		a := &candidate{req: req, place: i, def: def, beside: beside}
		if def.Namespace == engine.SystemNamespace {
			all = append(all, a.fault("the namespace "+def.Namespace+" "+reservedNamespace, otherNamespace, "namespace")...)
		}
		if _, err := def.Graph(s.cfg.TasksMax); err != nil {
			all = append(all, a.fault(err.Error(), "", "tasks")...)
		}
		circle, err := s.callCycle(ctx, a)
		if err != nil {
			return nil, err
		}
		if all = append(all, circle...); len(circle) > 0 {
			beside[def.Namespace+"/"+def.Name] = &workflow.Workflow{} // so that the circle is told once
		}
	}
	return all, nil
}
