package importer

import (
	"regexp"
	"strconv"
	"strings"
)

// Part is a piece of a Text: literal characters, or an expression that is evaluated when the task runs.
type Part struct {
	Lit  string
	Expr string // CEL without ${{ }}; if Expr is set, Lit is empty
}

// Text is a text in which some parts are known only at run time.
type Text []Part

// Lit returns a text whose characters are all known.
func Lit(s string) Text { return Text{{Lit: s}} }

// Expr returns a text whose value an expression gives.
func Expr(cel string) Text { return Text{{Expr: cel}} }

// Const returns the characters of the text. It returns false if a part is an expression.
func (t Text) Const() (string, bool) {
	var b strings.Builder
	for _, p := range t {
		if p.Expr != "" {
			return "", false
		}
		b.WriteString(p.Lit)
	}
	return b.String(), true
}

// Template returns the text for a field in which ${{ }} is evaluated.
func (t Text) Template() string {
	var b strings.Builder
	for _, p := range t {
		if p.Expr != "" {
			b.WriteString("${{ " + p.Expr + " }}")
		} else {
			b.WriteString(Literal(p.Lit))
		}
	}
	return b.String()
}

// CEL returns the text as a CEL expression.
func (t Text) CEL() string {
	if len(t) == 0 {
		return `""`
	}
	parts := make([]string, len(t))
	for i, p := range t {
		if parts[i] = p.Expr; p.Expr == "" {
			parts[i] = strconv.Quote(p.Lit)
		}
	}
	return strings.Join(parts, " + ")
}

var simpleName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Member returns NAME.KEY for an expression, or NAME["KEY"] where CEL would not accept KEY as a name.
func Member(name, key string) string {
	if simpleName.MatchString(key) && !celReserved[key] {
		return name + "." + key
	}
	return name + `["` + key + `"]`
}

var celReserved = map[string]bool{"true": true, "false": true, "null": true, "in": true, "as": true, "break": true, "const": true,
	"continue": true, "else": true, "for": true, "function": true, "if": true, "import": true, "let": true, "loop": true,
	"package": true, "namespace": true, "return": true, "var": true, "void": true, "while": true}

// TaskState returns the expression for the state of a task.
func TaskState(task string) string { return Member("tasks", task) + ".state" }

// TaskOutput returns the expression for an output of a task.
func TaskOutput(task, key string) string { return Member(Member("tasks", task)+".outputs", key) }
