package workflow

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"skein.dev/skein/internal/dag"

	"github.com/google/cel-go/common/types"
	celref "github.com/google/cel-go/common/types/ref"
)

// Inputs are the values that expressions can read when an attempt is dispatched.
type Inputs struct {
	RunID       string
	Attempt     int
	Version     int             // version of the workflow
	Params      json.RawMessage // the parameters, as CheckParams has returned them
	TriggerTime time.Time
	// Outputs returns a task's outputs, a JSON object or nil, and its state. Resolve calls it only for the
	// tasks that ReadsOutputs returns.
	Outputs func(task string) (json.RawMessage, dag.TaskState)
	Item    json.RawMessage // the item of an instance of foreach
	Now     time.Time       // the value of now in the condition of a wait
	// Secret returns the value of a secret. It is called only where expressions may read secrets.
	Secret func(name string) (string, error)
	// Process reports whether a task of a kind runs as a process, which has an environment and a folder.
	Process bool
	// Unseal returns the value of a parameter of type secret. It is called only where expressions may read
	// secrets.
	Unseal func(name, sealed string) (string, error)
}

// Resolved is the work of an attempt, after all expressions were evaluated.
type Resolved struct {
	Run Run
	Dir string // the working folder as it is written; "" means the default
	Env []KV   // the variables of the workflow and the task, in the order of the file; each name occurs once
	// Request is the request to send instead of Run, or nil if there is none.
	Request *Sent
	// Input is the input of a kind, a JSON object, or nil if the task has no kind.
	Input json.RawMessage
}

// Resolve evaluates the expressions of a task for an attempt. An error names the value that cannot be
// evaluated, and fails the attempt.
func (w *Workflow) Resolve(task int, in Inputs) (Resolved, error) {
	t := &w.Tasks[task]
	from := w.valuesOf(&in)
	from.item = in.Item
	out := Resolved{Run: t.Run}
	var err error
	switch {
	case t.Kind != "":
		if out.Input, err = w.input(t, &from); err != nil || !in.Process {
			return out, err
		}
	case t.HTTP != nil:
		out.Request, err = w.sent(t, &from)
		return out, err
	}
	if out.Dir, err = w.text(t.Dir, t.foreachScope(), &from); err != nil {
		return Resolved{}, fmt.Errorf("dir: %w", err)
	}
	if out.Dir != "" && leavesFolder(out.Dir) {
		return Resolved{}, fmt.Errorf("dir %s leads out of the workflow's folder", quoteShort(out.Dir))
	}
	own := make(map[string]bool, len(t.Env))
	for _, kv := range t.Env {
		own[kv.Name] = true
	}
	for _, kv := range w.Env {
		if own[kv.Name] {
			continue
		}
		if kv.Value, err = w.text(kv.Value, inEnv|secretsToo, &from); err != nil {
			return Resolved{}, fmt.Errorf("env %s of the workflow: %w", kv.Name, err)
		}
		out.Env = append(out.Env, kv)
	}
	for _, kv := range t.Env {
		if kv.Value, err = w.text(kv.Value, t.foreachScope()|secretsToo, &from); err != nil {
			return Resolved{}, fmt.Errorf("env %s: %w", kv.Name, err)
		}
		out.Env = append(out.Env, kv)
	}
	if t.Boxed() {
		out.Input, err = withEnv(out.Input, out.Env)
		out.Env = nil
	}
	return out, err
}

func (in *Inputs) taskValues(name string) (dag.TaskState, []byte) {
	if in.Outputs == nil {
		return dag.Pending, nil
	}
	outputs, state := in.Outputs(name)
	return state, outputs
}

// text evaluates a text that may contain ${{ }}.
func (w *Workflow) text(text string, in scope, from *values) (string, error) {
	if !hasTemplate(text) {
		return text, nil
	}
	t, err := w.exprs.get(text, in)
	if err != nil {
		return "", err
	}
	return t.render(from.lookup)
}

// ReadsOutputs returns, sorted, the tasks whose outputs or states Resolve will need.
func (w *Workflow) ReadsOutputs(task int) []string {
	t := &w.Tasks[task]
	var names []string
	scope := t.foreachScope() | secretsToo
	add := func(text string) {
		if !hasTemplate(text) {
			return
		}
		compiled, err := w.exprs.get(text, scope)
		if err != nil { // Resolve will report it
			return
		}
		for _, r := range compiled.refs() {
			if r.readsTask() {
				names = append(names, r.task)
			}
		}
	}
	add(t.Dir)
	t.foreachTexts(add)
	t.templates(add)
	for _, kv := range t.Env {
		add(kv.Value)
	}
	if t.Wait != nil && t.Wait.Condition != "" {
		scope = inWait
		add(foreachText(t.Wait.Condition))
	}
	if t.Wait != nil && t.Wait.Event != nil && t.Wait.Event.Filter != "" {
		scope = inWaitEvent
		add(foreachText(t.Wait.Event.Filter))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// values returns the values of references. It decodes a JSON object once, when one of its members is first
// needed.
type values struct {
	params  []byte
	outputs func(task string) (dag.TaskState, []byte)
	at      time.Time
	now     time.Time
	event   json.RawMessage
	item    json.RawMessage
	answer  json.RawMessage
	run     map[string]any
	secret  func(name string) (string, error)
	unseal  func(name, sealed string) (string, error)
	sealed  func(name string) bool // reports whether a parameter is of type secret
	masked  func(params json.RawMessage) json.RawMessage

	known map[string]map[string]json.RawMessage // values by task; those of the parameters are under ""
}

func (v *values) members(name string, raw func() []byte) (map[string]json.RawMessage, error) {
	if m, ok := v.known[name]; ok {
		return m, nil
	}
	m, err := members(raw())
	if err != nil {
		return nil, err
	}
	if v.known == nil {
		v.known = map[string]map[string]json.RawMessage{}
	}
	v.known[name] = m
	return m, nil
}

func (v *values) lookup(r ref) celref.Val {
	switch r.kind {
	case paramsRef:
		return v.allParams()
	case paramRef:
		return v.param(r)
	case stateRef:
		if r.has {
			return types.True
		}
		state, _ := v.outputs(r.task)
		return types.String(state.String())
	case outputsRef, outputRef:
		return v.output(r)
	case triggerRef:
		if r.has {
			return types.Bool(!v.at.IsZero())
		}
		return types.Timestamp{Time: v.at.UTC()}
	case nowRef:
		return types.Timestamp{Time: v.now.UTC()}
	case secretRef:
		return v.secretOf(r.key)
	case triggerEventRef:
		if r.has {
			return types.Bool(len(v.event) > 0)
		}
		return celValue(orNull(v.event))
	case eventRef:
		return v.eventPart(r)
	case itemRef:
		if r.has {
			return types.Bool(len(v.item) > 0)
		}
		return celValue(orNull(v.item))
	case answerRef:
		if r.has {
			return types.Bool(len(v.answer) > 0)
		}
		return celValue(orNull(v.answer))
	case runRef:
		if r.has {
			return types.True
		}
		return types.DefaultTypeAdapter.NativeToValue(v.run[r.key])
	}
	return types.NewErr("%s is not known here", r)
}

func (v *values) secretOf(name string) celref.Val {
	if v.secret == nil {
		return types.NewErr("secrets.%s is not known here", name)
	}
	value, err := v.secret(name)
	if err != nil {
		return types.NewErr("secrets.%s: %v", name, err)
	}
	return types.String(value)
}

func orNull(raw []byte) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return raw
}

func (v *values) eventPart(r ref) celref.Val {
	if r.key == "" {
		return celValue(orEmpty(v.event))
	}
	m, err := members(v.event)
	if err != nil {
		return types.NewErr("the event is not a JSON object: %v", err)
	}
	part, ok := m[r.key]
	if r.has {
		return types.Bool(ok)
	}
	return celValue(orNull(part))
}

func orEmpty(raw []byte) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("{}")
	}
	return raw
}

func (v *values) param(r ref) celref.Val {
	m, err := v.members("", func() []byte { return v.params })
	if err != nil {
		return types.NewErr("the parameters are not a JSON object: %v", err)
	}
	raw, ok := m[r.key]
	null := !ok || string(raw) == "null"
	switch {
	case r.has:
		return types.Bool(!null)
	case null:
		return types.NullValue
	case v.sealed != nil && v.sealed(r.key):
		return v.unsealed(r.key, raw)
	}
	return celValue(raw)
}

// unsealed returns the value of a parameter of type secret.
func (v *values) unsealed(name string, raw json.RawMessage) celref.Val {
	text, _ := jsonString(raw)
	if v.unseal == nil {
		return types.NewErr("params.%s is a secret, and not known here", name)
	}
	value, err := v.unseal(name, text)
	if err != nil {
		return types.NewErr("params.%s: %v", name, err)
	}
	return types.String(value)
}

func (v *values) output(r ref) celref.Val {
	state, raw := v.outputs(r.task)
	if r.kind == outputsRef {
		if r.has {
			return types.True
		}
		return celValue(orEmpty(raw))
	}
	m, err := v.members(r.task, func() []byte { return raw })
	if err != nil {
		return types.NewErr("the outputs of task %q are not a JSON object: %v", r.task, err)
	}
	value, ok := m[r.key]
	switch {
	case r.has:
		return types.Bool(ok)
	case !ok:
		return types.NewErr("task %q gave no output %q; it ended %s", r.task, r.key, state)
	}
	return celValue(value)
}
