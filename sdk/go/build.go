package skein

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	api "skein.dev/skein/sdk/api/v1"
	"skein.dev/skein/sdk/shared/session"
)

// Workflow is a definition that a program builds. When it is applied, the server checks it like a file. The
// message about a fault names the key, such as tasks.vm.with.
type Workflow struct {
	namespace, name string
	keys            entries
	params          entries
	tasks           []*TaskDef
	err             error
}

// TaskDef is a task of a [Workflow]. Its methods return the TaskDef, so that calls can be chained.
type TaskDef struct {
	w    *Workflow
	name string
	keys entries
}

// NewWorkflow begins a definition. name is NAME or NAMESPACE/NAME.
func NewWorkflow(name string) *Workflow {
	w := &Workflow{}
	w.namespace, w.name = splitName(name)
	return w
}

// Set sets a key of the workflow file, such as max_concurrent_runs or triggers. It accepts every key of
// docs/workflow-file.md.
func (w *Workflow) Set(key string, value any) *Workflow {
	w.keys.set(key, value)
	return w
}

// Param declares a parameter. typ is string, int, float, bool or json. If def is nil, each start must give a
// value. A text may contain expressions (${{ }}).
func (w *Workflow) Param(name, typ string, def any) *Workflow {
	p := entries{{"type", typ}}
	if def != nil {
		p.set("default", def)
	}
	w.params.set(name, p)
	return w
}

// Task adds a task. Kind, Run or Set gives the task its action.
func (w *Workflow) Task(name string) *TaskDef {
	t := &TaskDef{w: w, name: name}
	for _, other := range w.tasks {
		if other.name == name {
			w.err = errors.Join(w.err, fmt.Errorf("%w: workflow %s has two tasks with the name %s", ErrInvalid, w.name, name))
		}
	}
	w.tasks = append(w.tasks, t)
	return t
}

// Task adds the next task to the workflow.
func (t *TaskDef) Task(name string) *TaskDef { return t.w.Task(name) }

// Workflow returns the workflow of the task. It ends a chain of calls.
func (t *TaskDef) Workflow() *Workflow { return t.w }

// Set sets a key of the task in the workflow file, such as foreach, wait or switch.
func (t *TaskDef) Set(key string, value any) *TaskDef {
	t.keys.set(key, value)
	return t
}

// Kind makes the task run on a worker that has registered the kind. with is the input of the task function: a
// value that encodes to a JSON object. Its strings may contain expressions (${{ }}). If with is nil, the
// input is an empty object.
func (t *TaskDef) Kind(kind string, with any) *TaskDef {
	t.Set("kind", kind)
	if with != nil {
		t.Set("with", with)
	}
	return t
}

// Run makes the task execute a command: a text for sh -c, or a list of program and arguments.
func (t *TaskDef) Run(command ...string) *TaskDef {
	if len(command) == 1 {
		return t.Set("run", command[0])
	}
	return t.Set("run", command)
}

// Needs names the tasks that must end before this one. A call without names changes nothing.
func (t *TaskDef) Needs(tasks ...string) *TaskDef {
	if len(tasks) == 0 {
		return t
	}
	return t.Set("needs", tasks)
}

// If sets the condition of the task, such as always(). The task runs if the condition is true after the
// needed tasks have ended.
func (t *TaskDef) If(expression string) *TaskDef { return t.Set("if", expression) }

// Retry repeats failed attempts, up to n times, with a delay that doubles.
func (t *TaskDef) Retry(n int, delay time.Duration) *TaskDef {
	return t.Set("retry", entries{{"max", n}, {"delay", delay.String()}, {"backoff", 2}})
}

// Timeout bounds the execution of one attempt.
func (t *TaskDef) Timeout(d time.Duration) *TaskDef { return t.Set("timeout", d.String()) }

// Group makes a worker of the group run the task.
func (t *TaskDef) Group(group string) *TaskDef { return t.Set("group", group) }

// Queue sets the queue of the task. The queue limits how many of its tasks run at the same time, in all runs
// together.
func (t *TaskDef) Queue(name string) *TaskDef { return t.Set("queue", name) }

// Outputs declares the outputs of the task, which expressions of other tasks may read. The outputs are the
// fields of a struct, such as the Out type of the task function.
func (t *TaskDef) Outputs(out any) *TaskDef {
	typ := reflect.TypeOf(out)
	for typ != nil && typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if typ == nil || typ.Kind() != reflect.Struct {
		t.w.err = errors.Join(t.w.err, fmt.Errorf("%w: the outputs of task %s are declared by a %T: use a struct", ErrInvalid, t.name, out))
		return t
	}
	declared := entries{}
	for _, f := range reflect.VisibleFields(typ) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		// An optional output cannot be declared.
		if !f.IsExported() || f.Anonymous || name == "-" || strings.Contains(options, "omit") {
			continue
		}
		if name == "" {
			name = f.Name
		}
		declared.set(name, outputType(f.Type))
	}
	return t.Set("outputs", declared)
}

func outputType(t reflect.Type) string {
	switch {
	case t.Implements(reflect.TypeFor[json.Marshaler]()):
		return "json"
	case t.Kind() == reflect.String:
		return "string"
	case t.Kind() == reflect.Bool:
		return "bool"
	case t.Kind() >= reflect.Int && t.Kind() <= reflect.Uint64:
		return "int"
	case t.Kind() == reflect.Float32 || t.Kind() == reflect.Float64:
		return "float"
	}
	return "json"
}

// Source returns the definition as the text of a workflow file. The text is JSON, which is also valid YAML.
func (w *Workflow) Source() (string, error) {
	if w.err != nil {
		return "", w.err
	}
	doc := entries{{"name", w.name}, {"namespace", w.namespace}}
	if len(w.params) > 0 {
		doc.set("params", w.params)
	}
	for _, e := range w.keys {
		doc.set(e.key, e.value)
	}
	tasks := entries{}
	for _, t := range w.tasks {
		tasks.set(t.name, t.keys)
	}
	if len(w.tasks) > 0 { // if there are no tasks, a splitter makes them, or the server reports the lack
		doc.set("tasks", tasks)
	}
	raw, err := doc.MarshalJSON()
	if err != nil {
		return "", fmt.Errorf("%w: workflow %s: %w", ErrInvalid, w.name, err)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return "", fmt.Errorf("%w: workflow %s: %w", ErrInvalid, w.name, err)
	}
	return b.String() + "\n", nil
}

// Apply creates a version of the definition, unless the newest version is equal. Options: [IfRevision].
func (w *Workflow) Apply(ctx context.Context, c *Client, opts ...CallOption) (api.Applied, error) {
	src, err := w.Source()
	if err != nil {
		return api.Applied{}, err
	}
	return c.Apply(ctx, w.namespace+"/"+w.name, api.ApplyRequest{Source: src}, opts...)
}

// Start starts a run of the definition that was applied last. params encodes to a JSON object, or is nil.
// Options: [Key], [Wait].
func (w *Workflow) Start(ctx context.Context, c *Client, params any, opts ...CallOption) (api.Run, error) {
	req := api.RunRequest{Workflow: w.namespace + "/" + w.name}
	if params != nil {
		raw, err := json.Marshal(params)
		if err == nil {
			err = json.Unmarshal(raw, &req.Params)
		}
		if err != nil {
			return api.Run{}, fmt.Errorf("%w: params of %s: %w", ErrInvalid, w.name, err)
		}
	}
	run, _, err := c.Start(ctx, req, opts...)
	return run, err
}

// WaitRun waits for the end of a run. It continues while no server answers, until ctx ends.
func (c *Client) WaitRun(ctx context.Context, id string) (api.Run, error) {
	for {
		run, err := c.Run(ctx, id, Wait(waitMax))
		switch {
		case err == nil && run.Ended():
			return run, nil
		case err == nil:
		case ctx.Err() != nil:
			return run, err
		case !errors.Is(err, ErrUnreachable) && !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrBusy):
			return run, err
		default:
			session.Wait(ctx, session.PauseMax)
		}
	}
}

// Outputs decodes the outputs of a task of a run into a T. It returns [ErrNotFound] if the task has no
// outputs, because it has not succeeded.
func Outputs[T any](ctx context.Context, c *Client, run, task string) (out T, err error) {
	t, err := c.Task(ctx, run, task)
	if err != nil {
		return out, err
	}
	if t.State != stateSucceeded {
		return out, fmt.Errorf("%w: task %s has no outputs: it is %s", ErrNotFound, task, t.State)
	}
	if err := json.Unmarshal(t.Outputs, &out); err != nil {
		return out, fmt.Errorf("%w: the outputs of task %s: %w", ErrInvalid, task, err)
	}
	return out, nil
}

// entries is a JSON object whose keys keep their order.
type entries []entry

type entry struct {
	key   string
	value any
}

func (es *entries) set(key string, value any) {
	for i := range *es {
		if (*es)[i].key == key {
			(*es)[i].value = value
			return
		}
	}
	*es = append(*es, entry{key, value})
}

// MarshalJSON implements json.Marshaler.
func (es entries) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	b.WriteByte('{')
	for i, e := range es {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := enc.Encode(e.key); err != nil {
			return nil, err
		}
		b.WriteByte(':')
		if err := enc.Encode(e.value); err != nil {
			return nil, fmt.Errorf("%s: %w", e.key, err)
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}
