package argo

import (
	"fmt"
	"slices"

	"skein.dev/skein/internal/importer"
	"skein.dev/skein/internal/workflow"
)

// depthMax bounds how deep templates call each other.
const depthMax = 16

// call is the call of a template.
type call struct {
	at       *workflow.Value
	name     string // the name of the task, or the prefix of the names of its tasks
	short    string // the name that the other tasks of its template use
	template *workflow.Value
	outer    *scope
	args     *workflow.Value
	needs    []string
	cond     string
	stack    []string
	alone    bool           // the inner tasks get no prefix
	each     *importer.Each // set if the template becomes one task with a foreach
}

// failed returns a task that takes the place of a call that cannot be converted.
func (d *sheet) failed(c call, reason, remedy string) *node {
	t := d.Task(c.at, c.name)
	t.Need(c.needs...)
	t.If = c.cond
	t.Drop(reason, remedy)
	n := &node{ends: []string{t.Name}, params: map[string]importer.Text{}, maySkip: c.cond != ""}
	return n
}

// call converts a template with its arguments.
func (d *sheet) call(c call) *node {
	name := c.template.Get("name").Str()
	d.calls++
	switch {
	case c.template == nil:
		return d.failed(c, "the task calls a template that is not in this file", "put both into one file, or write the task by hand")
	case len(c.stack) > depthMax || name != "" && slices.Contains(c.stack, name):
		return d.failed(c, "the template "+importer.Clip(name, 60)+" calls itself, but a graph has no loops", "loop in a script, or start another run")
	case len(d.Tasks) > importer.TasksMax || d.calls > 4*importer.TasksMax:
		return d.failed(c, "the templates expand to too many tasks", "split the workflow")
	}
	c.stack = append(slices.Clone(c.stack), name)
	inner := &scope{sheet: d, nodes: map[string]*node{}}
	f := importer.NewFields(c.template)
	f.Take("name")
	var err error
	in := f.Take("inputs")
	if inner.inputs, err = c.inputs(in); err != nil {
		return d.failed(c, err.Error(), "")
	}
	inner.files = c.files(in)
	if a := in.Get("artifacts"); a != nil && (c.template.Get("resource") != nil || c.template.Get("http") != nil || c.template.Get("suspend") != nil) {
		d.Drop(a, "inputs.artifacts: only containers and scripts get files", "read the files in a script that runs before this task")
	}
	for _, kind := range []string{"data", "plugin", "containerSet"} {
		if v := c.template.Get(kind); v != nil {
			return d.failed(c, kindReasons()[kind], "")
		}
	}
	inner.parallel = d.parallel
	var n *node
	if v := f.Take("parallelism"); v != nil && (c.template.Get("dag") != nil || c.template.Get("steps") != nil) {
		inner.parallel = d.parallelism(v, "template "+importer.Clip(name, 60)+": parallelism")
	}
	switch {
	case c.template.Get("resource") != nil:
		return d.resource(c, inner, f)
	case c.template.Get("http") != nil:
		return d.request(c, inner, f)
	case c.template.Get("suspend") != nil:
		return d.suspended(c, f)
	case c.template.Get("dag") != nil:
		n = d.dag(c, inner, importer.NewFields(f.Take("dag")))
	case c.template.Get("steps") != nil:
		n = d.steps(c, inner, f.Take("steps"))
	default:
		return d.leaf(c, inner, f)
	}
	inner.outputs(n, f.Take("outputs"))
	d.rest(c, f)
	return n
}

// rest reports the fields of a template that were dropped.
func (d *sheet) rest(c call, f *importer.Fields) {
	f.Rest(reasons(), d.drop("template "+importer.Clip(c.template.Get("name").Str(), 60)+": "))
}

// inputs returns the values of the parameters of a template.
func (c *call) inputs(v *workflow.Value) (map[string]importer.Text, error) {
	given := map[string]*workflow.Value{}
	if c.args != nil {
		if list := c.args.Get("parameters"); list != nil {
			for _, p := range list.Vals {
				given[p.Get("name").Str()] = p
			}
		}
	}
	all := map[string]importer.Text{}
	in := importer.NewFields(v)
	list := in.Take("parameters")
	in.Take("artifacts")
	in.Rest(reasons(), c.outer.drop("inputs."))
	if list == nil {
		return all, nil
	}
	for _, p := range list.Vals {
		name := p.Get("name").Str()
		source := given[name].Get("value")
		if source == nil {
			source = p.Get("value")
		}
		switch {
		case source != nil:
			text, err := c.outer.value(source.Str())
			if err != nil {
				return nil, err
			}
			all[name] = text
		case c.alone && c.outer.params[name] != "": // the parameters of the entrypoint are the parameters of the workflow
			all[name] = importer.Expr(importer.Member("params", c.outer.params[name]))
		case given[name] != nil || p.Get("valueFrom") != nil:
			return nil, fmt.Errorf("the parameter %s takes its value from elsewhere, which the importer does not read; write a literal value", importer.Clip(name, 60))
		default:
			return nil, fmt.Errorf("the parameter %s has no value; write one", importer.Clip(name, 60))
		}
	}
	return all, nil
}

// outputs converts the outputs of a dag or steps.
func (s *scope) outputs(n *node, v *workflow.Value) {
	list := v.Get("parameters")
	if v != nil {
		f := importer.NewFields(v)
		f.Take("parameters")
		n.files = s.handOn(f.Take("artifacts"))
		f.Rest(reasons(), s.drop("outputs."))
	}
	if list == nil {
		return
	}
	for _, p := range list.Vals {
		from := p.Get("valueFrom")
		text, err := s.value(from.Get("parameter").Str())
		if from.Get("parameter") == nil || err != nil {
			s.Drop(p, "outputs.parameters: the importer reads only valueFrom.parameter here", "write key=value to $SKEIN_OUTPUT in a task")
			continue
		}
		n.params[p.Get("name").Str()] = text
	}
}

func (c *call) child(name string) string {
	if c.alone {
		return name
	}
	return c.name + "-" + name
}

// dag converts the tasks of a dag. Each task comes after the tasks that it needs.
func (d *sheet) dag(c call, inner *scope, f *importer.Fields) *node {
	list := f.Take("tasks")
	if v := f.Take("failFast"); v == nil || importer.IsTrue(v) {
		if list != nil && len(list.Vals) > 2 {
			d.Note("failFast: after a failure Argo starts no further task; here the branches that do not need the failed task continue. With on_failure: end the run stops")
		}
	}
	f.Rest(reasons(), d.drop("dag."))
	first := len(d.Tasks)
	n := &node{params: map[string]importer.Text{}, maySkip: c.cond != ""}
	if list == nil {
		return d.failed(c, "the template's dag has no tasks", "")
	}
	for _, v := range inOrder(list.Vals) {
		t := importer.NewFields(v)
		name := t.Take("name").Str()
		text := t.Take("depends").Str()
		for i, need := range importer.Texts(t.Take("dependencies")) {
			if i > 0 || text != "" {
				text += " && "
			}
			text += need
		}
		needs, cond, err := inner.depends(text)
		inner.nodes[name] = d.task(c, inner, t, call{at: v, name: c.child(name), short: name, needs: needs, cond: cond}, err)
		n.maySkip = n.maySkip || inner.nodes[name].maySkip
	}
	n.ends = d.Leaves(min(first, len(d.Tasks)))
	return n
}

// inOrder sorts tasks so that each comes after the tasks that it names. Tasks that form a cycle keep their
// order.
func inOrder(list []*workflow.Value) []*workflow.Value {
	byName, done := map[string]*workflow.Value{}, map[string]bool{}
	for _, v := range list {
		byName[v.Get("name").Str()] = v
	}
	var out []*workflow.Value
	var visit func(v *workflow.Value, depth int)
	visit = func(v *workflow.Value, depth int) {
		name := v.Get("name").Str()
		if done[name] || depth > importer.TasksMax {
			return
		}
		done[name] = true
		for _, n := range append(namesOf(v.Get("depends").Str()), importer.Texts(v.Get("dependencies"))...) {
			if o := byName[n]; o != nil {
				visit(o, depth+1)
			}
		}
		out = append(out, v)
	}
	for _, v := range list {
		visit(v, 0)
	}
	return out
}

// steps converts groups of steps. Each group waits for the group before it.
func (d *sheet) steps(c call, inner *scope, groups *workflow.Value) *node {
	n := &node{params: map[string]importer.Text{}, maySkip: c.cond != ""}
	var before []*node
	for _, g := range groups.Vals {
		list := g.Vals
		if g.Kind != workflow.ListValue {
			list = []*workflow.Value{g}
		}
		cond, needs, explicit := "", []string{}, false
		for _, b := range before {
			is, _ := b.is("")
			cond = both(cond, is)
			needs = append(needs, b.ends...)
			explicit = explicit || b.maySkip || b.goesOn
		}
		if !explicit {
			cond = ""
		}
		var now []*node
		for _, v := range list {
			f := importer.NewFields(v)
			name := f.Take("name").Str()
			step := d.task(c, inner, f, call{at: v, name: c.child(name), short: name, needs: needs, cond: cond}, nil)
			inner.nodes[name] = step
			n.maySkip = n.maySkip || step.maySkip
			now = append(now, step)
		}
		before = now
	}
	if before == nil {
		return d.failed(c, "the template has no steps", "")
	}
	for _, b := range before {
		n.ends = append(n.ends, b.ends...)
		n.goesOn = n.goesOn || b.goesOn
	}
	return n
}

// task converts one task of a dag, or one step.
func (d *sheet) task(outer call, inner *scope, f *importer.Fields, c call, fault error) *node {
	c.outer, c.stack = inner, outer.stack
	if len(c.needs) == 0 {
		c.needs, c.cond = outer.needs, outer.cond
	} else if c.cond != "" && outer.cond != "" {
		c.needs, c.cond = append(slices.Clone(c.needs), outer.needs...), both(outer.cond, c.cond)
	}
	when, ref := f.Take("when"), f.Take("templateRef")
	c.args = f.Take("arguments")
	c.template = f.Take("inline")
	if name := f.Take("template"); name != nil {
		c.template = d.templates[name.Str()]
	} else if ref != nil {
		c.template = d.sharedTemplate(ref)
	}
	goesOn := f.Take("continueOn")
	items, why := inner.loop(f)
	f.Rest(reasons(), d.drop(""))
	var n *node
	switch {
	case fault != nil:
		return d.failed(c, fault.Error(), "")
	case why != "":
		return d.failed(c, why, "write foreach by hand")
	case items != nil:
		n = d.repeated(c, inner, when, items)
	case ref != nil && c.template == nil:
		name := ref.Get("name").Str()
		return d.failed(c, "the task calls a template that is not in this file", "put both into one file; or, if the template is the entrypoint of "+importer.Clip(name, 60)+", write workflow: "+importer.WorkflowName(name))
	default:
		n = d.conditional(c, inner, when)
	}
	if goesOn != nil {
		n.goesOn = importer.IsTrue(goesOn.Get("failed")) || importer.IsTrue(goesOn.Get("error"))
	}
	return n
}

func (d *sheet) sharedTemplate(ref *workflow.Value) *workflow.Value {
	list := d.shared[ref.Get("name").Str()].Get("templates")
	if list != nil {
		for _, t := range list.Vals {
			if t.Get("name").Str() == ref.Get("template").Str() {
				return t
			}
		}
	}
	return nil
}

// conditional converts a call with a when.
func (d *sheet) conditional(c call, inner *scope, when *workflow.Value) *node {
	if when == nil {
		return d.call(c)
	}
	s := *inner
	s.handle = c.cond == "always()"
	cond, err := s.when(when.Str())
	if err != nil {
		return d.failed(c, err.Error(), "")
	}
	c.cond = both(c.cond, cond)
	n := d.call(c)
	n.maySkip = true
	return n
}
