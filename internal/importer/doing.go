package importer

import (
	"cmp"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"

	"skein.dev/skein/internal/workflow"
)

// Each repeats a task for the items of a list. Either the file lists the items, or an expression gives the
// list.
type Each struct {
	Items    []any // texts, and mappings from texts to texts
	List     string
	Parallel int64 // bound on the concurrent instances; 0 is no bound
}

// Doing is the work of a task without a process. At most one of the fields is set. If one is set, the task
// has no Run.
type Doing struct {
	Call     *Call
	HTTP     *Request
	Wait     workflow.Duration
	Approval *Approval
	Other    *Other
}

// Other is a key of the workflow file that has no field in Doing, such as sql or dependent.
type Other struct {
	Key   string
	Value any // a value that a Map may hold
	// Same reports whether a task that was read back has this key with this value.
	Same func(is *workflow.Task) bool
}

// Call runs another workflow.
type Call struct {
	Workflow string
	With     []Var
}

// Request is an HTTP request.
type Request struct {
	Method   string // "" is GET
	URL      Text
	Headers  []Var
	Body     Text // nil is no body
	Timeout  workflow.Duration
	Status   []int // statuses that mean success; if empty, 200 to 299
	Contains string
	Answer   string // text or json; "" if the body is not kept
}

// Approval waits for the decision of a person.
type Approval struct {
	Message string
	Timeout workflow.Duration
	Form    []Field
}

// Field is a value that a person enters. It becomes an output of the approval.
type Field struct {
	Name        string // the name in the form that KeyName returns
	Type        string // "" means string, or enum if there are options
	Description string
	Default     string // "" if there is none
	Options     []string
	Optional    bool
}

// FieldName returns the name of the field for a value that a person enters. Every approval has the outputs
// approved_by and comment, so no field has these names.
func FieldName(name string) string {
	name = KeyName(name)
	if name == "comment" || name == "approved_by" {
		name += "_value"
	}
	return name
}

func (a *Approval) form() Map {
	m := Map{}
	for i := range a.Form {
		f, field := &a.Form[i], Map{}
		if f.Description != "" {
			field.Add("description", f.Description)
		}
		if len(f.Options) > 0 {
			field.Add("type", "enum")
			field.Add("options", f.Options)
		}
		switch {
		case f.Default != "" && f.Type != "": // a value of this type is not a text
			field.Add("default", Raw(f.Default))
		case f.Default != "":
			field.Add("default", f.Default)
		}
		if f.Optional {
			field.Add("required", Raw("false"))
		}
		if f.Type != "" || len(field) == 0 {
			field.Add("type", cmp.Or(f.Type, "string"))
		}
		m.Add(f.Name, field)
	}
	return m
}

func (d *Doing) none() bool {
	return d.Call == nil && d.HTTP == nil && d.Wait == 0 && d.Approval == nil && d.Other == nil
}

// file adds the keys for the workflow file to m.
func (d *Doing) file(m *Map) {
	switch {
	case d.Call != nil:
		m.Add("workflow", d.Call.Workflow)
		if len(d.Call.With) > 0 {
			m.Add("with", environment(d.Call.With))
		}
	case d.HTTP != nil:
		m.Add("http", d.HTTP.file())
	case d.Wait != 0:
		m.Add("wait", Raw(d.Wait.String()))
	case d.Other != nil:
		m.Add(d.Other.Key, d.Other.Value)
	case d.Approval != nil:
		a := Map{}
		if d.Approval.Message != "" {
			a.Add("message", d.Approval.Message)
		}
		if d.Approval.Timeout > 0 {
			a.Add("timeout", Raw(d.Approval.Timeout.String()))
		}
		if len(d.Approval.Form) > 0 {
			a.Add("form", d.Approval.form())
		}
		if len(a) == 0 {
			m.Add("approval", Raw("{}"))
		} else {
			m.Add("approval", a)
		}
	}
}

func (q *Request) file() Map {
	m := Map{}
	if q.Method != "" {
		m.Add("method", q.Method)
	}
	m.Add("url", q.URL.Template())
	if len(q.Headers) > 0 {
		m.Add("headers", environment(q.Headers))
	}
	if q.Body != nil {
		m.Add("body", q.Body.Template())
	}
	if q.Timeout > 0 {
		m.Add("timeout", Raw(q.Timeout.String()))
	}
	if len(q.Status) > 0 || q.Contains != "" {
		var e Map
		if len(q.Status) > 0 {
			raw, _ := json.Marshal(q.Status)
			e.Add("status", Raw(raw))
		}
		if q.Contains != "" {
			e.Add("body", q.Contains)
		}
		m.Add("expect", e)
	}
	if q.Answer != "" {
		m.Add("answer", q.Answer)
	}
	return m
}

// file returns the value of foreach for the workflow file.
func (e *Each) file() any {
	if e.List != "" {
		return "${{ " + e.List + " }}"
	}
	raw, _ := json.Marshal(e.Items) // texts and mappings of texts always have a JSON form
	return Raw(raw)
}

// same reports whether the task that was read back equals the task that was written.
func (d *Doing) same(is *workflow.Task) bool {
	switch {
	case d.Call != nil:
		return is.Call != nil && is.Call.Workflow == d.Call.Workflow && slices.EqualFunc(is.Call.With, d.Call.With, func(g workflow.Given, v Var) bool {
			return g.Name == v.Name && sameJSON(g.Value, v.Value.Template())
		})
	case d.HTTP != nil:
		q, want := is.HTTP, d.HTTP
		return q != nil && q.URL == want.URL.Template() && q.Method == want.Method && sameEnv(q.Headers, want.Headers) && q.Answer == want.Answer &&
			q.Contains == want.Contains && slices.Equal(q.Status, want.Status) && q.Timeout == want.Timeout &&
			(want.Body == nil) == (q.Body == nil) && (want.Body == nil || sameJSON(q.Body, want.Body.Template()))
	case d.Wait != 0:
		return is.Wait != nil && is.Wait.For == d.Wait
	case d.Other != nil:
		return d.Other.Same(is)
	case d.Approval != nil:
		return is.Approval != nil && is.Approval.Message == d.Approval.Message && slices.EqualFunc(is.Approval.Form, d.Approval.Form, func(is workflow.Field, f Field) bool {
			return is.Name == f.Name && slices.Equal(is.Options, f.Options) && is.Required != (f.Optional || f.Default != "")
		})
	}
	return !is.Logical() && is.HTTP == nil
}

func (e *Each) same(is *workflow.Task) bool {
	switch {
	case e == nil:
		return len(is.Foreach) == 0
	case len(is.Foreach) != 1 || int64(is.Parallel) != e.Parallel:
		return false
	case e.List != "":
		return sameJSON(is.Foreach[0].Value, "${{ "+e.List+" }}")
	}
	return sameJSON(is.Foreach[0].Value, e.Items)
}

// sameJSON reports whether a value has the given JSON form. Equal values have equal JSON.
func sameJSON(raw json.RawMessage, want any) bool {
	var is any
	if json.Unmarshal(raw, &is) != nil {
		return false
	}
	a, err := json.Marshal(is)
	b, _ := json.Marshal(want)
	return err == nil && string(a) == string(b)
}

// expressions returns the expressions of a task, except its if.
func (t *Task) expressions() []string {
	texts := []Text{t.Dir}
	for _, v := range t.Env {
		texts = append(texts, v.Value)
	}
	if t.Call != nil {
		for _, v := range t.Call.With {
			texts = append(texts, v.Value)
		}
	}
	if q := t.HTTP; q != nil {
		texts = append(texts, q.URL, q.Body)
		for _, h := range q.Headers {
			texts = append(texts, h.Value)
		}
	}
	var all []string
	for _, text := range texts {
		for _, p := range text {
			if p.Expr != "" {
				all = append(all, p.Expr)
			}
		}
	}
	if t.Each != nil && t.Each.List != "" {
		all = append(all, t.Each.List)
	}
	return all
}

// readsTask matches the references to tasks in an expression.
var readsTask = regexp.MustCompile(`\btasks(?:\.([A-Za-z0-9_]+)|\["([A-Za-z0-9_-]+)"\])`)

// needWhatIsRead adds every task that the task's expressions read to its needs, if the task has an if.
func (t *Task) needWhatIsRead(names map[string]bool) {
	if t.If == "" {
		return
	}
	for _, e := range t.expressions() {
		for _, m := range readsTask.FindAllStringSubmatch(e, -1) {
			if name := m[1] + m[2]; name != t.Name && names[name] {
				t.Need(name)
			}
		}
	}
}

// CheckTask returns the error that Skein would report for a task's request, resources or lists.
func CheckTask(t *Task) error {
	one := *t
	one.Name, one.Needs, one.If, one.Env, one.Dir, one.capture = "t", nil, "", nil, nil, nil
	if one.Doing.none() && one.Run.Argv == nil && one.Run.Lang == "" {
		one.Run = Run{Shell: "true"}
	}
	if q := one.HTTP; q != nil { // the needed tasks are known only in the whole workflow
		plain := *q
		plain.URL, plain.Headers, plain.Body = blanked(q.URL), slices.Clone(q.Headers), blanked(q.Body)
		for i := range plain.Headers {
			plain.Headers[i].Value = blanked(plain.Headers[i].Value)
		}
		one.HTTP = &plain
	}
	if c := one.Call; c != nil {
		plain := Call{Workflow: c.Workflow, With: slices.Clone(c.With)}
		for i := range plain.With {
			plain.With[i].Value = blanked(plain.With[i].Value)
		}
		one.Call = &plain
	}
	if e := one.Each; e != nil && e.List != "" {
		one.Each = &Each{Items: []any{"x"}, Parallel: e.Parallel}
	}
	d := Draft{Name: "t", Description: "t", Tasks: []*Task{&one}}
	if _, err := d.render("", ""); err != nil {
		return errors.New("the converted task would be invalid: " + strings.ReplaceAll(err.Error(), "tasks.t.", ""))
	}
	return nil
}

// blanked replaces each expression of a text with one that is valid anywhere.
func blanked(t Text) Text {
	all := slices.Clone(t)
	for i := range all {
		if all[i].Expr != "" {
			all[i].Expr = "run.id"
		}
	}
	return all
}
