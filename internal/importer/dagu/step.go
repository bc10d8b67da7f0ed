package dagu

import (
	"slices"
	"strings"

	"skein.dev/skein/internal/importer"
	"skein.dev/skein/internal/workflow"
)

// step is one step of a DAG.
type step struct {
	at       *workflow.Value
	fields   *importer.Fields
	task     *importer.Task
	env      map[string]importer.Text
	output   string   // name of the variable that holds its standard output
	declared []string // outputs that the step writes itself
	asked    []string // values that a person enters for the step
	depends  []*step
	handler  bool
	// Dependent steps also run if this step ended in one of these states.
	onFailure, onSkip bool
	maySkip           bool

	item   string         // name of the variable for the item of a foreach or parallel; "" if there is none
	items  []any          // items that the file lists
	hands  bool           // the called DAG gets the item, unless the step passes other parameters
	gate   *importer.Task // the task that waits for its approval
	calls  bool           // calls another DAG
	sends  bool           // sends a request
	opaque string         // the reason why its output cannot be read; "" if it can
}

// asksPerson reports whether the step only waits for a decision.
func (s *step) asksPerson() bool { return s.task.Approval != nil }

func (s *step) declares(name string) bool { return slices.Contains(s.declared, name) }

// after reports whether the step needs o, directly or through other steps.
func (s *step) after(o *step) bool {
	return importer.Follows(s, o, func(of *step) []*step { return of.depends })
}

// seen gives the step's task a variable, if the value comes from another step.
func (s *step) seen(name string, value importer.Text) {
	if len(value) != 1 || !strings.HasPrefix(value[0].Expr, "tasks") || slices.ContainsFunc(s.task.Env, func(v importer.Var) bool { return v.Name == name }) {
		return
	}
	s.task.Env = append(s.task.Env, importer.Var{Name: name, Value: value})
}

// begin makes a step from a command or a mapping. The names of the steps are known only when all steps have
// begun.
func (d *dag) begin(at *workflow.Value, v *workflow.Value, name string) *step {
	s := &step{at: at, fields: importer.NewFields(v), env: map[string]importer.Text{}}
	if v.Kind == workflow.ScalarValue {
		s.fields = importer.NewFields(&workflow.Value{Kind: workflow.MapValue, Keys: []*workflow.Value{{Text: "run"}}, Vals: []*workflow.Value{v}})
	}
	id, long := s.fields.Take("id").Str(), s.fields.Take("name").Str()
	switch {
	case name != "":
	case id != "":
		name = id
	case long != "":
		name = long
	default:
		name = "step-" + string(rawInt(int64(len(d.order)+1)))
	}
	s.task = d.Task(at, name)
	s.sends = isRequest(s.fields)
	if target, _ := child(s.fields.Again()); target != nil {
		s.calls = s.fields.Peek("parallel") == nil
	}
	for _, n := range []string{name, id, long} {
		if n == "" {
			continue
		}
		if o, dup := d.steps[n]; dup && o != s {
			s.task.Approximate("another step has the name " + importer.Clip(n, 60) + ", too; tasks that need this name need the first one")
			continue
		}
		d.steps[n] = s
	}
	switch o := s.fields.Take("output"); {
	case o == nil:
	case o.Kind == workflow.ScalarValue && simpleName.MatchString(strings.TrimPrefix(o.Text, "$")):
		s.output = strings.TrimPrefix(o.Text, "$")
	case o.Kind == workflow.MapValue && simpleName.MatchString(o.Get("name").Str()):
		s.output = o.Get("name").Str()
	default:
		d.Drop(o, "output: the importer converts only a variable with the step's output", "write key=value lines to $SKEIN_OUTPUT in the step")
	}
	for _, o := range outputsOf(s.fields.Take("outputs")) {
		if simpleName.MatchString(o) && !s.declares(o) {
			s.declared = append(s.declared, o)
		}
	}
	s.asked = asked(s.fields)
	d.order = append(d.order, s)
	return s
}

func outputsOf(v *workflow.Value) []string {
	var all []string
	if v != nil {
		for _, o := range v.Vals {
			all = append(all, o.Get("name").Str())
		}
	}
	return all
}

// fill converts the command and the settings of a step.
func (d *dag) fill(s *step) {
	f, t := s.fields, s.task
	t.Description = f.Take("description").Str()
	d.eachPair(f.Take("env"), "env", func(at *workflow.Value, name, value string) {
		if commands.MatchString(value) || strings.HasPrefix(name, "SKEIN_") {
			d.Drop(at, "env: "+name+" is the output of a command, or its name begins with SKEIN_", "set it in the script")
			return
		}
		text := d.value(at, value, s)
		s.env[name] = text
		t.Env = append(slices.DeleteFunc(t.Env, func(v importer.Var) bool { return v.Name == name }), importer.Var{Name: name, Value: text})
	})
	d.check(s, f.Take("preconditions", "precondition"), "this task checks the precondition of "+t.Name)
	t.Dir = d.dir
	if v := f.Take("workingDir", "dir"); v != nil {
		t.Dir = nil
		if v.Text != "." {
			t.Dir = d.value(v, v.Str(), s)
		}
	}
	d.action(s)
	if s.fields == f { // false if the conversion of a foreach body has already converted the fields
		d.how(s)
	}
	if v := f.Take("signalOnStop"); v != nil && v.Str() != "SIGTERM" {
		t.Approximate("signalOnStop: " + importer.Clip(v.Str(), 30) + " is not sent: a task gets TERM, and after kill_grace KILL; catch TERM in the script")
	}
	if v := f.Take("approval"); v != nil {
		d.gate(s, v)
	}
	f.Rest(reasons(), func(key *workflow.Value, why string) { d.Drop(key, why, "") })
	switch {
	case t.Call != nil || t.HTTP != nil || t.Approval != nil || s.fields != f:
	default:
		t.Outputs = append(t.Outputs, s.declared...)
		if s.output != "" && s.opaque == "" {
			t.Capture(s.output, nil)
		}
	}
}

// how reads the timeout, retry and placement of a step.
func (d *dag) how(s *step) {
	f, t := s.fields, s.task
	if n, ok := importer.Int(f.Take("timeoutSec")); ok && n > 0 && t.Wait == 0 {
		t.Settings.Add("timeout", importer.Seconds(n))
	}
	retry := f.Take("retryPolicy")
	logical := t.Call != nil || t.Approval != nil
	switch r := d.retry(retry); {
	case r == nil:
	case logical:
		d.Drop(retry, "retryPolicy: a task that calls a workflow or waits for an approval is not retried", "write retry in the tasks of the called workflow")
	default:
		if t.HTTP != nil {
			r = slices.DeleteFunc(r, func(p importer.Pair) bool { return p.Key == "on_exit" })
		}
		t.Settings.Add("retry", r)
	}
	labels := d.labels
	if own := d.selector(f.Take("workerSelector")); own != nil {
		labels = own
	}
	if labels != nil && !logical {
		t.Settings.Add("labels", labels)
	}
	if logical || t.HTTP != nil {
		t.Env, t.Dir = nil, nil
	}
}

// action determines the kind of a step.
func (d *dag) action(s *step) {
	f, t := s.fields, s.task
	if v := f.Take("foreach"); v != nil {
		d.repeat(s, v)
		return
	}
	if target, _ := child(f.Again()); target != nil {
		d.calling(s, f.Take("parallel"))
		return
	}
	with := f.Take("with", "config")
	if with == nil {
		with = f.Peek("executor").Get("config")
	}
	shell := slices.Clone(d.shell)
	if v := with.Get("shell"); v != nil {
		shell = words(v)
	}
	shell = append(shell, importer.Texts(with.Get("shell_args"))...)
	if v := f.Take("shell"); v != nil {
		shell = words(v)
	}
	shell = append(shell, importer.Texts(f.Take("shellArgs"))...)
	if v := f.Take("parallel"); v != nil && !d.repeated(s, v) {
		return
	}
	run, script, command := f.Peek("run"), f.Peek("script"), f.Peek("command")
	kind := executor(f)
	switch {
	case s.sends:
		d.request(s, with)
		return
	case kind == "human.task" || kind == "hitl":
		d.approval(t, with, func(at *workflow.Value) {
			d.Drop(at, "the importer does not convert the form of Dagu's page", "write form: {NAME: {…}}")
		})
		return
	case strings.HasPrefix(kind, "dag.") || kind == "subworkflow":
		t.Drop("the task starts another DAG and does not wait for it", "call skein run NAME --detach in a script, or write workflow: NAME, which waits")
		return
	}
	f.Take("run")
	f.Take("script")
	f.Take("command")
	f.Take("params", "args")
	switch {
	case kind != "" && kind != "shell" && kind != "command" && kind != "local":
		t.Drop(executorReason(kind), "")
	case f.Take("container") != nil:
		t.Drop("the task runs in a container, which the importer does not convert", "write container: in the task, or call docker run … in its script")
	case script != nil && command != nil && command.Kind == workflow.ScalarValue:
		d.source(s, strings.Fields(command.Text), script.Str())
	case script != nil:
		d.source(s, shell, script.Str())
	case run != nil:
		d.commands(s, shell, run)
	case command != nil:
		d.commands(s, shell, command)
	default:
		t.Drop("the task has no command", "write one")
	}
}

// repeated converts parallel. Dagu's grammar does not allow it for a step that calls no DAG, but its meaning
// there is clear.
func (d *dag) repeated(s *step, v *workflow.Value) bool {
	in := importer.NewFields(v)
	list := v
	if v.Kind == workflow.MapValue {
		list = in.Take("items")
	}
	src, why := d.items(s, in, list)
	in.Rest(nil, func(key *workflow.Value, why string) { d.Drop(key, "parallel."+why, "") })
	if why != "" {
		s.task.Drop("parallel: "+why, "write foreach by hand")
		return false
	}
	s.item, s.items = "ITEM", src.items
	s.task.Each = &importer.Each{Items: src.items, List: src.list, Parallel: src.parallel}
	return true
}

// calling converts a step that runs another DAG, once or for each of several items.
func (d *dag) calling(s *step, parallel *workflow.Value) {
	if s.output != "" {
		s.opaque = "the value is Dagu's report about the other DAG; read the outputs of its last tasks"
	}
	s.hands = parallel != nil
	if s.hands && !d.repeated(s, parallel) {
		return
	}
	if d.call(s, s.fields); s.task.Call == nil {
		s.task.Each = nil
	}
}

// executor returns the kind of a step that is not a command.
func executor(f *importer.Fields) string {
	if v := f.Take("action"); v != nil {
		return v.Str()
	}
	v := f.Take("executor", "type")
	if v != nil && v.Kind == workflow.MapValue {
		return v.Get("type").Str()
	}
	return v.Str()
}

// commands converts a line, or a list of lines. Each line has a shell of its own.
func (d *dag) commands(s *step, shell []string, v *workflow.Value) {
	lines := importer.Texts(v)
	if v.Kind == workflow.ScalarValue || len(lines) == 1 {
		d.source(s, shell, lines[0])
		return
	}
	if s.fields.Take("args") == nil && len(lines) > 0 && !strings.ContainsAny(lines[0], " \t\n") && v.Get("") == nil {
		s.task.Approximate("the importer reads the list as a program with arguments; newer versions of Dagu run each item as a command")
		for i, l := range lines {
			lines[i] = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "`", "\\`").Replace(l) + `"`
		}
		d.source(s, shell, strings.Join(lines, " "))
		return
	}
	d.source(s, shell, "(\n"+strings.Join(lines, "\n) || exit\n(\n")+"\n) || exit")
}

// source converts a script and its interpreter; the default is sh.
func (d *dag) source(s *step, program []string, text string) {
	if line, rest, ok := strings.Cut(text, "\n"); ok && strings.HasPrefix(line, "#!") {
		program, text = strings.Fields(strings.TrimPrefix(line, "#!")), rest
		if len(program) > 1 && strings.HasSuffix(program[0], "/env") {
			program = program[1:]
		}
	}
	text = strings.TrimSuffix(text, "\n")
	if strings.TrimSpace(text) == "" {
		s.task.Drop("the task has no command", "write one")
		return
	}
	if n := len(program); n > 1 && program[n-1] == "-c" {
		program = program[:n-1]
	}
	if len(program) == 0 || importer.Shells(program[0]) {
		text = d.script(text, s)
		if strings.Contains(text, "DAGU_OUTPUT") {
			text = "DAGU_OUTPUT_FILE=$SKEIN_OUTPUT\nexport DAGU_OUTPUT_FILE\n" + text
			s.task.Approximate("the script writes its outputs to $SKEIN_OUTPUT, which takes only lines key=value, without <<")
		}
		if len(program) == 0 && strings.Contains(text, "\n") {
			text = "set -e\n" + text // Dagu's own shell does the same
		}
	} else if m := reference.FindStringSubmatch(text[max(strings.Index(text, "${"), 0):]); m != nil && strings.Contains(m[1], ".") {
		s.task.Drop("${"+importer.Clip(m[1], 60)+"} is in a program that is no shell script, which would read the value as code", "set a variable under env, and read the variable in the program")
		return
	}
	if strings.Contains(text, "${{") {
		s.task.Drop("the script contains ${{, which run does not allow", "move it into a script file")
		return
	}
	s.task.Run = importer.Source(program, text)
}
