package dagu

import (
	"regexp"
	"slices"
	"strings"

	"skein.dev/skein/internal/importer"
	"skein.dev/skein/internal/workflow"
)

// reference matches ${a.b.c}, ${NAME} or $NAME at the beginning of a text.
var reference = regexp.MustCompile(`^\$(?:\{([A-Za-z0-9_][A-Za-z0-9_.-]*)\}|([A-Za-z_][A-Za-z0-9_]*|[1-9]))`)

// lookup returns the value of a reference. If there is no value, missing says why. plain is true if sh knows
// the variable by the same name.
func (d *dag) lookup(name string, s *step) (value importer.Text, plain bool, missing string) {
	if rest, ok := strings.CutPrefix(name, "params."); ok {
		name = rest
	} else if rest, ok := strings.CutPrefix(name, "env."); ok {
		name = rest
	}
	if key, ok := d.params[name]; ok {
		return importer.Expr(importer.Member("params", key)), key == name, ""
	}
	if s != nil {
		if v, missing, ok := s.itemText(name); ok {
			return v, false, missing
		}
		if v, ok := s.env[name]; ok {
			return v, true, ""
		}
		if v, plain, missing, known := d.fromStep(name, s); known {
			return v, plain, missing
		}
	}
	if v, ok := d.env[name]; ok {
		return v, !strings.HasPrefix(name, "consts."), ""
	}
	switch name {
	case "DAG_RUN_ID", "DAGU_RUN_ID", "context.run.id", "context.run_id":
		return importer.Expr("run.id"), false, ""
	case "DAG_NAME", "context.dag.name":
		return importer.Expr("run.workflow"), false, ""
	case "DAG_RUN_STEP_NAME", "DAGU_STEP_NAME", "context.step.name":
		if s != nil {
			return importer.Lit(s.task.Name), false, ""
		}
	case "ITEM":
		return nil, false, "the step is not repeated, so it has no item"
	}
	if strings.Contains(name, ".") || strings.HasPrefix(name, "DAG_") || strings.HasPrefix(name, "DAGU_") && !strings.HasPrefix(name, "DAGU_OUTPUT") {
		return nil, false, "${" + importer.Clip(name, 60) + "} has no value in Skein"
	}
	return nil, true, ""
}

// fromStep returns a value of another step: its output variable, or ${ID.outputs.NAME}.
func (d *dag) fromStep(name string, s *step) (value importer.Text, plain bool, missing string, known bool) {
	if v, plain, ok := d.entered(name, s); ok {
		return v, plain, "", true
	}
	from, output, member := d.producer(name, s)
	switch {
	case from == nil:
		path := strings.Split(strings.TrimPrefix(name, "steps."), ".")
		if _, ok := d.steps[path[0]]; !ok || len(path) < 2 {
			return nil, false, "", false
		}
		return nil, false, "${" + importer.Clip(name, 60) + "} is no output that the step declares; write it to $SKEIN_OUTPUT in the step", true
	case from.opaque != "":
		return nil, false, "${" + importer.Clip(name, 60) + "}: " + from.opaque, true
	case member != "":
		return importer.Expr(from.asJSON(output) + member), false, "", true
	case from.asksPerson():
		return nil, false, "${" + importer.Clip(name, 60) + "} is no value that a person enters in that step (input)", true
	case from.sends:
		return importer.Expr(importer.TaskOutput(from.task.Name, "body")), name == output, "", true
	}
	return importer.Expr(importer.TaskOutput(from.task.Name, output)), name == output, "", true
}

// entered returns a value that a person has entered for an earlier step: by its name, or as ID.outputs.NAME.
// plain is true if sh knows the variable by that name.
func (d *dag) entered(name string, s *step) (value importer.Text, plain, ok bool) {
	path := strings.Split(strings.TrimPrefix(name, "steps."), ".")
	if len(path) == 3 && path[1] == "outputs" {
		if o := d.steps[path[0]]; o != nil && slices.Contains(o.asked, path[2]) {
			return o.answer(path[2]), false, true
		}
	}
	for i := len(d.order) - 1; i >= 0; i-- {
		if o := d.order[i]; o != s && slices.Contains(o.asked, name) && (s.handler || s.after(o)) {
			return o.answer(name), true, true
		}
	}
	return nil, false, false
}

// producer returns the step whose output a reference reads. The reference is the variable of an earlier
// step, or ID.outputs.NAME. member is the rest of the path, if the value is JSON.
func (d *dag) producer(name string, s *step) (from *step, output, member string) {
	variable, rest, dotted := strings.Cut(name, ".")
	if o, ok := d.outputOf(variable, s); ok {
		if dotted {
			member = "." + rest
		}
		if !dotted || memberPath.MatchString(member) {
			return o, o.output, member
		}
	}
	path := strings.Split(strings.TrimPrefix(name, "steps."), ".")
	o, ok := d.steps[path[0]]
	switch {
	case !ok || len(path) < 2:
	case len(path) == 3 && path[1] == "outputs" && o.calls:
		if !slices.Contains(o.task.Outputs, path[2]) && simpleName.MatchString(path[2]) {
			o.task.Outputs = append(o.task.Outputs, path[2])
			o.task.Approximate("the output " + path[2] + " must be an output of the last tasks of the called workflow")
		}
		return o, path[2], ""
	case len(path) == 3 && path[1] == "outputs" && (o.declares(path[2]) || o.asksPerson()):
		return o, path[2], ""
	case len(path) == 2 && path[1] == "output" && o.output != "":
		return o, o.output, ""
	}
	return nil, "", ""
}

// memberPath matches a path of member names.
var memberPath = regexp.MustCompile(`^(\.[A-Za-z_][A-Za-z0-9_]*)+$`)

// outputOf returns the last step before s, in the graph, that sets a variable.
func (d *dag) outputOf(name string, s *step) (*step, bool) {
	for i := len(d.order) - 1; i >= 0; i-- {
		if o := d.order[i]; o != s && o.output == name && (s.handler || s.after(o)) {
			return o, true
		}
	}
	return nil, false
}

// value converts a text in which Dagu itself replaces ${…}, without a shell.
func (d *dag) value(at *workflow.Value, text string, s *step) importer.Text {
	return d.valueOr(text, s, func(missing string) { d.Drop(at, missing, "use the variable in the script itself") })
}

// valueOr is like value, but calls miss for each reference without a value.
func (d *dag) valueOr(text string, s *step, miss func(missing string)) importer.Text {
	var out importer.Text
	lit := func(piece string) {
		if n := len(out); n > 0 && out[n-1].Expr == "" {
			out[n-1].Lit += piece
			return
		}
		out = append(out, importer.Part{Lit: piece})
	}
	for i := 0; i < len(text); {
		m := reference.FindStringSubmatch(text[i:])
		if m == nil {
			n := strings.IndexByte(text[i+1:], '$') + 1
			if n == 0 {
				n = len(text) - i
			}
			lit(text[i : i+n])
			i += n
			continue
		}
		value, _, missing := d.lookup(m[1]+m[2], s)
		if missing == "" && value == nil {
			missing = "$" + m[1] + m[2] + " is not set in the file, and a value here does not read the machine's variables"
		}
		if missing != "" {
			miss(missing)
			lit(m[0])
		}
		for _, p := range value {
			if p.Expr == "" {
				lit(p.Lit)
			} else {
				out = append(out, p)
			}
		}
		i += len(m[0])
	}
	if out == nil {
		return importer.Lit("")
	}
	return out
}

// script replaces the references in a script with variables of its task.
func (d *dag) script(text string, s *step) string {
	out, err := importer.Shell(text, func(rest string) (string, int, bool) {
		if rest[0] != '$' {
			return "", 0, false
		}
		m := reference.FindStringSubmatch(rest)
		if m == nil {
			return "", 0, false
		}
		name := m[1] + m[2]
		value, plain, missing := d.lookup(name, s)
		switch {
		case missing != "":
			s.task.Drop(missing, "write the value to $SKEIN_OUTPUT in the task that computes it, or set it in the script")
			return "", 0, false
		case value == nil: // a variable of the machine, or of the script itself
			return "", 0, false
		case !plain || m[1] != "" && strings.Contains(m[1], "."):
			return s.task.Bind(strings.TrimPrefix(name, "steps."), value, text), len(m[0]), false
		}
		s.seen(name, value)
		if m[1] == "" { // in single quotes Dagu replaces only ${NAME}, so $NAME stays as it is
			return "", 0, false
		}
		return name, len(m[0]), true
	})
	if err != nil {
		s.task.Drop(err.Error(), "")
		return text
	}
	return out
}
