package server

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/workflow"
	api "skein.dev/skein/sdk/api/v1"
)

// Definer returns the inputs of attempts.
type Definer interface {
	// Definition returns the input of an attempt of a task. token is 0 if there was no attempt.
	Definition(ctx context.Context, row *dag.RunRow, task string, token dag.Token) (inspect.Definition, error)
}

// taskInputs answers the calls about the inputs of attempts.
type taskInputs struct{ *Server }

type definitionIn struct {
	TaskPath
	Attempt int64 `query:"attempt" minimum:"1" doc:"Its token or its number. Absent: the newest."`
}

// get shows the input of an attempt. The input contains text of the workflow file and values of the run, so
// the caller needs the verbs for both.
func (s taskInputs) get(ctx context.Context, in *definitionIn) (*jsonOut[api.TaskDefinition], error) {
	if s.cfg.Definer == nil {
		return nil, notFound("this process runs no tasks; ask a node")
	}
	id, err := in.run()
	if err != nil {
		return nil, err
	}
	row, err := s.engine.RunRow(ctx, id)
	if err != nil {
		return nil, err
	}
	n, err := s.runName(ctx, id)
	if err != nil {
		return nil, err
	}
	ns, _ := cutName(n.workflow)
	if err := may(ctx, access.RunValues, ns); err != nil {
		return nil, err
	}
	v, err := s.engine.Task(ctx, id, in.Task)
	if errors.Is(err, errkind.ErrNotFound) {
		return nil, s.noTask(ctx, id, in.Task)
	}
	if err != nil {
		return nil, err
	}
	token := dag.Token(0)
	for i := range v.Attempts {
		if a := &v.Attempts[i]; in.Attempt == 0 || a.Token.Is(in.Attempt) {
			token = a.Token
		}
	}
	if token == 0 && in.Attempt != 0 {
		return nil, notFound("task %s of run %s has no attempt %d", in.Task, in.ID, in.Attempt)
	}
	d, err := s.cfg.Definer.Definition(ctx, &row, in.Task, token)
	if err != nil {
		return nil, err
	}
	return &jsonOut[api.TaskDefinition]{Body: definitionOf(&d, token)}, nil
}

func definitionOf(d *inspect.Definition, token dag.Token) api.TaskDefinition {
	out := api.TaskDefinition{Attempt: int64(token), Kind: d.Kind, Description: textOrNull(d.Description), Needs: append([]string{}, d.Needs...), If: textOrNull(d.If),
		Command: append([]string{}, d.Command...), Dir: textOrNull(d.Dir), Env: pairsOf(d.Env), Files: pairsOf(d.Files), Secrets: append([]string{}, d.Secrets...),
		Function: textOrNull(d.Function), Input: d.Input, Timeout: spanOrNull(d.Timeout), Retries: d.Retries, RetryDelay: spanOrNull(d.RetryDelay),
		Queue: textOrNull(d.Queue), Priority: d.Priority, Place: textOrNull(d.Place), CPU: float64(d.CPU) / 1e3, Memory: d.Memory, Fault: textOrNull(d.Fault)}
	if out.Input == nil {
		out.Input = json.RawMessage("null")
	}
	if d.Code != "" || d.File != "" {
		out.Script = &api.TaskScript{Interpreter: textOrNull(d.Interpreter), Code: textOrNull(d.Code), File: textOrNull(d.File), Args: append([]string{}, d.Args...)}
	}
	if d.URL != "" {
		out.Request = &api.TaskCall{Connection: textOrNull(d.Connection), Method: d.Method, URL: d.URL, Headers: pairsOf(d.Headers), Body: textOrNull(d.Body)}
	}
	return out
}

func pairsOf(all []inspect.Pair) []api.NamedValue {
	out := make([]api.NamedValue, len(all))
	for i, p := range all {
		out[i] = api.NamedValue{Name: p.Name, Value: p.Value}
	}
	return out
}

func spanOrNull(d time.Duration) *string {
	if d == 0 {
		return nil
	}
	text := workflow.Duration(d).String()
	return &text
}
