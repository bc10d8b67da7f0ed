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
	task, err := s.markedTask(ctx, in)
	if err != nil {
		return nil, err
	}
	if task != nil && task.Approval != nil && len(task.Approval.Form) > 0 {
		return markedForm(ctx, in, task.Approval)
	}
	types := promisedOutputs(task, &in.Body)
	given, err := output.Texts(in.Body.Texts, types)
	if err != nil {
		return nil, invalid("task %s: %s", in.Task, err)
	}
	for name, value := range in.Body.Outputs {
		if _, twice := given[name]; twice {
			return nil, invalid("outputs: %s is given twice, as a value and as a text; give it once", name)
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

// markedForm returns the outputs of an approval with a form that is marked as succeeded: the answers,
// which are checked as those of an approval are, the caller, and the reason in place of a comment.
func markedForm(ctx context.Context, in *markTaskIn, asked *workflow.Approval) ([]byte, error) {
	out, answers := map[string]any{"approved_by": userOf(ctx), "comment": in.Body.Reason}, api.Params{}
	give := func(name string, v any) error {
		_, fixed := out[name]
		if _, twice := answers[name]; twice || fixed {
			return invalid("outputs: %s is given twice, or is not a field of the form", name)
		}
		answers[name] = v
		return nil
	}
	for name, v := range in.Body.Outputs {
		if err := give(name, v); err != nil {
			return nil, err
		}
	}
	for name, text := range in.Body.Texts {
		if err := give(name, text); err != nil {
			return nil, err
		}
	}
	values, err := asked.Answers(answers)
	if err != nil {
		return nil, invalidAnswers(err)
	}
	for name, v := range values {
		out[name] = v
	}
	return output.Marshal(out)
}

// markedTask returns the definition of the marked task, or nil if there is nothing to check. It also returns
// nil if the task does not exist, because the owner of the run gives a better error.
func (s *Server) markedTask(ctx context.Context, in *markTaskIn) (*workflow.Task, error) {
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
	return &w.Tasks[d.Task], nil
}

// promisedOutputs returns the types of the outputs that a mark must have. If the task promises none,
// these are the outputs that the mark has.
func promisedOutputs(task *workflow.Task, req *api.MarkRequest) map[string]string {
	if task == nil {
		return nil
	}
	types, promised := task.OutputTypes()
	if !promised {
		maps.DeleteFunc(types, func(name, _ string) bool { return !gives(req, name) })
	}
	return types
}

// gives reports whether a mark contains an output with that name.
func gives(req *api.MarkRequest, name string) bool {
	_, value := req.Outputs[name]
	_, text := req.Texts[name]
	return value || text
}
