package argo

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"skein.dev/skein/internal/importer"
	"skein.dev/skein/internal/workflow"
)

// leaf converts a container or a script.
func (d *sheet) leaf(c call, s *scope, f *importer.Fields) *node {
	t, n := d.begin(c)
	body := f.Take("container")
	script := f.Take("script")
	if script != nil {
		body = script
	}
	d.policy(t, f)
	b := importer.NewFields(body)
	files := d.results(n, t, f.Take("outputs"), body.Get("workingDir").Str())
	s.gets(t, c.template.Get("inputs").Get("artifacts"), body.Get("workingDir").Str())
	reads := d.readsResult(c)
	if reads {
		n.result = d.handsOn(t, "result")
	}
	image := b.Take("image")
	var err error
	switch {
	case body == nil:
		err = fmt.Errorf("the importer cannot convert this kind of template; write the task by hand")
	case image != nil && !d.opt.Run:
		err = fmt.Errorf("the template runs in the image %s, and the importer does not convert images; write container: in the task by hand, or import with --containers run, which runs the command on the node without the image", importer.Clip(image.Str(), 60))
	case script != nil:
		err = s.scriptBody(t, b)
	default:
		err = s.containerBody(t, b)
	}
	if image != nil && d.opt.Run {
		t.Approximate("the image " + importer.Clip(image.Str(), 60) + " is not used, so its program must be on the node")
	}
	if image == nil || d.opt.Run {
		s.surroundings(t, b)
		s.resources(t, b.Take("resources"))
		b.Rest(reasons(), d.drop("container."))
	}
	d.rest(c, f)
	if err != nil {
		t.Drop(err.Error(), "")
	}
	stdout := ""
	if reads {
		stdout = "result"
	}
	t.Capture(stdout, files)
	return n
}

// begin begins the task of a template that becomes exactly one task.
func (d *sheet) begin(c call) (*importer.Task, *node) {
	t := d.Task(c.at, c.name)
	t.Need(c.needs...)
	t.If, t.Each = c.cond, c.each
	return t, &node{ends: []string{t.Name}, params: map[string]importer.Text{}, maySkip: c.cond != ""}
}

// readsResult reports whether another task reads the task's standard output.
func (d *sheet) readsResult(c call) bool {
	return c.short != "" && strings.Contains(d.text, "."+c.short+".outputs.result")
}

// handsOn returns the expression for an output of a task. For a foreach it is the list of the instances'
// outputs.
func (d *sheet) handsOn(t *importer.Task, output string) importer.Text {
	if t.Each != nil {
		list := importer.Member("tasks", t.Name) + ".outputs.map(o, " + importer.Member("o", output) + ")"
		d.lists[list] = func() (string, error) { return list, nil }
		return importer.Expr(list)
	}
	value := importer.TaskOutput(t.Name, output)
	d.lists[value] = func() (string, error) {
		t.Approximate("its output " + output + " is read as a JSON list: if it is none, this task fails, not the repeated one")
		return importer.TaskOutput(t.Name, t.AsList(output)), nil
	}
	return importer.Expr(value)
}

// results returns the template's outputs that are read from files.
func (d *sheet) results(n *node, t *importer.Task, v *workflow.Value, dir string) []importer.FileOutput {
	f := importer.NewFields(v)
	list := f.Take("parameters")
	n.files = d.artifacts(t, f.Take("artifacts"), dir)
	f.Rest(reasons(), d.drop("outputs."))
	if list == nil {
		return nil
	}
	var files []importer.FileOutput
	for _, p := range list.Vals {
		name, from := p.Get("name").Str(), p.Get("valueFrom")
		path := from.Get("path").Str()
		if path == "" {
			d.Drop(p, "outputs.parameters: the importer reads only valueFrom.path", "write key=value to $SKEIN_OUTPUT in the script")
			continue
		}
		o := importer.FileOutput{Name: importer.KeyName(name), Path: path}
		if dflt := from.Get("default"); dflt != nil {
			o.Default, o.Optional = dflt.Str(), true
		}
		files = append(files, o)
		n.params[name] = d.handsOn(t, o.Name)
	}
	return files
}

// scriptBody converts a script and its interpreter.
func (s *scope) scriptBody(t *importer.Task, b *importer.Fields) error {
	program, source := importer.Texts(b.Take("command")), b.Take("source").Str()
	if len(program) == 0 {
		return fmt.Errorf("the script does not name the program that reads it; write command")
	}
	return s.program(t, program, source)
}

func (s *scope) program(t *importer.Task, program []string, source string) error {
	var err error
	if importer.Shells(program[0]) {
		source, err = s.script(t, source)
	} else if source, err = s.known(source); err == nil && reference.MatchString(source) {
		ref := reference.FindString(source)
		err = fmt.Errorf("%s is in a program for %s, which would read the value as code; set a variable under env, and read the variable in the program", importer.Clip(ref, 60), importer.Clip(program[0], 30))
	}
	switch {
	case err != nil:
		return err
	case strings.TrimSpace(source) == "":
		return fmt.Errorf("the script has no source; write one")
	case strings.Contains(source, "${{"):
		return fmt.Errorf("the script contains ${{, which run does not allow; move it into a script file")
	}
	t.Run = importer.Source(program, strings.TrimSuffix(source, "\n"))
	return nil
}

var shellFlags = regexp.MustCompile(`^-([a-z]*)c$`)

// containerBody converts a command with arguments.
func (s *scope) containerBody(t *importer.Task, b *importer.Fields) error {
	words := importer.Texts(b.Take("command"))
	if len(words) == 0 {
		b.Take("args")
		return fmt.Errorf("only the image names the command; write command")
	}
	words = append(words, importer.Texts(b.Take("args"))...)
	if len(words) == 3 && importer.Shells(words[0]) {
		if m := shellFlags.FindStringSubmatch(words[1]); m != nil {
			program := words[:1]
			if m[1] != "" {
				program = []string{words[0], "-" + m[1]}
			}
			return s.program(t, program, words[2])
		}
	}
	known := true
	argv := make([]string, len(words))
	line := make([]string, len(words))
	for i, w := range words {
		if i > 0 && importer.Shells(words[0]) && reference.MatchString(w) {
			return fmt.Errorf("a value is in the command line of a shell, which would read it as code; write the command as sh -c TEXT")
		}
		v, err := s.value(w)
		if err != nil {
			return err
		}
		c, ok := v.Const()
		known = known && ok
		if argv[i], line[i] = c, importer.QuoteShell(c); !ok {
			line[i] = s.word(t, v, w)
		}
	}
	if strings.Contains(strings.Join(argv, " "), "${{") {
		return fmt.Errorf("the script contains ${{, which run does not allow; move it into a script file")
	}
	if known {
		t.Run = importer.Run{Argv: argv}
		return nil
	}
	t.Run = importer.Run{Shell: strings.Join(line, " ")}
	return nil
}

// word returns a text that holds references as one word for sh.
func (*scope) word(t *importer.Task, v importer.Text, source string) string {
	name := "ARG"
	if m := reference.FindStringSubmatch(source); m != nil {
		name = hint(m[1])
	}
	return `"${` + t.Bind(name, v, "") + `}"`
}

// surroundings converts the variables and the working folder of a container.
func (s *scope) surroundings(t *importer.Task, b *importer.Fields) {
	if v := b.Take("workingDir"); v != nil {
		if dir, err := s.value(v.Str()); err == nil {
			t.Dir = dir
		} else {
			s.Drop(v, "workingDir: "+err.Error(), "")
		}
	}
	env := b.Take("env")
	if env == nil {
		return
	}
	for _, e := range env.Vals {
		name, value := e.Get("name").Str(), e.Get("value")
		if value == nil {
			s.Drop(e, "env "+importer.Clip(name, 60)+": its value comes from elsewhere (valueFrom)", "store it with skein secret set, and write ${{ secrets.NAME }} under env")
			continue
		}
		text, err := s.value(value.Str())
		if err != nil || importer.KeyName(name) != name || strings.HasPrefix(name, "SKEIN_") {
			s.Drop(e, "env "+importer.Clip(name, 60)+": its name or value is not allowed here", "set it in the script")
			continue
		}
		t.Env = append(t.Env, importer.Var{Name: name, Value: text})
	}
}

// cpuQuantity matches a number of cores or of millicores.
var cpuQuantity = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)(m?)$`)

// resources converts the cpu and memory of a container. Skein has one number for request and limit, so the
// limit is used. If there is no limit, the request is.
func (s *scope) resources(t *importer.Task, v *workflow.Value) {
	if v == nil {
		return
	}
	asked, most := v.Get("requests"), v.Get("limits")
	m, different := importer.Map{}, false
	for _, key := range []string{"cpu", "memory"} {
		q := most.Get(key)
		if q == nil {
			q = asked.Get(key)
		}
		if q == nil {
			continue
		}
		different = different || asked.Get(key) != nil && asked.Get(key).Str() != most.Get(key).Str()
		text := q.Str()
		if c := cpuQuantity.FindStringSubmatch(text); key == "cpu" && c != nil {
			n, _ := strconv.ParseFloat(c[1], 64)
			if c[2] == "m" {
				n /= 1000
			}
			text = strconv.FormatFloat(n, 'f', -1, 64)
		}
		m.Add(key, importer.Raw(importer.DoubleQuoted(text)))
		if key == "cpu" {
			m[len(m)-1].Value = importer.Raw(text)
		}
	}
	for _, part := range []*workflow.Value{asked, most} {
		f := importer.NewFields(part)
		f.Take("cpu")
		f.Take("memory")
		f.Rest(nil, func(key *workflow.Value, _ string) {
			s.Drop(key, "resources: "+importer.Clip(key.Text, 60)+" is not counted", "choose workers that have this resource by group or labels")
		})
	}
	if len(m) == 0 {
		return
	}
	set := importer.Map{{Key: "resources", Value: m}}
	if err := importer.CheckTask(&importer.Task{Settings: set}); err != nil {
		s.Drop(v, "resources: "+err.Error(), "write resources: {cpu: 1, memory: 1Gi}")
		return
	}
	t.Settings = append(t.Settings, set...)
	if different {
		s.Approximate(v, "resources: the request and the limit are one value here. The limit is used if there is one; the task has that much reserved, and gets no more")
	}
}

// policy reads the timeouts and retries of a template.
func (d *sheet) policy(t *importer.Task, f *importer.Fields) {
	if v := f.Take("activeDeadlineSeconds"); v != nil {
		if n, ok := importer.Int(v); ok && n > 0 {
			t.Settings.Add("timeout", importer.Seconds(n))
		} else {
			d.Drop(v, "activeDeadlineSeconds: the value is not a literal number", "write timeout: 10m")
		}
	} else if v := f.Take("timeout"); v != nil {
		if n, err := workflow.ParseDuration(v.Str()); err == nil {
			t.Settings.Add("timeout", importer.Raw(n.String()))
		} else {
			d.Drop(v, "timeout: the value is not a literal duration", "write timeout: 10m")
		}
	}
	v := f.Take("retryStrategy")
	if v == nil {
		return
	}
	r := importer.NewFields(v)
	limit, ok := importer.Int(r.Take("limit"))
	if !ok {
		limit = 10_000
		t.Approximate("the task is retried at most 10,000 times; the file has no limit")
	}
	m := importer.Map{{Key: "max", Value: number(min(max(limit, 0), 10_000))}}
	if p := r.Take("retryPolicy"); p != nil && p.Str() != "Always" && p.Str() != "OnFailure" {
		d.Drop(p, "retryPolicy "+importer.Clip(p.Str(), 30)+": here any failure is retried, and lost attempts always run again", "name exit codes under on_exit")
	}
	d.backoff(&m, r.Take("backoff"))
	r.Rest(map[string]string{"expression": "the importer does not convert retries that depend on an expression; name exit codes under on_exit", "affinity": "a retry may run on the same worker"}, d.drop("retryStrategy."))
	t.Settings.Add("retry", m)
}

func (d *sheet) backoff(m *importer.Map, v *workflow.Value) {
	if v == nil {
		return
	}
	f := importer.NewFields(v)
	read := func(key string) (workflow.Duration, bool) {
		at := f.Take(key)
		if at == nil {
			return 0, false
		}
		text := at.Str()
		if _, err := strconv.Atoi(text); err == nil {
			text += "s"
		}
		n, err := workflow.ParseDuration(text)
		if err != nil || n == 0 {
			d.Drop(at, "backoff."+key+": the value is not a literal duration", "write a duration such as 10s")
			return 0, false
		}
		return n, true
	}
	delay, ok := read("duration")
	if ok {
		m.Add("delay", importer.Raw(delay.String()))
	}
	if at := f.Take("factor"); at != nil {
		if n, err := strconv.ParseFloat(at.Str(), 64); err == nil && n >= 1 && n <= 100 {
			m.Add("backoff", importer.Raw(fmt.Sprintf("%g", n)))
		} else {
			d.Drop(at, "backoff.factor: the value is not a number from 1 to 100", "write backoff: 2")
		}
	}
	if most, ok := read("cap"); ok {
		m.Add("max_delay", importer.Raw(max(most, delay).String()))
	}
	if at := f.Take("maxDuration"); at != nil {
		d.Drop(at, "backoff.maxDuration: the total time of retries has no limit here", "limit their number with max, or the run with timeout")
	}
}
