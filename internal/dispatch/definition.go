package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/worker"
	"skein.dev/skein/internal/workflow"
)

// secretShown replaces the value of a secret, which is not read.
const secretShown = "•••"

// Definition returns the input of an attempt: command, request, environment, files and limits. row is the
// attempt's run. token is the token of the attempt, or 0 if the task has had none. The outputs of other tasks
// are the present ones. If such a task ran again after the attempt, the attempt had an earlier output.
func (r *Resolver) Definition(ctx context.Context, row *dag.RunRow, task string, token dag.Token) (inspect.Definition, error) {
	g, err := r.cfg.Engine().RunGraph(row)
	if err != nil {
		return inspect.Definition{}, err
	}
	id, ok := g.Find(task)
	if !ok {
		return inspect.Definition{}, fmt.Errorf("%w: run %s has no task %q", errkind.ErrNotFound, row.ID, task)
	}
	v, err := r.versions.Get(versionID{row.Workflow, row.Version})
	if err != nil {
		return inspect.Definition{}, err
	}
	a := &engine.Assignment{Run: row.ID, Task: id, Token: max(token, 1), Name: task, Workflow: row.Workflow, Version: row.Version, Graph: g}
	t, ok := v.position(a)
	if !ok {
		return inspect.Definition{}, fmt.Errorf("%w: version %d of workflow %s has no task %q", errkind.ErrNotFound, row.Version, v.Name, task)
	}
	_, instance := g.InstanceOf(id)
	d := described(v.Workflow, t, instance)
	if v.Tasks[t].Logical() || d.Kind == kindForeach {
		return d, nil
	}
	known, err := r.outputs(ctx, a, v.reads[t])
	if err == nil {
		err = evaluateInto(&d, v.Workflow, t, workflow.Inputs{Item: g.Item(id), RunID: row.ID.String(), Version: int(row.Version),
			Attempt: int(a.Token), Params: row.Params, TriggerTime: row.Instant().Time(),
			Outputs: func(task string) (json.RawMessage, dag.TaskState) { o := known[task]; return o.json, o.state }})
	}
	var fault *notStarted
	switch {
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, errkind.ErrUnavailable):
		return d, err
	case errors.As(err, &fault):
		d.Fault = fault.Error()
	case err != nil:
		return d, err
	}
	return d, nil
}

// The names of kinds that have no name in the workflow file.
const (
	kindForeach  = "foreach"
	kindFunction = "kind"
	kindHTTP     = "http"
	kindSQL      = "sql"
)

// described fills in the parts of a definition without expressions.
func described(w *workflow.Workflow, task int, instance bool) inspect.Definition {
	t, p := &w.Tasks[task], w.Policy(task)
	need := p.Place.Need()
	d := inspect.Definition{Kind: kindOf(t, instance), Description: t.Description, Needs: t.Needs, If: t.If,
		Timeout: p.Timeout, Retries: p.Retry.Max, RetryDelay: p.Retry.Delay, Queue: p.Queue, Priority: p.Priority.String(),
		Place: p.Place.String(), CPU: need.CPU, Memory: need.Memory}
	if !t.House {
		d.Function = t.Kind
	}
	for _, in := range t.Inputs {
		d.Files = append(d.Files, inspect.Pair{Name: in.Task, Value: in.Name})
	}
	return d
}

func kindOf(t *workflow.Task, instance bool) string {
	switch {
	case len(t.Foreach) > 0 && !instance:
		return kindForeach
	case t.House:
		return t.Kind
	case t.Kind != "":
		return kindFunction
	case t.HTTP != nil:
		return kindHTTP
	case t.Wait != nil:
		return "wait"
	case t.Approval != nil:
		return "approval"
	case len(t.Switch) > 0:
		return "switch"
	case t.Call != nil:
		return "call"
	case t.Made != nil:
		return "made"
	case t.Dependent != nil:
		return "dependent"
	case t.Notify != nil:
		return "notify"
	case t.Run.Shell != "":
		return "shell"
	case t.Run.Code != "":
		return "code"
	case t.Run.File != "":
		return "file"
	case t.Run.Builtin != "":
		return "builtin"
	}
	return "argv"
}

// describeSQL moves the statements and their parameters from the input to their own fields.
func describeSQL(d *inspect.Definition) error {
	var in struct {
		Connection, Query, File string
		Params                  json.RawMessage
	}
	if err := json.Unmarshal(d.Input, &in); err != nil {
		return err
	}
	d.Interpreter, d.Code, d.File, d.Input = "SQL over the connection "+in.Connection, in.Query, in.File, in.Params
	return nil
}

// evaluateInto evaluates the expressions of a task, and writes the results into d. It reads no secret: it
// records the secret's name in d.Secrets, and uses secretShown as the value.
func evaluateInto(d *inspect.Definition, w *workflow.Workflow, task int, in workflow.Inputs) error {
	in.Secret = func(name string) (string, error) {
		d.Secrets = append(d.Secrets, name)
		return secretShown, nil
	}
	in.Unseal = func(name, _ string) (string, error) {
		d.Secrets = append(d.Secrets, "params."+name)
		return secretShown, nil
	}
	res, err := w.Resolve(task, in)
	slices.Sort(d.Secrets)
	d.Secrets = slices.Compact(d.Secrets)
	if err != nil {
		return &notStarted{causeExpression, err}
	}
	var job worker.Job
	job.Env = environment(res.Env)
	if setRun(&job, &res.Run); res.Request != nil {
		job.HTTP = requestOf(res.Request)
	}
	if size := job.Size() + len(res.Input); size > worker.SizeMax {
		return &notStarted{causeStart, fmt.Errorf("command, environment and request have %d bytes, more than can be shown", size)}
	}
	d.Dir, d.Input = res.Dir, res.Input
	for _, kv := range res.Env {
		d.Env = append(d.Env, inspect.Pair{Name: kv.Name, Value: kv.Value})
	}
	if d.Kind == kindSQL {
		return describeSQL(d)
	}
	if job.HTTP != nil {
		d.Connection = res.Request.Connection
		d.Method, d.URL, d.Body = job.HTTP.Method, job.HTTP.URL, string(job.HTTP.Body)
		for _, h := range job.HTTP.Header {
			d.Headers = append(d.Headers, inspect.Pair{Name: h[0], Value: h[1]})
		}
		return nil
	}
	d.Command = job.Argv
	if s := job.Script; s != nil {
		d.Interpreter, d.Code, d.File, d.Args = s.Interpreter, s.Code, s.File, s.Args
	}
	return nil
}
