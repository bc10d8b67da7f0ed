package server

import (
	"context"
	"errors"
	"slices"
	"strings"

	api "skein.dev/skein/api/v1"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/workflow"
)

// callsMax bounds the workflows that are looked at for a cycle; what lies beyond is found when it starts.
const callsMax = 1000

// callCycle refuses a workflow whose calls lead back to it by way of others as they are now. Two that are
// applied at the same moment may still form one: a run of them fails at the call.
func (s *Server) callCycle(ctx context.Context, req *api.ApplyRequest, def *workflow.Workflow) error {
	self := def.Namespace + "/" + def.Name
	from := map[string]string{} // by whom a workflow was found to be called
	todo := def.Calls()
	for _, name := range todo {
		from[name] = self
	}
	for looked := 0; len(todo) > 0 && looked < callsMax; looked++ {
		name := todo[0]
		todo = todo[1:]
		if name == self {
			break
		}
		namespace, short, _ := strings.Cut(name, "/")
		row, err := s.engine.Workflow(ctx, namespace, short)
		if errors.Is(err, engine.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		v, err := s.engine.Version(ctx, row.ID, row.Version)
		if err != nil {
			return err
		}
		called, err := workflow.Decode(v.Def)
		if err != nil {
			return err
		}
		for _, next := range called.Calls() {
			if _, known := from[next]; !known {
				from[next] = name
				todo = append(todo, next)
			}
		}
	}
	if from[self] == "" {
		return nil
	}
	path := []string{self}
	for at := from[self]; at != self; at = from[at] {
		path = append(path, at)
	}
	path = append(path, self)
	slices.Reverse(path)
	first := slices.IndexFunc(def.Tasks, func(t workflow.Task) bool { return t.Call != nil && def.Target(t.Call) == path[1] })
	line, column := workflow.Locate([]byte(req.Source), "tasks", def.Tasks[first].Name, "workflow")
	return invalidWorkflow(workflow.Errors{{File: req.File, Line: line, Column: column, Key: "tasks." + def.Tasks[first].Name + ".workflow",
		Message: "task " + def.Tasks[first].Name + " begins a cycle of calls: " + strings.Join(path, " → "), Hint: "no workflow may call itself, also not by way of others"}})
}
