package server

import (
	"context"
	"errors"
	"slices"
	"strings"

	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/workflow"
	api "skein.dev/skein/sdk/api/v1"
)

// callsMax bounds the workflows that are searched for a cycle. If a cycle is longer, it is not found here,
// and a run fails at the call that closes the cycle.
const callsMax = 1000

// candidate is a workflow of a request, before it is stored.
type candidate struct {
	req    *api.ApplyRequest
	place  int // index among the workflows of the file
	def    *workflow.Workflow
	beside map[string]*workflow.Workflow // the workflows that are applied together with it, by NAMESPACE/NAME
}

// fault returns an error about the value under a path of keys.
func (a *candidate) fault(message, hint string, path ...string) workflow.Errors {
	line, column := workflow.Locate([]byte(a.req.Source), a.place, path...)
	return workflow.Errors{{File: a.req.File, Line: line, Column: column, Key: strings.Join(path, "."), Message: message, Hint: hint}}
}

// callCycle looks for a cycle among the calls of a workflow. It follows the calls of the stored workflows and
// of those that are applied in the same request. If two workflows are applied at the same time, they may
// still form a cycle. Then a run fails at the call that closes the cycle.
func (s *Server) callCycle(ctx context.Context, a *candidate) (workflow.Errors, error) {
	self := a.def.Namespace + "/" + a.def.Name
	from := map[string]string{} // callee → caller
	todo := a.def.Calls()
	for _, name := range todo {
		from[name] = self
	}
	for looked := 0; len(todo) > 0 && looked < callsMax; looked++ {
		name := todo[0]
		todo = todo[1:]
		if name == self {
			break
		}
		called, err := s.callee(ctx, a, name)
		if err != nil {
			return nil, err
		}
		if called == nil {
			continue
		}
		for _, next := range called.Calls() {
			if _, known := from[next]; !known {
				from[next] = name
				todo = append(todo, next)
			}
		}
	}
	if from[self] == "" {
		return nil, nil
	}
	path := []string{self}
	for at := from[self]; at != self; at = from[at] {
		path = append(path, at)
	}
	path = append(path, self)
	slices.Reverse(path)
	first := slices.IndexFunc(a.def.Tasks, func(t workflow.Task) bool { return t.Call != nil && a.def.Target(t.Call) == path[1] })
	name := a.def.Tasks[first].Name
	return a.fault("task "+name+" begins a cycle of calls: "+strings.Join(path, " → "), "no workflow may call itself, also not by way of others",
		"tasks", name, "workflow"), nil
}

// callee returns the workflow that a call names. If the request applies that workflow, callee returns the
// form in the request. It returns nil if there is no such workflow.
func (s *Server) callee(ctx context.Context, a *candidate, name string) (*workflow.Workflow, error) {
	if w := a.beside[name]; w != nil {
		return w, nil
	}
	namespace, short, _ := strings.Cut(name, "/")
	row, err := s.engine.Workflow(ctx, namespace, short)
	if errors.Is(err, errkind.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	v, err := s.engine.Version(ctx, row.ID, row.Version)
	if err != nil {
		return nil, err
	}
	return workflow.Decode(v.Def)
}
