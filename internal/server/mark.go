package server

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/workflow"
	api "skein.dev/skein/sdk/api/v1"
	"skein.dev/skein/sdk/shared/output"
)

type markTaskIn struct {
	TaskPath
	Idempotent
	Body api.MarkRequest
}

func (s *Server) markTask(ctx context.Context, in *markTaskIn) (*taskOut, error) {
	c := engine.Command{Mark: dag.MarkSucceeded, Reason: in.Body.Reason}
	switch {
	case in.Body.State == "failed" && len(in.Body.Outputs)+len(in.Body.Texts) > 0:
		return nil, invalid("outputs: a task that is marked failed has no outputs")
	case in.Body.State == "failed":
		c.Mark = dag.MarkFailed
	default:
		var err error
		if c.Outputs, err = s.markOutputs(ctx, in); err != nil {
			return nil, err
		}
	}
	return s.onTask(ctx, &in.TaskPath, in.Key, "mark", c)
}

// markOutputs checks the outputs of a mark against the task's declaration, as at the end of an attempt,
// because other tasks rely on the declaration.
func (s *Server) markOutputs(ctx context.Context, in *markTaskIn) ([]byte, error) {
	types, err := s.outputTypes(ctx, in)
	if err != nil {
		return nil, err
	}
	given, err := output.Texts(in.Body.Texts, types)
	if err != nil {
		return nil, invalid("task %s: %s", in.Task, err)
	}
	for name, value := range in.Body.Outputs {
		if _, twice := given[name]; twice {
			return nil, invalid("outputs: %s is given twice, also as a text", name)
		}
		if given[name], err = output.Marshal(value); err != nil {
			return nil, invalid("outputs: %s holds a number that is too large", name)
		}
	}
	if name := output.Missing(given, types); name != "" {
		return nil, invalid("task %s declares the output %s (%s), which is missing; give it, as in --output %s=VALUE", in.Task, name, types[name], name)
	}
	if len(given) == 0 {
		return nil, nil
	}
	raw, err := output.Marshal(given)
	if err != nil {
		return nil, fmt.Errorf("encode the outputs of task %s: %w", in.Task, err)
	}
	out, err := output.Object(raw, types)
	if err != nil {
		return nil, invalid("task %s: %s", in.Task, err)
	}
	return out, nil
}

// outputTypes returns the declared outputs of a task, or nil if there is nothing to check. It also returns
// nil if the task does not exist, because the owner of the run gives a better error.
func (s *Server) outputTypes(ctx context.Context, in *markTaskIn) (map[string]string, error) {
	id, err := in.run()
	if err != nil {
		return nil, err
	}
	d, err := s.engine.DefinedTask(ctx, id, in.Task)
	if errors.Is(err, errkind.ErrNotFound) || err == nil && d.Spread {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if len(in.Body.Outputs)+len(in.Body.Texts) == 0 { // the same mark was made before, and changes nothing
		if v, err := s.engine.Task(ctx, id, in.Task); err == nil && v.State == dag.Succeeded {
			return nil, nil
		}
	}
	v, err := s.engine.Version(ctx, d.Workflow, d.Version)
	if err != nil {
		return nil, err
	}
	w, err := workflow.Decode(v.Def)
	if err != nil || int(d.Task) >= len(w.Tasks) {
		return nil, err
	}
	types, promised := w.Tasks[d.Task].OutputTypes()
	if !promised {
		maps.DeleteFunc(types, func(name, _ string) bool { return !gives(&in.Body, name) })
	}
	return types, nil
}

// gives reports whether a mark contains an output with that name.
func gives(req *api.MarkRequest, name string) bool {
	_, value := req.Outputs[name]
	_, text := req.Texts[name]
	return value || text
}
