package workflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"skein.dev/skein/internal/dag"
)

// The actions of tasks that no worker runs. A task has at most one of Wait, Approval, Switch, Call and
// Dependent. If it has one of them, it has no Run.

// Wait waits for a duration, until an instant, until a condition holds, or for an event.
type Wait struct {
	For       Duration `json:"for,omitempty"`
	Until     string   `json:"until,omitempty"`     // an instant, or a text with ${{ }} for one
	Condition string   `json:"condition,omitempty"` // CEL, without ${{ }}
	// Every is the pause between two checks of the condition; 0 means 10 s.
	Every Duration `json:"every,omitempty"`
	Event *Awaited `json:"event,omitempty"`
}

// Approval waits for a person.
type Approval struct {
	By      []string `json:"by,omitempty"` // users; empty means any user
	Message string   `json:"message,omitempty"`
	Form    []Field  `json:"form,omitempty"` // fields that a person fills in to approve
	// FourEyes says that the person who started the run may not decide. See MarshalJSON for its stored form.
	FourEyes bool `json:"-"`
}

// approvalFields is an Approval without its methods.
type approvalFields Approval

// approvalRow is the stored form of an approval.
type approvalRow struct {
	approvalFields
	FourEyes *fourEyes `json:"four_eyes,omitempty"`
}

// fourEyes is the stored form of FourEyes, with the real By.
type fourEyes struct {
	By []string `json:"by,omitempty"`
}

// onlyNewer is the By of a stored approval with FourEyes. No user or service has such a name. A node of an
// earlier version reads only By, so it refuses every decision.
var onlyNewer = []string{"a caller of a node that knows four_eyes"}

// MarshalJSON returns the stored form.
func (a Approval) MarshalJSON() ([]byte, error) {
	row := approvalRow{approvalFields: approvalFields(a)}
	if a.FourEyes {
		row.FourEyes, row.By = &fourEyes{a.By}, onlyNewer
	}
	return marshal(row)
}

// UnmarshalJSON reads the stored form.
func (a *Approval) UnmarshalJSON(data []byte) error {
	row := approvalRow{}
	if err := json.Unmarshal(data, &row); err != nil {
		return err
	}
	if *a = Approval(row.approvalFields); row.FourEyes != nil {
		a.FourEyes, a.By = true, row.FourEyes.By
	}
	return nil
}

// Protected reports whether not every caller with the right to approve may decide.
func (a *Approval) Protected() bool { return a.FourEyes || len(a.By) > 0 }

// Branch is one choice of a switch.
type Branch struct {
	If   string `json:"if,omitempty"` // CEL, without ${{ }}; "" means else
	Then string `json:"then"`
}

// Call starts another workflow and waits for its end.
type Call struct {
	Workflow string  `json:"workflow"` // NAME in the same namespace, or NAMESPACE/NAME
	With     []Given `json:"with,omitempty"`
}

// Given is a parameter of a call, or a part of the input of a kind. A text in it may contain ${{ }}.
type Given struct {
	Name  string          `json:"k"`
	Value json.RawMessage `json:"v"`
}

// Outputs that logical tasks always have.
var (
	approvalOutputs = []Output{{Name: "approved_by", Type: String}, {Name: "comment", Type: String}}
	switchOutputs   = []Output{{Name: "branch", Type: String}}
)

// Logical reports whether no worker runs the task.
func (t *Task) Logical() bool {
	return t.Wait != nil || t.Approval != nil || len(t.Switch) > 0 || t.Call != nil || t.Made != nil || t.Dependent != nil || t.Notify != nil
}

// logicalPolicy returns the policy of a logical task. It ignores the defaults, because they are about
// attempts of workers.
func (t *Task) logicalPolicy() dag.Policy {
	p := dag.Policy{WarnOnTimeout: t.OnTimeout == "warn"}
	if t.Timeout != nil {
		p.Timeout = time.Duration(*t.Timeout)
	}
	p.Priority, _ = dag.ParsePriority(t.Priority)
	return p
}

// logic returns the rule of a logical task in the graph, or nil if a worker runs the task.
func (t *Task) logic(conditions *Compiler) (*dag.Logic, error) {
	switch {
	case t.Dependent != nil, t.Notify != nil:
		return &dag.Logic{Kind: dag.Dependent}, nil
	case t.Wait != nil && t.Wait.Event != nil:
		return &dag.Logic{Kind: dag.Dependent, For: lookEvery}, nil
	case t.Wait != nil && t.Wait.Condition != "":
		return &dag.Logic{Kind: dag.Dependent, For: t.Wait.looks()}, nil
	case t.Wait != nil:
		return &dag.Logic{Kind: dag.Wait, For: time.Duration(t.Wait.For)}, nil
	case t.Approval != nil:
		return &dag.Logic{Kind: dag.Approval}, nil
	case t.Call != nil, t.Made != nil:
		return &dag.Logic{Kind: dag.Call}, nil
	case len(t.Switch) == 0:
		return nil, nil
	}
	l := &dag.Logic{Kind: dag.Switch}
	for _, b := range t.Switch {
		branch := dag.Branch{Then: b.Then}
		if b.If != "" {
			c, err := conditions.Condition(b.If)
			if err != nil {
				return nil, fmt.Errorf("the switch of task %q: %w", t.Name, err)
			}
			branch.If = c
		}
		l.Branches = append(l.Branches, branch)
	}
	return l, nil
}

// Until evaluates the instant until which a wait waits.
func (w *Workflow) Until(task int, in Inputs) (time.Time, error) {
	t := &w.Tasks[task]
	if t.Wait == nil {
		return time.Time{}, fmt.Errorf("task %s does not wait for an instant", t.Name)
	}
	from := w.valuesOf(&in)
	text, err := w.text(t.Wait.Until, inTask, &from)
	if err != nil {
		return time.Time{}, fmt.Errorf("wait until: %w", err)
	}
	at, err := parseUntil(text)
	if err != nil {
		return at, fmt.Errorf("wait until %w", err)
	}
	return at, nil
}

func parseUntil(text string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, strings.TrimSpace(text))
	if err != nil || at.Year() < 1970 || at.Year() > 9999 {
		return at, fmt.Errorf("%s is not an instant such as 2027-01-01T06:00:00Z", quoteShort(text))
	}
	return at, nil
}

func (w *Workflow) valuesOf(in *Inputs) values {
	return values{secret: in.Secret, unseal: in.Unseal, sealed: w.isSecret, masked: w.MaskParams, params: in.Params, outputs: in.taskValues, at: in.TriggerTime,
		run: map[string]any{"id": in.RunID, "workflow": w.Name, "namespace": w.Namespace, "attempt": int64(in.Attempt), "version": int64(in.Version)}}
}

// isSecret reports whether a parameter is of type secret.
func (w *Workflow) isSecret(name string) bool {
	return slices.ContainsFunc(w.Params, func(p Param) bool { return p.Name == name && p.Type == Secret })
}

// CallParams evaluates the parameters that a call passes to the called workflow.
func (w *Workflow) CallParams(task int, in Inputs, child *Workflow) (json.RawMessage, error) {
	t := &w.Tasks[task]
	if t.Call == nil {
		return nil, fmt.Errorf("task %s calls no workflow", t.Name)
	}
	from := w.valuesOf(&in)
	from.item = in.Item
	known := make(map[string]any, len(t.Call.With))
	var errs ValueErrors
	for _, g := range t.Call.With {
		i := slices.IndexFunc(child.Params, func(p Param) bool { return p.Name == g.Name })
		if i < 0 {
			known[g.Name] = nil // CheckParams will report that there is no such parameter
			continue
		}
		v, err := w.givenTo(&child.Params[i], g.Value, t.foreachScope(), &from)
		if err != nil {
			errs = append(errs, ValueError{Name: g.Name, Message: "parameter " + g.Name + " " + err.Error(), Hint: child.Params[i].Description})
			continue
		}
		known[g.Name] = v
	}
	if len(errs) > 0 {
		return nil, errs
	}
	return child.CheckParams(known, in.TriggerTime)
}

// givenTo returns a value of a call or of a trigger in the form for CheckParams.
func (w *Workflow) givenTo(p *Param, raw json.RawMessage, in scope, from *values) (any, error) {
	text, isText := jsonString(raw)
	if !isText || !hasTemplate(text) || p.Type == Secret {
		return literal(p, raw)
	}
	t, err := w.exprs.get(text, in)
	if err != nil {
		return nil, fmt.Errorf("cannot be evaluated: %w", err)
	}
	var v any
	if p.Type == String {
		v, err = t.render(from.lookup)
	} else {
		v, err = t.value(from.lookup)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot be evaluated: %w", err)
	}
	if p.Type == JSON {
		exact, err := marshal(v)
		return exactJSON{exact}, err
	}
	return v, nil
}

// MergeOutputs puts the outputs of several tasks into one object. If two tasks have an output with the same
// name, the later one is used.
func MergeOutputs(all [][]byte) ([]byte, error) {
	merged := map[string]json.RawMessage{}
	for _, raw := range all {
		m, err := members(raw)
		if err != nil {
			return nil, errors.New("the outputs of a task are not a JSON object")
		}
		for k, v := range m {
			merged[k] = v
		}
	}
	return marshal(merged)
}

// templates calls add for each text of a task that may contain ${{ }}, except for those of env, dir and
// foreach.
func (t *Task) templates(add func(text string)) {
	if t.HTTP != nil {
		t.HTTP.templates(add)
	}
	if t.Wait != nil {
		add(t.Wait.Until)
	}
	if t.Call != nil {
		for _, g := range t.Call.With {
			if text, ok := jsonString(g.Value); ok {
				add(text)
			}
		}
	}
	if t.Made != nil {
		add(foreachText(t.Made.From))
	}
	if t.Notify != nil {
		add(t.Notify.Text)
	}
	for _, g := range t.With {
		inputTexts(g.Value, add)
	}
}

// Calls returns the workflows that the tasks call, as NAMESPACE/NAME. Each workflow is returned once.
func (w *Workflow) Calls() []string {
	var all []string
	for i := range w.Tasks {
		if c := w.Tasks[i].Call; c != nil {
			all = append(all, w.Target(c))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Target returns the workflow of a call, as NAMESPACE/NAME.
func (w *Workflow) Target(c *Call) string {
	if strings.Contains(c.Workflow, "/") {
		return c.Workflow
	}
	return w.Namespace + "/" + c.Workflow
}

// OutputTypes returns the types of a task's outputs. promised reports whether the author declares the
// outputs. The outputs of an approval or a request are also known, but are not declared by the author.
func (t *Task) OutputTypes() (types map[string]string, promised bool) {
	types = make(map[string]string, len(t.Outputs))
	for _, out := range t.Outputs {
		types[out.Name] = string(out.Type)
	}
	return types, t.HTTP == nil && !t.decidesOutputs() && (!t.Logical() || t.Call != nil || t.Made != nil)
}
