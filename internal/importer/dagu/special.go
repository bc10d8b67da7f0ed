package dagu

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"skein.dev/skein/internal/importer"
	"skein.dev/skein/internal/workflow"
)

// child returns the DAG that a step runs, and its parameters. target is nil if the step runs no DAG.
func child(f *importer.Fields) (target *workflow.Value, params *workflow.Value) {
	with := f.Peek("with", "config")
	kind := executor(f.Again())
	target = f.Take("call")
	params = f.Peek("params")
	if kind == "dag.run" {
		f.Take("with", "config")
		target = with.Get("dag")
		if p := with.Get("params"); p != nil {
			params = p
		}
		if target == nil {
			target = &workflow.Value{Kind: workflow.ScalarValue}
		}
	}
	run := f.Peek("run")
	old := kind == "dag" || kind == "subworkflow"
	if target == nil && run != nil && run.Kind == workflow.ScalarValue && (old || params != nil || strings.HasSuffix(run.Text, ".yaml")) {
		target = f.Take("run") // the old form, in which run names a DAG
	}
	if target == nil && old {
		if target = f.Take("command"); target == nil {
			target = &workflow.Value{Kind: workflow.ScalarValue}
		}
	}
	if target != nil {
		f.Take("params")
		executor(f)
	}
	return target, params
}

// call converts a step that runs another DAG.
func (d *dag) call(s *step, f *importer.Fields) {
	t := s.task
	target, params := child(f)
	file, known := d.valueOr(target.Str(), s, func(string) {}).Const()
	base := file[strings.LastIndexByte(file, '/')+1:]
	name := importer.WorkflowName(strings.TrimSuffix(strings.TrimSuffix(base, ".yaml"), ".yml"))
	switch {
	case !known || strings.TrimSpace(base) == "":
		t.Drop("the name of the DAG is missing, or known only at run time", "write workflow: NAME")
		return
	case name == importer.WorkflowName(d.name):
		t.Drop("the task runs its own DAG, but a graph has no loops", "loop in a script")
		return
	}
	t.Call = &importer.Call{Workflow: name, With: d.given(s, params)}
	sort.SliceStable(t.Call.With, func(i, j int) bool { return t.Call.With[i].Name < t.Call.With[j].Name })
	t.Call.With = slices.CompactFunc(t.Call.With, func(a, b importer.Var) bool { return a.Name == b.Name })
	if err := importer.CheckTask(t); err != nil {
		t.Drop(err.Error(), "write the task by hand")
		return
	}
	if !d.inFile(name) {
		t.Approximate("the task calls the workflow " + name + ": import that DAG too")
	}
}

// given returns the parameter values that a step passes to the DAG that it runs.
func (d *dag) given(s *step, params *workflow.Value) []importer.Var {
	var all []importer.Var
	fail := func(missing string) { s.task.Drop(missing, "pass the value in another way") }
	give := func(key, text string) {
		all = append(all, importer.Var{Name: importer.KeyName(key), Value: d.valueOr(text, s, fail)})
	}
	place := 0
	positional := func(text string) {
		place++
		give(string(rune('0'+min(place, 9))), strings.Trim(text, `"'`))
	}
	pair := func(text string) {
		if key, value, ok := strings.Cut(text, "="); ok && simpleName.MatchString(key) {
			give(key, strings.Trim(value, `"'`))
		} else {
			positional(text)
		}
	}
	var read func(v *workflow.Value)
	read = func(v *workflow.Value) {
		switch {
		case v.Null():
		case v.Kind == workflow.ScalarValue:
			for _, w := range splitLine(v.Text) {
				pair(w)
			}
		case v.Kind == workflow.ListValue:
			for _, e := range v.Vals {
				if e.Kind == workflow.ScalarValue {
					pair(e.Str())
				} else {
					read(e)
				}
			}
		default:
			for i, k := range v.Keys {
				give(k.Text, v.Vals[i].Str())
			}
		}
	}
	if s.hands && params == nil {
		var first any
		if len(s.items) > 0 {
			first = s.items[0]
		}
		if m, ok := first.(map[string]string); ok {
			for _, key := range slices.Sorted(maps.Keys(m)) {
				give(key, "${ITEM."+key+"}")
			}
		} else {
			positional("${ITEM}")
		}
	}
	read(params)
	return all
}

// inFile reports whether the file holds a DAG of that name.
func (d *dag) inFile(name string) bool {
	return slices.ContainsFunc(d.conv.Documents, func(o workflow.Document) bool {
		return o.Value.Kind == workflow.MapValue && importer.WorkflowName(o.Value.Get("name").Str()) == name && o.Value.Get("name") != nil
	})
}

// methods lists the allowed methods of a request.
var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}

// isRequest reports whether a step sends an HTTP request.
func isRequest(f *importer.Fields) bool {
	kind := executor(f.Again())
	return kind == "http" || kind == "http.request"
}

// request converts a step that sends an HTTP request.
func (d *dag) request(s *step, with *workflow.Value) {
	f, t, in := s.fields, s.task, importer.NewFields(with)
	words := importer.Texts(f.Take("command"))
	if len(words) == 1 {
		words = strings.Fields(words[0])
	}
	method, address := in.Take("method").Str(), in.Take("url").Str()
	if len(words) > 0 && method == "" {
		method, words = words[0], words[1:]
	}
	words = append(words, importer.Texts(f.Take("args"))...)
	if len(words) > 0 && address == "" {
		address = words[0]
	}
	fail := func(missing string) { t.Drop(missing, "pass the value in another way") }
	q := &importer.Request{Method: strings.ToUpper(method), URL: d.valueOr(address, s, fail)}
	t.HTTP = q
	if q.Method == "GET" {
		q.Method = ""
	}
	body := in.Take("body")
	if script := f.Take("script"); body == nil {
		body = script
	}
	if body != nil {
		q.Body = d.valueOr(body.Str(), s, fail)
	}
	if hs := in.Take("headers"); hs != nil {
		for i, k := range hs.Keys {
			q.Headers = append(q.Headers, importer.Var{Name: k.Text, Value: d.valueOr(hs.Vals[i].Str(), s, fail)})
		}
	}
	d.query(s, q, in.Take("query"))
	if n, ok := importer.Int(in.Take("timeout")); ok && n > 0 {
		q.Timeout, _ = workflow.ParseDuration(string(importer.Seconds(n)))
	}
	silent := importer.IsTrue(in.Take("silent"))
	if s.output != "" {
		q.Answer = "text"
		t.Outputs = []string{"body"}
		if !silent || in.Take("format", "json") != nil {
			t.Approximate("the output is only the body of the answer; status and headers are separate outputs")
		}
	}
	in.Take("debug")
	in.Rest(map[string]string{
		"skiptlsverify": "certificates are always verified; set SSL_CERT_FILE of the worker", "form": "http tasks send no multipart forms; call curl in a script",
		"files": "http tasks send no files; call curl in a script", "output": "http tasks do not write the answer to a file; call curl in a script",
		"format": "the log has the status, and the outputs have the answer", "json": "the log has the status, and the outputs have the answer",
	}, func(key *workflow.Value, why string) { d.Drop(key, "http."+why, "") })
	t.Dir = nil
	switch {
	case with.Get("form") != nil || with.Get("files") != nil:
		t.Drop("http: http tasks send no multipart forms and no files", "call curl in a script")
	case !slices.Contains(methods, q.Method) && q.Method != "" || address == "":
		t.Drop("http: the method and the address must be literal", "write the task by hand")
	default:
		if err := importer.CheckTask(t); err != nil {
			t.Drop(err.Error(), "write the task by hand")
		}
	}
}

// query adds parameters to the query of an address.
func (d *dag) query(s *step, q *importer.Request, v *workflow.Value) {
	if v.Null() {
		return
	}
	sign := "?"
	if text, _ := q.URL.Const(); strings.Contains(text, "?") {
		sign = "&"
	}
	for i, k := range v.Keys {
		value, known := d.valueOr(v.Vals[i].Str(), s, func(string) {}).Const()
		if !known {
			s.task.Drop("http: a parameter of the address is known only at run time, and would need escaping", "compute the address in an earlier task")
			return
		}
		q.URL = append(q.URL, importer.Part{Lit: sign + escaped(k.Text) + "=" + escaped(value)})
		sign = "&"
	}
}

// escaped returns a text escaped for the query of an address.
func escaped(text string) string {
	var b strings.Builder
	for i := range len(text) {
		switch c := text[i]; {
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// asked returns the names of the values that a person enters for a step.
func asked(f *importer.Fields) (names []string) {
	v := f.Peek("approval")
	if kind := executor(f.Again()); kind == "human.task" || kind == "hitl" {
		v = f.Peek("with", "config")
		if v == nil {
			v = f.Peek("executor").Get("config")
		}
	}
	for _, name := range importer.Texts(v.Get("input")) {
		if simpleName.MatchString(name) {
			names = append(names, name)
		}
	}
	if _, ok := formFields(v.Get("form")); ok {
		for _, k := range v.Get("form").Get("properties").Keys {
			names = append(names, k.Text)
		}
	}
	return names
}

// formFields converts the form of an approval, which is a schema of an object. ok is false if it has
// properties that no field can have.
func formFields(v *workflow.Value) (fields []importer.Field, ok bool) {
	all := v.Get("properties")
	if all == nil || all.Kind != workflow.MapValue {
		return nil, false
	}
	required := importer.Texts(v.Get("required"))
	for i, k := range all.Keys {
		p, kind := all.Vals[i], all.Vals[i].Get("type").Str()
		if !simpleName.MatchString(k.Text) || !slices.Contains([]string{"", "string", "integer", "number", "boolean"}, kind) {
			return nil, false
		}
		f := importer.Field{Name: importer.FieldName(k.Text), Description: p.Get("description").Str(), Default: p.Get("default").Str(), Optional: !slices.Contains(required, k.Text)}
		switch options := importer.Texts(p.Get("enum")); {
		case kind != "" && kind != "string":
			f.Type = kind
		case len(options) > 0:
			f.Options = options
		}
		fields = append(fields, f)
	}
	return fields, len(fields) > 0
}

// answer returns the task and the output with a value that a person has entered for a step.
func (s *step) answer(name string) importer.Text {
	task := s.task.Name
	if !s.asksPerson() {
		task += gateSuffix
	}
	return importer.Expr(importer.TaskOutput(task, importer.FieldName(name)))
}

// gateSuffix ends the name of the task that waits for the approval of a step.
const gateSuffix = "-approval"

// approval converts a step that waits for a person.
func (d *dag) approval(t *importer.Task, v *workflow.Value, fail func(at *workflow.Value)) {
	f := importer.NewFields(v)
	prompt := f.Take("prompt")
	if strings.Contains(prompt.Str(), "${") {
		d.Approximate(prompt, "prompt: Skein shows references in it without replacing them")
	}
	t.Approval = &importer.Approval{Message: strings.ReplaceAll(prompt.Str(), "${{", "$ {{")}
	required := importer.Texts(f.Take("required"))
	for _, name := range importer.Texts(f.Take("input")) {
		if simpleName.MatchString(name) {
			t.Approval.Form = append(t.Approval.Form, importer.Field{Name: importer.FieldName(name), Optional: !slices.Contains(required, name)})
		}
	}
	if fields, ok := formFields(f.Peek("form")); ok {
		f.Take("form")
		t.Approval.Form = append(t.Approval.Form, fields...)
	}
	for _, key := range []string{"form", "rewindTo"} {
		if in := f.Take(key); in != nil && len(in.Vals)+len(in.Text) > 0 {
			fail(in)
		}
	}
	f.Rest(nil, func(key *workflow.Value, why string) { d.Drop(key, "approval."+why, "") })
}

// gate adds the task that waits for the approval of a step. Tasks that need the step also need this task.
func (d *dag) gate(s *step, v *workflow.Value) {
	t := d.Task(v, s.task.Name+gateSuffix)
	t.Need(s.task.Name)
	d.approval(t, v, func(at *workflow.Value) {
		d.Drop(at, "approval: the form of Dagu's page is not converted, and a rejected task fails and does not run again", "write form: {NAME: {…}}; to run the task again, use skein run recover --from")
	})
	s.gate = t
}

// gates makes every task that needs a step also need the step's approval task.
func (d *dag) gates() {
	for _, s := range d.order {
		if s.gate == nil {
			continue
		}
		for _, t := range d.Tasks {
			if t != s.gate && slices.Contains(t.Needs, s.task.Name) {
				t.Need(s.gate.Name)
			}
		}
	}
}
