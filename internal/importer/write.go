package importer

import (
	"fmt"
	"strconv"
	"strings"
)

// Map is a mapping that keeps the order of its entries. A value is a Raw, a text, a list of texts, a Map or
// a list of Maps.
type Map []Pair

// Pair is an entry of a Map.
type Pair struct {
	Key   string
	Value any
}

// Raw is written without quotes: a number, a boolean, or an expression that has its own quotes.
type Raw string

// Add adds an entry.
func (m *Map) Add(key string, value any) { *m = append(*m, Pair{key, value}) }

// writer writes YAML.
type writer struct {
	b    strings.Builder
	text func(text string, indent int) string
}

func (w *writer) mapping(m Map, indent int) {
	pad := strings.Repeat(" ", indent)
	for _, p := range m {
		w.b.WriteString(pad + Word(p.Key) + ":")
		w.value(p.Value, indent+2)
	}
}

// value writes the value after a colon, and the end of the line.
func (w *writer) value(v any, indent int) {
	pad := strings.Repeat(" ", indent)
	switch v := v.(type) {
	case Raw:
		w.b.WriteString(" " + string(v) + "\n")
	case string:
		w.b.WriteString(" " + w.text(v, indent) + "\n")
	case []string:
		w.b.WriteByte('\n')
		for _, item := range v {
			w.b.WriteString(pad + "- " + w.text(item, indent+2) + "\n")
		}
	case Map:
		w.b.WriteByte('\n')
		w.mapping(v, indent)
	case []Map:
		w.b.WriteByte('\n')
		for _, item := range v {
			inner := &writer{text: w.text}
			inner.mapping(item, indent+2)
			w.b.WriteString(pad + "- " + strings.TrimPrefix(inner.b.String(), pad+"  "))
		}
	}
}

// render writes the file and reads it back. It first writes texts without quotes where a person would. If the
// file then reads back differently, render puts every text into quotes.
func (d *Draft) render(head, namespace string) (string, error) {
	var why error
	for _, text := range []func(string, int) string{Scalar, func(s string, _ int) string { return DoubleQuoted(s) }} {
		w := &writer{text: text}
		w.b.WriteString(head)
		w.mapping(d.file(namespace), 0)
		if why = d.same(w.b.String()); why == nil {
			return w.b.String(), nil
		}
	}
	return "", why
}

func (d *Draft) file(namespace string) Map {
	m := Map{{"name", d.Name}}
	if namespace != "" && namespace != "default" {
		m.Add("namespace", namespace)
	}
	m.Add("description", d.Description)
	if len(d.Params) > 0 {
		var params Map
		for _, p := range d.Params {
			params.Add(p.Name, p.file())
		}
		m.Add("params", params)
	}
	if len(d.Triggers) > 0 {
		m.Add("triggers", d.Triggers)
	}
	m = append(m, d.Settings...)
	if len(d.Env) > 0 {
		m.Add("env", environment(d.Env))
	}
	var tasks Map
	for _, t := range d.Tasks {
		tasks.Add(t.Name, t.file())
	}
	m.Add("tasks", tasks)
	return m
}

func (p *Param) file() any {
	kind := p.Type
	if kind == "" {
		kind = "string"
	}
	m := Map{{"type", Raw(kind)}}
	switch {
	case p.Expr != nil:
		m.Add("default", p.Expr.Template())
	case p.Default == nil:
	case kind == "string":
		m.Add("default", Literal(*p.Default))
	default:
		m.Add("default", Raw(*p.Default))
	}
	if len(p.Enum) > 0 {
		m.Add("enum", p.Enum)
	}
	if p.Description != "" {
		m.Add("description", p.Description)
	}
	return m
}

// Environment returns variables as a mapping for a workflow file.
func Environment(env []Var) Map { return environment(env) }

func environment(env []Var) Map {
	var m Map
	for _, v := range env {
		m.Add(v.Name, v.Value.Template())
	}
	return m
}

func (t *Task) file() Map {
	var m Map
	if t.Description != "" {
		m.Add("description", t.Description)
	}
	if len(t.Needs) > 0 {
		m.Add("needs", t.Needs)
	}
	if t.If != "" {
		m.Add("if", t.If)
	}
	if t.Each != nil {
		m.Add("foreach", t.Each.file())
		if t.Each.Parallel > 0 {
			m.Add("parallel", Raw(strconv.FormatInt(t.Each.Parallel, 10)))
		}
	}
	t.Doing.file(&m)
	switch {
	case !t.Doing.none():
	case t.Run.Argv != nil:
		m.Add("run", t.Run.Argv)
	case t.Run.Lang != "":
		m.Add("run", Map{{t.Run.Lang, t.Run.Code}})
	default:
		m.Add("run", t.Run.Shell)
	}
	if len(t.Env) > 0 {
		m.Add("env", environment(t.Env))
	}
	if len(t.Dir) > 0 {
		m.Add("dir", t.Dir.Template())
	}
	if len(t.Outputs) > 0 && (t.Doing.none() || t.Call != nil) {
		var outputs Map
		for _, name := range t.Outputs {
			kind := Raw("string")
			if t.lists[name] {
				kind = "json"
			}
			outputs.Add(name, kind)
		}
		m.Add("outputs", outputs)
	}
	if len(t.Artifacts) > 0 {
		m.Add("artifacts", t.Artifacts)
	}
	if len(t.Inputs) > 0 {
		var inputs Map
		for _, in := range t.Inputs {
			inputs.Add(in.To, in.Task+"/"+in.Name)
		}
		m.Add("inputs", inputs)
	}
	return append(m, t.Settings...)
}

// head returns the comment at the top of a file.
func head(file string, line int, outcome Outcome, notes []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s:%d, %s\n", file, line, outcome)
	for _, note := range notes {
		b.WriteString("# - " + OneLine(note) + "\n")
	}
	return b.String()
}
