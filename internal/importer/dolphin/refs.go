package dolphin

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"skein.dev/skein/internal/importer"
)

// reference matches ${name} or $[date] at the beginning of a text.
var (
	reference    = regexp.MustCompile(`^(?:\$\{[A-Za-z_][A-Za-z0-9_.-]*\}|\$\[[^\]\n]+\])`)
	anyReference = regexp.MustCompile(`\$\{[A-Za-z_][A-Za-z0-9_.-]*\}|\$\[[^\]\n]+\]`)
)

// text replaces the references in a text with expressions. If a reference has no value, missing says why.
func (f *flow) text(n *node, text string) (out importer.Text, missing string) {
	from := 0
	for _, at := range anyReference.FindAllStringIndex(text, -1) {
		value, why, known := f.reference(n, text[at[0]:at[1]])
		if why != "" {
			return nil, why
		}
		if !known {
			return nil, importer.Clip(text[at[0]:at[1]], 60) + " is no parameter of the workflow"
		}
		if at[0] > from {
			out = append(out, importer.Part{Lit: text[from:at[0]]})
		}
		out, from = append(out, value...), at[1]
	}
	if from < len(text) || out == nil {
		out = append(out, importer.Part{Lit: text[from:]})
	}
	return out, ""
}

// reference returns the value of ${name} or $[date]. known is false if no parameter has the name.
func (f *flow) reference(n *node, ref string) (value importer.Text, missing string, known bool) {
	name := ref[2 : len(ref)-1]
	if ref[1] == '[' {
		cel, ok := f.date(strings.ReplaceAll(name, " ", ""))
		if !ok {
			return nil, "the date " + importer.Clip(ref, 60) + " has no counterpart here; write it with the functions for dates", false
		}
		return importer.Expr(cel), "", true
	}
	if strings.HasPrefix(name, "system.") {
		return f.system(n, name)
	}
	if n != nil {
		if local, ok := n.locals[name]; ok {
			if local == ref { // a local parameter may read the global one of the same name
				return f.outer(n, name)
			}
			text, missing := f.withoutLocals(n, local)
			return text, missing, missing == ""
		}
	}
	return f.outer(n, name)
}

// withoutLocals converts the value of a local parameter. The value may name global parameters, but no local
// ones.
func (f *flow) withoutLocals(n *node, text string) (importer.Text, string) {
	bare := *n
	bare.locals = nil
	return f.text(&bare, text)
}

// outer returns a value from an earlier task, or a global parameter.
func (f *flow) outer(n *node, name string) (value importer.Text, missing string, known bool) {
	if n != nil {
		for i := len(f.nodes) - 1; i >= 0; i-- {
			o := f.nodes[i]
			if key, ok := o.gives[name]; ok && n.task != o.task && n.after(o) {
				return importer.Expr(importer.TaskOutput(o.task.Name, key)), "", true
			}
		}
	}
	if key, ok := f.params[name]; ok {
		return importer.Expr(importer.Member("params", key)), "", true
	}
	return nil, "", false
}

// system returns the value of a built-in parameter.
func (f *flow) system(n *node, name string) (value importer.Text, missing string, known bool) {
	zone := strconv.Quote(f.zone)
	switch name {
	case "system.biz.date":
		return importer.Expr(`format(addDays(trigger.time, -1, ` + zone + `), "%Y%m%d", ` + zone + `)`), "", true
	case "system.biz.curdate":
		return importer.Expr(`format(trigger.time, "%Y%m%d", ` + zone + `)`), "", true
	case "system.datetime":
		return importer.Expr(`format(trigger.time, "%Y%m%d%H%M%S", ` + zone + `)`), "", true
	case "system.workflow.instance.id", "system.process.instance.id":
		return importer.Expr("run.id"), "", true
	case "system.workflow.definition.name", "system.process.definition.name":
		return importer.Expr("run.workflow"), "", true
	case "system.task.definition.name":
		if n != nil {
			return importer.Lit(n.task.Name), "", true
		}
	}
	return nil, "${" + importer.Clip(name, 60) + "} has no value in Skein", false
}

// units maps the letters of a Java date format to the placeholders of Skein's format function. Longer ones
// come first.
var units = []struct{ there, here string }{
	{"yyyy", "%Y"}, {"yy", "%y"}, {"MM", "%m"}, {"dd", "%d"}, {"HH", "%H"}, {"mm", "%M"}, {"ss", "%S"},
}

// layout converts a Java date format. It returns false if the format holds anything else.
func layout(text string) (string, bool) {
	var b strings.Builder
next:
	for text != "" {
		for _, u := range units {
			if strings.HasPrefix(text, u.there) {
				b.WriteString(u.here)
				text = text[len(u.there):]
				continue next
			}
		}
		c := text[0]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '%' || c >= 0x80 {
			return "", false
		}
		b.WriteByte(c)
		text = text[1:]
	}
	return b.String(), b.Len() > 0
}

var (
	addMonths = regexp.MustCompile(`^add_months\(([^,()]+),([^()]+)\)$`)
	// shifted matches a date format plus or minus a number of days. Hours and minutes are fractions of a day,
	// such as 1/24.
	shifted = regexp.MustCompile(`^([^+*]+?)([+-])([0-9]+(?:\*[0-9]+)?)(/24(?:/60)?)?$`)
	product = regexp.MustCompile(`^(-?)([0-9]{1,6})(?:\*([0-9]{1,6}))?$`)
)

// count reads N or N*M.
func count(text string) (int64, bool) {
	m := product.FindStringSubmatch(text)
	if m == nil {
		return 0, false
	}
	n, _ := strconv.ParseInt(m[2], 10, 64) // cannot overflow: at most 6 digits
	if m[3] != "" {
		by, _ := strconv.ParseInt(m[3], 10, 64)
		n *= by
	}
	if m[1] == "-" {
		n = -n
	}
	return n, n <= 1_000_000 && n >= -1_000_000
}

// date converts the text between $[ and ].
func (f *flow) date(text string) (string, bool) {
	zone := strconv.Quote(f.zone)
	shown := func(at, form string) (string, bool) {
		out, ok := layout(form)
		return "format(" + at + ", " + strconv.Quote(out) + ", " + zone + ")", ok
	}
	if m := addMonths.FindStringSubmatch(text); m != nil {
		n, ok := count(m[2])
		if !ok {
			return "", false
		}
		return shown(fmt.Sprintf("addMonths(trigger.time, %d, %s)", n, zone), m[1])
	}
	if out, ok := shown("trigger.time", text); ok && !shifted.MatchString(text) {
		return out, true
	}
	m := shifted.FindStringSubmatch(text)
	if m == nil {
		return "", false
	}
	n, ok := count(m[3])
	if !ok {
		return "", false
	}
	if m[2] == "-" {
		n = -n
	}
	switch m[4] {
	case "/24":
		return shown(fmt.Sprintf(`trigger.time + duration("%dh")`, n), m[1])
	case "/24/60":
		return shown(fmt.Sprintf(`trigger.time + duration("%dm")`, n), m[1])
	}
	return shown(fmt.Sprintf("addDays(trigger.time, %d, %s)", n, zone), m[1])
}
