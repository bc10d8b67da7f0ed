package workflow

import (
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	celref "github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	"skein.dev/skein/internal/suggest"
)

// refWalk replaces every path that is a ref, in a parsed expression, by a variable with the type of the ref.
// So CEL checks the types that the workflow declares, and an evaluation fetches only the values that it
// reads.
type refWalk struct {
	d      *declarations
	in     scope
	info   *celast.SourceInfo
	base   *cel.Env
	refs   []ref
	types  map[ref]*cel.Type
	faults []complaint
	local  []string // variables of the enclosing macros
}

func (w *refWalk) fault(e celast.Expr, c complaint) {
	if r, ok := w.info.GetOffsetRange(e.ID()); ok {
		c.offset = int(r.Start)
		if e.Kind() == celast.CallKind && !e.AsCall().IsMemberFunction() && plainWord(e.AsCall().FunctionName()) {
			c.offset -= len(e.AsCall().FunctionName()) // CEL's position is that of the parenthesis
		}
	}
	w.faults = append(w.faults, c)
}

func (w *refWalk) visit(e celast.Expr) {
	if path, at := pathOf(e); path != nil && slices.Contains(roots, path[0]) && !slices.Contains(w.local, path[0]) {
		if len(path) <= refLength(path) {
			w.replace(e, at, path)
			return
		}
	}
	switch e.Kind() {
	case celast.IdentKind:
		w.visitIdent(e)
	case celast.SelectKind:
		w.visit(e.AsSelect().Operand())
	case celast.CallKind:
		w.visitCall(e)
	case celast.ListKind:
		for _, x := range e.AsList().Elements() {
			w.visit(x)
		}
	case celast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			w.visit(entry.AsMapEntry().Key())
			w.visit(entry.AsMapEntry().Value())
		}
	case celast.StructKind:
		w.fault(e, complaint{message: "messages are not known here", hint: "write a map such as {\"a\": 1}"})
	case celast.ComprehensionKind:
		w.visitMacro(e.AsComprehension())
	}
}

// pathOf returns the segments of a path such as tasks["a-b"].outputs.rows, and the expression where the path
// begins. It returns nil if e is not such a path.
func pathOf(e celast.Expr) (path []string, at celast.Expr) {
	switch e.Kind() {
	case celast.IdentKind:
		return []string{strings.TrimPrefix(e.AsIdent(), ".")}, e
	case celast.SelectKind:
		if path, at = pathOf(e.AsSelect().Operand()); path != nil {
			return append(path, e.AsSelect().FieldName()), at
		}
	case celast.CallKind:
		c := e.AsCall()
		if c.FunctionName() != operators.Index || c.Args()[1].Kind() != celast.LiteralKind {
			return nil, nil
		}
		key, ok := c.Args()[1].AsLiteral().(types.String)
		if path, at = pathOf(c.Args()[0]); path != nil && ok {
			return append(path, string(key)), at
		}
	}
	return nil, nil
}

func (w *refWalk) replace(e, at celast.Expr, path []string) {
	r, typ, fault := w.d.resolve(path, w.in)
	if fault != nil {
		w.fault(at, *fault)
		return
	}
	if e.Kind() == celast.SelectKind && e.AsSelect().IsTestOnly() {
		if r.kind == secretRef {
			w.fault(at, complaint{message: "has() cannot look at a secret", hint: "read it: an attempt whose secret is missing fails with a clear message"})
			return
		}
		r.has, typ = true, cel.BoolType
	}
	w.put(e, r, typ)
}

func (w *refWalk) put(e celast.Expr, r ref, typ *cel.Type) {
	if _, known := w.types[r]; !known {
		w.types[r] = typ
		w.refs = append(w.refs, r)
	}
	e.SetKindCase(celast.NewExprFactory().NewIdent(e.ID(), r.id()))
}

func (w *refWalk) visitIdent(e celast.Expr) {
	name := e.AsIdent()
	if slices.Contains(w.local, name) || strings.HasPrefix(name, "@") || isTypeName(name) {
		return
	}
	hint := "a text needs quotes"
	if slices.Contains([]string{"success", "failure", "always"}, name) {
		hint = "write " + name + "()"
	} else if near := suggest.Nearest(name, slices.Values(roots)); near != "" {
		hint = "did you mean " + near + "?"
	}
	w.fault(e, complaint{message: "the name " + quoteShort(name) + " is not known", hint: hint})
}

func isTypeName(name string) bool {
	return slices.Contains([]string{"int", "uint", "double", "string", "bytes", "bool", "list", "map", "null_type", "type"}, name)
}

func (w *refWalk) visitCall(e celast.Expr) {
	c := e.AsCall()
	name := c.FunctionName()
	switch name {
	case "success", "failure", "always":
		w.visitStatus(e, name)
		return
	}
	if !w.base.HasFunction(name) {
		w.fault(e, complaint{message: "the function " + quoteShort(name) + " is not known", hint: w.nearFunction(name)})
	}
	if c.IsMemberFunction() {
		w.visit(c.Target())
	}
	args := make([]string, len(c.Args()))
	for i, a := range c.Args() {
		if text, ok := a.AsLiteral().(types.String); ok && a.Kind() == celast.LiteralKind {
			args[i] = string(text)
		}
		w.visit(a)
	}
	if err := checkDateCall(name, args); err != nil && !c.IsMemberFunction() {
		w.fault(e, complaint{message: name + ": " + err.Error()})
	}
}

func (w *refWalk) nearFunction(name string) string {
	known := slices.Sorted(maps.Keys(w.base.Functions()))
	known = slices.DeleteFunc(known, func(f string) bool { return !plainWord(f) })
	if near := suggest.Nearest(name, slices.Values(append(known, "success", "failure", "always", "has"))); near != "" {
		return "did you mean " + near + "()?"
	}
	return ""
}

func plainWord(name string) bool {
	return name != "" && !strings.ContainsAny(name, "_@!-")
}

// visitStatus replaces success(), failure() and always().
func (w *refWalk) visitStatus(e celast.Expr, name string) {
	switch {
	case w.in != inIf:
		w.fault(e, complaint{message: name + "() belongs into if only", hint: "tasks.NAME.state tells how a task ended"})
		return
	case len(e.AsCall().Args()) > 0 || e.AsCall().IsMemberFunction():
		w.fault(e, complaint{message: name + "() takes no arguments: it looks at everything the task needs", hint: "tasks.NAME.state looks at one task"})
		return
	}
	kind := map[string]refKind{"success": successRef, "failure": failureRef, "always": alwaysRef}[name]
	w.put(e, ref{kind: kind}, cel.BoolType)
}

func (w *refWalk) visitMacro(c celast.ComprehensionExpr) {
	w.visit(c.IterRange())
	w.visit(c.AccuInit())
	before := len(w.local)
	w.local = append(w.local, c.AccuVar(), c.IterVar())
	if c.HasIterVar2() {
		w.local = append(w.local, c.IterVar2())
	}
	w.visit(c.LoopCondition())
	w.visit(c.LoopStep())
	w.visit(c.Result())
	w.local = w.local[:before]
}

// variables gives the values of the refs to a program.
type variables struct {
	refs   []ref
	lookup func(ref) celref.Val
	err    error
}

// ResolveName implements interpreter.Activation.
func (v *variables) ResolveName(name string) (any, bool) {
	for _, r := range v.refs {
		if r.id() == name {
			value := v.lookup(r)
			if err := valueError(value); err != nil && v.err == nil {
				v.err = err
			}
			return value, true
		}
	}
	return nil, false
}

// Parent implements interpreter.Activation.
func (v *variables) Parent() interpreter.Activation { return nil }
