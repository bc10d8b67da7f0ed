package server

import (
	"context"
	"crypto/sha256"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/workflow"
	api "skein.dev/skein/sdk/api/v1"
)

// The fault of a workflow file that uses the namespace system.
const (
	reservedNamespace = "is for workflows that come with the program"
	otherNamespace    = "choose another one"
)

type validateIn struct {
	Include string `query:"include" enum:"layout" doc:"layout: where the tasks of the file are drawn. It is absent if the file has a fault or several workflows."`
	DefinitionBody
}

// validate finds all faults because of which an apply of these workflows, one after the other, would be
// refused.
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
	if err == nil {
		err = mayCheck(ctx, defs)
	}
	if err == nil && len(faults) == 0 {
		faults, err = s.refused(ctx, req, defs)
	}
	if err != nil {
		return nil, err
	}
	out := api.Validation{Errors: fileErrors(faults)}
	if in.Include == "layout" && len(faults) == 0 && len(defs) == 1 {
		if out.Layout, err = s.draftLayout(ctx, defs[0]); err != nil {
			return nil, err
		}
	}
	return &jsonOut[api.Validation]{Body: out}, nil
}

// mayCheck returns a refusal unless the caller may read all sources, or may write the workflows of a file.
// The faults tell about the workflows that the file calls, as those of an apply do.
func mayCheck(ctx context.Context, defs []*workflow.Workflow) error {
	if wide(ctx, access.WorkflowSource) {
		return nil
	}
	for _, def := range defs {
		if err := may(ctx, access.WorkflowWrite, def.Namespace); err != nil {
			return err
		}
	}
	if !access.Anywhere(caller(ctx, access.WorkflowWrite)) { // a file with faults can have no namespace
		return may(ctx, access.WorkflowWrite, access.Everywhere)
	}
	return nil
}

// draftLayout draws a workflow that is not applied. It caches the packed drawing like those of versions,
// because applying the draft makes it a version.
func (s *Server) draftLayout(ctx context.Context, def *workflow.Workflow) (*api.Layout, error) {
	g, err := def.Graph(s.cfg.TasksMax)
	if err != nil {
		return nil, nil // the answer already contains that fault
	}
	made, err := s.layouts.fresh(ctx, func() *drawing { return draw(g) })
	if err != nil {
		return nil, err
	}
	s.layouts.kept.Put(keyOf(g), made.packed, len(made.packed))
	return made.body(), nil
}

const schemaDoc = "The JSON Schema (2020-12) that editors complete and check with."

type schemaIn struct {
	IfNoneMatch string `header:"If-None-Match"`
}

// workflowSchema serves the JSON Schema of workflow files. The schema changes only with the program.
func (s *Server) workflowSchema(_ context.Context, in *schemaIn) (*streamOut, error) {
	schema := workflow.Schema()
	tag := tagOf(sha256.Sum256(schema))
	return &streamOut{Body: func(hc huma.Context) {
		_, w := humago.Unwrap(hc)
		h := w.Header()
		h.Set("ETag", tag)
		h.Set("Cache-Control", cacheAsk)
		h.Set("Content-Type", "application/schema+json")
		if holds(in.IfNoneMatch, tag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = w.Write(schema) // the client is gone
	}}, nil
}

// refused lists the faults of workflows that are valid by themselves. If workflows call each other in a
// cycle, it reports only the first workflow that leads into the cycle.
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
			beside[def.Namespace+"/"+def.Name] = &workflow.Workflow{} // so that each cycle is reported only once
		}
	}
	return all, nil
}
