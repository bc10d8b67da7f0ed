package dagu

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"skein.dev/skein/internal/importer"
	"skein.dev/skein/internal/workflow"
)

// graph converts the steps and the handlers of a DAG.
func (d *dag) graph(f *importer.Fields) {
	kind, steps := f.Take("type"), f.Take("steps")
	chain := kind.Str() == "chain"
	if kind != nil && !chain && kind.Str() != "graph" {
		d.Drop(kind, "type: "+importer.Clip(kind.Str(), 30)+" is not supported, so the importer reads the steps as a graph", "write the workflow by hand")
	}
	if steps == nil {
		return
	}
	groups := d.groups(steps)
	depends := d.connect(groups, chain)
	if kind == nil && !chain && !depends && len(groups) > 1 {
		d.Note("the file has neither type nor depends, so no step waits for another, as in today's Dagu. Older versions ran the steps one after the other; if you need that order, write needs")
	}
	main := len(d.Tasks)
	d.handlers(f.Take("handlerOn"), main)
	roots := d.runCheck(f.Take("preconditions", "precondition"), main)
	for _, s := range slices.Clone(d.order) {
		if !slices.Contains(roots, s) {
			d.fill(s)
		}
	}
	for _, s := range d.order {
		d.conditions(s)
	}
	d.gates()
}

// groups begins the steps. The steps of one group run at the same time.
func (d *dag) groups(v *workflow.Value) [][]*step {
	var all [][]*step
	if v.Kind == workflow.MapValue {
		for i, k := range v.Keys {
			all = append(all, []*step{d.begin(k, v.Vals[i], k.Text)})
		}
		return all
	}
	for _, e := range v.Vals {
		if e.Kind != workflow.ListValue {
			all = append(all, []*step{d.begin(e, e, "")})
			continue
		}
		var group []*step
		for _, inner := range e.Vals {
			group = append(group, d.begin(inner, inner, ""))
		}
		all = append(all, group)
	}
	return all
}

// connect adds the needs of each step. It reports whether any step names its needs.
func (d *dag) connect(groups [][]*step, chain bool) bool {
	named := false
	var before []*step
	for _, group := range groups {
		for _, s := range group {
			v := s.fields.Take("depends")
			switch {
			case v != nil:
				named = true
				for _, name := range importer.Texts(v) {
					o := d.steps[name]
					if o == nil || o == s {
						s.task.Drop("the task needs the step "+importer.Clip(name, 60)+", which does not exist", "")
						continue
					}
					s.depends = append(s.depends, o)
				}
			case chain || len(group) > 1 || len(before) > 1:
				s.depends = append(s.depends, before...)
			}
			for _, o := range s.depends {
				s.task.Need(o.task.Name)
			}
		}
		before = group
	}
	for _, s := range d.order {
		d.goOn(s, s.fields.Take("continueOn"))
	}
	return named
}

// goOn reads continueOn: the end states, other than success, after which dependent steps still run.
func (d *dag) goOn(s *step, v *workflow.Value) {
	switch {
	case v.Null():
		return
	case v.Kind == workflow.ScalarValue:
		s.onFailure, s.onSkip = v.Text == "failed" || v.Text == "failure", v.Text == "skipped"
	default:
		f := importer.NewFields(v)
		s.onFailure, s.onSkip = importer.IsTrue(f.Take("failure", "failed")), importer.IsTrue(f.Take("skipped"))
		f.Rest(map[string]string{
			"exitcode":    "the importer does not convert a condition on the exit code; return 0 for those codes in the script",
			"output":      "the importer does not convert a condition on the step's output; check the output in the script",
			"marksuccess": "a failed task stays failed here; return 0 in the script",
		}, func(key *workflow.Value, why string) { d.Drop(key, "continueOn."+why, "") })
	}
	if s.onFailure {
		s.task.Approximate("if the task fails, the tasks that need it run all the same. The run ends as failed; in Dagu it ends as partially succeeded")
	}
}

// conditions sets the if of a step whose needed steps may end in a state other than success.
func (d *dag) conditions(s *step) {
	explicit := false
	var all []string
	for _, o := range s.depends {
		states := []string{"succeeded"}
		if o.onFailure {
			states = append(states, "failed")
		}
		if o.onSkip {
			states = append(states, "skipped")
		}
		explicit = explicit || len(states) > 1 || o.maySkip && len(s.depends) > 1
		all = append(all, importer.StateIn(o.task.Name, states...))
		if o.gate != nil {
			if o.onFailure {
				states = append(states, "upstream_failed")
			}
			if o.maySkip {
				states = append(states, "skipped")
			}
			all = append(all, importer.StateIn(o.gate.Name, slices.DeleteFunc(states, func(s string) bool { return s == "failed" })...))
		}
	}
	if !explicit {
		return
	}
	if s.task.If != "" {
		all = append(all, s.task.If)
	}
	s.task.If = strings.Join(all, " && ")
}

// handlers converts handlerOn to tasks that run after all steps.
func (d *dag) handlers(v *workflow.Value, main int) {
	if v.Null() {
		return
	}
	f := importer.NewFields(v)
	leaves := d.Leaves(0)
	var ends []string
	for _, h := range []struct{ key, when string }{{"init", ""}, {"success", ""}, {"failure", "failure()"}, {"exit", "always()"}} {
		body := f.Take(h.key)
		if body == nil {
			continue
		}
		name := body.Get("name").Str()
		if name == "" {
			name = "on-" + h.key
		}
		s := d.begin(body, body, name)
		s.handler, s.task.If = true, h.when
		switch h.key {
		case "init":
			s.handler = false
			for _, o := range d.Tasks[:main] {
				if len(o.Needs) == 0 {
					o.Need(s.task.Name)
				}
			}
			for _, o := range d.order[:main] {
				if len(o.depends) == 0 {
					o.depends = append(o.depends, s)
				}
			}
		case "exit":
			s.task.Need(leaves...)
			s.task.Need(ends...)
		default:
			s.task.Need(leaves...)
			ends = append(ends, s.task.Name)
		}
	}
	f.Rest(map[string]string{
		"cancel": "a stopped run starts no more tasks; catch TERM in the scripts",
		"abort":  "a stopped run starts no more tasks; catch TERM in the scripts",
		"wait":   "Skein does not call a handler while a run waits",
	}, func(key *workflow.Value, why string) { d.Drop(key, "handlerOn."+why, "") })
}

// runCheck converts the preconditions of a run into a task that evaluates them before all other tasks.
func (d *dag) runCheck(v *workflow.Value, main int) []*step {
	if v.Null() {
		return nil
	}
	all := &step{at: v, fields: importer.NewFields(nil), env: map[string]importer.Text{}, task: d.Task(v, "run")}
	d.Tasks = d.Tasks[:len(d.Tasks)-1] // the template is not a task of the workflow
	d.check(all, v, "this task checks the precondition of the run: if it does not hold, the other tasks are skipped")
	if len(all.depends) == 0 {
		if all.task.Dropped() {
			d.Drop(v, "preconditions: the importer does not understand them", "write a task with an output, and an if in the first tasks")
		}
		return nil
	}
	guard := all.depends[len(all.depends)-1]
	for _, o := range d.order {
		if o == guard || len(o.depends) > 0 || len(o.task.Needs) > 0 {
			continue
		}
		o.task.Need(guard.task.Name)
		o.task.If = all.task.If
		o.depends, o.maySkip = append(o.depends, guard), true
	}
	return []*step{guard}
}

// check converts the preconditions of a step into a task that evaluates them before the step.
func (d *dag) check(s *step, v *workflow.Value, note string) {
	if v.Null() {
		return
	}
	list := []*workflow.Value{v}
	if v.Kind == workflow.ListValue {
		list = v.Vals
	}
	var tests []string
	for _, c := range list {
		test, why := condition(c)
		if why != "" {
			s.task.Drop("precondition: "+why, "write a task with an output, and an if that reads the output")
			return
		}
		tests = append(tests, test)
	}
	if len(tests) == 0 {
		return
	}
	guard := &step{at: v, task: d.Task(v, s.task.Name+"-check"), env: s.env, depends: s.depends, handler: s.handler}
	guard.task.Env = slices.Clone(s.task.Env)
	guard.task.Need(s.task.Needs...)
	guard.task.If = s.task.If
	text := d.script(strings.Join(tests, " && "), guard)
	guard.task.Run = importer.Run{Shell: "if " + text + "\nthen echo ok=true\nelse echo ok=false\nfi >> \"$SKEIN_OUTPUT\""}
	guard.task.Outputs = []string{"ok"}
	guard.task.Approximate(note)
	if d.labels != nil {
		guard.task.Settings.Add("labels", d.labels)
	}
	s.task.Need(guard.task.Name)
	ok := importer.TaskOutput(guard.task.Name, "ok") + ` == "true"`
	if s.task.If != "" && !s.handler { // the condition of the whole run
		ok = s.task.If + " && " + ok
	}
	s.task.If = ok
	s.depends = append(slices.Clone(s.depends), guard)
	s.maySkip = true
	d.order = append(d.order, guard)
}

// condition converts one precondition to a test for sh.
func condition(c *workflow.Value) (test, why string) {
	if c.Kind == workflow.ScalarValue {
		return "(\n" + c.Text + "\n) > /dev/null 2>&1", ""
	}
	f := importer.NewFields(c)
	text, expected := f.Take("condition"), f.Take("expected")
	not := ""
	if importer.IsTrue(f.Take("negate")) {
		not = "! "
	}
	f.Rest(nil, func(key *workflow.Value, _ string) { why = key.Text + " is not supported" })
	switch {
	case why != "":
		return "", why
	case text.Str() == "":
		return "", "the condition is missing"
	case expected == nil:
		return not + "(\n" + text.Str() + "\n) > /dev/null 2>&1", ""
	case strings.Contains(text.Text, `"`):
		return "", "the condition contains quotes"
	}
	value := `"` + text.Text + `"`
	if pattern, ok := strings.CutPrefix(expected.Text, "re:"); ok {
		return not + "printf '%s\\n' " + value + " | grep -Eq -- " + importer.QuoteShell(pattern), ""
	}
	return not + "[ " + value + " = " + importer.QuoteShell(expected.Text) + " ]", ""
}

// retry reads a retry policy.
func (d *dag) retry(v *workflow.Value) importer.Map {
	if v.Null() {
		return nil
	}
	f := importer.NewFields(v)
	limit, ok := importer.Int(f.Take("limit"))
	if !ok {
		d.Drop(v, "retryPolicy: the limit is missing or no number", "write retry: {max: 3}")
		return nil
	}
	m := importer.Map{{Key: "max", Value: rawInt(min(max(limit, 0), 10_000))}}
	delay, _ := importer.Int(f.Take("intervalSec"))
	m.Add("delay", importer.Seconds(delay))
	if b := f.Take("backoff"); b != nil {
		factor, err := strconv.ParseFloat(b.Str(), 64)
		switch {
		case importer.IsTrue(b):
			m.Add("backoff", importer.Raw("2"))
		case err == nil && factor >= 1 && factor <= 100 && !math.IsNaN(factor):
			m.Add("backoff", importer.Raw(fmt.Sprintf("%g", factor)))
		}
	}
	if n, ok := importer.Int(f.Take("maxIntervalSec")); ok && n > 0 {
		m.Add("max_delay", importer.Seconds(max(n, delay)))
	}
	if codes := f.Take("exitCode", "exitCodes"); codes != nil && len(codes.Vals) > 0 {
		m.Add("on_exit", importer.Texts(codes))
		m[len(m)-1].Value = importer.Raw("[" + strings.Join(importer.Texts(codes), ", ") + "]")
	}
	f.Rest(nil, func(key *workflow.Value, why string) { d.Drop(key, "retryPolicy."+why, "") })
	return m
}
