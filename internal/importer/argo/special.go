package argo

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"skein.dev/skein/internal/importer"
	"skein.dev/skein/internal/workflow"
)

// duration reads a number of seconds, or a duration such as 2m.
func duration(v *workflow.Value) (workflow.Duration, bool) {
	text := strings.TrimSpace(v.Str())
	if _, err := strconv.Atoi(text); err == nil {
		text += "s"
	}
	n, err := workflow.ParseDuration(text)
	return n, err == nil && n > 0
}

// suspended converts a template that waits for a time or for a person.
func (d *sheet) suspended(c call, f *importer.Fields) *node {
	t, n := d.begin(c)
	t.Each = nil
	b := importer.NewFields(f.Take("suspend"))
	if v := b.Take("duration"); v == nil {
		t.Approval = &importer.Approval{Message: "go on?"}
		t.Approximate("the task waits for skein task approve RUN/" + t.Name + "; resume applies to whole runs only")
	} else if length, ok := duration(v); ok {
		t.Wait = length
	} else {
		t.Drop("suspend: "+strconv.Quote(importer.Clip(v.Str(), 40))+" is not a literal duration", "write wait: 10m")
	}
	b.Rest(reasons(), d.drop("suspend."))
	if v := f.Take("outputs"); v != nil {
		d.supplied(t, n, importer.NewFields(v), c.template.Get("inputs").Get("parameters"))
	}
	d.rest(c, f)
	return n
}

// supplied converts the values that a person enters while a template is suspended. The input parameter
// of the same name has their options, description and default.
func (d *sheet) supplied(t *importer.Task, n *node, f *importer.Fields, inputs *workflow.Value) {
	list := f.Take("parameters")
	f.Rest(reasons(), d.drop("outputs."))
	if list == nil {
		return
	}
	for _, p := range list.Vals {
		name, from := p.Get("name").Str(), p.Get("valueFrom")
		if t.Approval == nil || from.Get("supplied") == nil || name == "" {
			d.Drop(p, "outputs.parameters: the importer reads only values that a person enters (valueFrom.supplied), and only without a duration", "write key=value to $SKEIN_OUTPUT in a task")
			continue
		}
		field := importer.Field{Name: importer.FieldName(name), Default: from.Get("default").Str()}
		if inputs != nil {
			for _, in := range inputs.Vals {
				if in.Get("name").Str() == name {
					field.Description, field.Options = in.Get("description").Str(), importer.Texts(in.Get("enum"))
					for _, key := range []string{"value", "default"} {
						if value := in.Get(key).Str(); field.Default == "" && !strings.Contains(value, "{{") {
							field.Default = value
						}
					}
				}
			}
		}
		if len(field.Options) > 0 && !slices.Contains(field.Options, field.Default) {
			field.Default = ""
		}
		t.Approval.Form = append(t.Approval.Form, field)
		n.params[name] = importer.Expr(importer.TaskOutput(t.Name, field.Name))
	}
}

// methods lists the allowed methods of a request.
var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}

// request converts an HTTP template.
func (d *sheet) request(c call, s *scope, f *importer.Fields) *node {
	t, n := d.begin(c)
	b := importer.NewFields(f.Take("http"))
	q := &importer.Request{Method: strings.ToUpper(b.Take("method").Str())}
	t.HTTP = q
	if q.Method == "GET" {
		q.Method = ""
	}
	var err error
	text := func(v *workflow.Value) importer.Text {
		out, bad := s.value(v.Str())
		if bad != nil && err == nil {
			err = bad
		}
		return out
	}
	q.URL = text(b.Take("url"))
	if body := b.Take("body"); body != nil {
		q.Body = text(body)
	}
	if hs := b.Take("headers"); hs != nil {
		for _, h := range hs.Vals {
			if h.Get("value") == nil {
				d.Drop(h, "http: the value of the header "+importer.Clip(h.Get("name").Str(), 60)+" comes from elsewhere (valueFrom)", "use a parameter")
				continue
			}
			q.Headers = append(q.Headers, importer.Var{Name: h.Get("name").Str(), Value: text(h.Get("value"))})
		}
	}
	if v := b.Take("timeoutSeconds"); v != nil {
		q.Timeout, _ = duration(v)
	}
	if v := b.Take("successCondition"); v != nil && !expect(q, v.Str()) {
		d.Drop(v, "http: the importer does not understand successCondition, so any status from 200 to 299 is a success", "write expect: {status: …, body: …}")
	}
	b.Rest(map[string]string{"insecureskipverify": "certificates are always verified; set SSL_CERT_FILE of the worker", "bodyfrom": "the importer does not read the body from elsewhere; write body"}, d.drop("http."))
	d.policy(t, f)
	if d.readsResult(c) {
		q.Answer = "text"
		t.Outputs = []string{"body"}
		n.result = d.handsOn(t, "body")
		if t.Each == nil {
			value := importer.TaskOutput(t.Name, "body")
			d.lists[value] = func() (string, error) { q.Answer = "json"; return value, nil }
		}
	}
	d.rest(c, f)
	switch {
	case err != nil:
		t.Drop(err.Error(), "")
	case !slices.Contains(methods, q.Method) && q.Method != "":
		t.Drop("http: the method "+importer.Clip(q.Method, 20)+" is not known", "call curl in the task")
	default:
		if err = importer.CheckTask(t); err != nil {
			t.Drop(err.Error(), "write the task by hand")
		}
	}
	return n
}

var (
	statusIs = regexp.MustCompile(`^response\.statusCode\s*==\s*([1-5][0-9][0-9])$`)
	statusIn = regexp.MustCompile(`^response\.statusCode\s+in\s+\[([0-9,\s]+)\]$`)
	bodyHas  = regexp.MustCompile(`^response\.body\s+contains\s+"([^"\\]+)"$`)
)

// expect converts a successCondition to the expected status or the expected content of the body. It returns
// false if it cannot.
func expect(q *importer.Request, text string) bool {
	before := *q
	ok := expectAll(q, text)
	if !ok {
		*q = before
	}
	return ok
}

func expectAll(q *importer.Request, text string) bool {
	for part := range strings.SplitSeq(text, "&&") {
		part = strings.TrimSpace(part)
		if m := bodyHas.FindStringSubmatch(part); m != nil && q.Contains == "" {
			q.Contains = m[1]
		} else if m := statusIs.FindStringSubmatch(part); m != nil && q.Status == nil {
			code, _ := strconv.Atoi(m[1])
			q.Status = []int{code}
		} else if m := statusIn.FindStringSubmatch(part); m != nil && q.Status == nil {
			for code := range strings.SplitSeq(m[1], ",") {
				n, err := strconv.Atoi(strings.TrimSpace(code))
				if err != nil || n < 100 || n > 599 {
					return false
				}
				q.Status = append(q.Status, n)
			}
		} else {
			return false
		}
	}
	return true
}

// callsTemplate converts a workflow whose only content is a reference to a template in another file. The
// result calls the workflow that results from importing this template.
func (d *sheet) callsTemplate(v, ref *workflow.Value) {
	name := importer.WorkflowName(ref.Get("name").Str())
	d.arguments(v.Get("arguments"))
	t := d.Task(ref, name)
	t.Call = &importer.Call{Workflow: name}
	for _, p := range d.Params {
		t.Call.With = append(t.Call.With, importer.Var{Name: p.Name, Value: importer.Expr(importer.Member("params", p.Name))})
	}
	t.Approximate("the task calls the workflow " + name + ": import the template " + importer.Clip(ref.Get("name").Str(), 60) + " too, or put both into one file")
	f := importer.NewFields(v)
	for _, key := range []string{"workflowTemplateRef", "arguments", "entrypoint"} {
		f.Take(key)
	}
	if n, ok := importer.Int(f.Take("activeDeadlineSeconds")); ok && n > 0 {
		d.Settings.Add("timeout", importer.Seconds(n))
	}
	if v.Get("entrypoint") != nil {
		d.Drop(v.Get("entrypoint"), "entrypoint: a called workflow always runs as a whole", "")
	}
	d.paused(f.Take("suspend"))
	d.synchronize(f.Take("synchronization"))
	f.Rest(reasons(), d.drop("spec."))
}

// resource converts a template that changes an object of Kubernetes. It becomes a call if it creates a
// workflow from a template and waits for its end. Other templates are dropped.
func (d *sheet) resource(c call, s *scope, f *importer.Fields) *node {
	b := f.Take("resource")
	reason, remedy := "the task changes an object of Kubernetes", "call kubectl in the task"
	docs, faults := workflow.ReadYAML([]byte(b.Get("manifest").Str()), "")
	if b.Get("action").Str() != "create" || len(faults) > 0 || len(docs) != 1 || docs[0].Value.Get("kind").Str() != "Workflow" {
		return d.failed(c, reason, remedy)
	}
	spec := docs[0].Value.Get("spec")
	ref := spec.Get("workflowTemplateRef").Get("name").Str()
	switch {
	case ref == "":
		return d.failed(c, "the task creates a workflow whose templates are in the manifest", "move the manifest to a file of its own, import the file, and write workflow: NAME")
	case !strings.Contains(b.Get("successCondition").Str(), "Succeeded"):
		return d.failed(c, "the task creates a workflow and does not wait for its end", "call skein run NAME --detach in the task, or write workflow: NAME, which waits")
	}
	t, n := d.begin(c)
	t.Call = &importer.Call{Workflow: importer.WorkflowName(ref)}
	if list := spec.Get("arguments").Get("parameters"); list != nil {
		for _, p := range list.Vals {
			v, err := s.value(p.Get("value").Str())
			if err != nil {
				t.Drop(err.Error(), "")
				break
			}
			t.Call.With = append(t.Call.With, importer.Var{Name: importer.KeyName(p.Get("name").Str()), Value: v})
		}
	}
	t.Approximate(fmt.Sprintf("the task calls the workflow %s: import the template %s too", t.Call.Workflow, importer.Clip(ref, 60)))
	if v := f.Take("activeDeadlineSeconds"); v != nil {
		if n, ok := importer.Int(v); ok && n > 0 {
			t.Settings.Add("timeout", importer.Seconds(n))
		}
	}
	d.rest(c, f)
	return n
}
