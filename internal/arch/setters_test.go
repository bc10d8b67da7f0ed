package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// setters are the exported methods that assign an argument to a field of their receiver: they set data, which
// are the purpose of the type, and not a part that the type needs.
var setters = map[string]bool{
	"internal/dag.Run.PutClaim": true, // the claim is a value in the row of the run
	"internal/dag.Run.Step":     true, // the effects of this step, for the length of the call
}

// TestNoSettersOfParts: a constructor takes what its type needs. A method that gives a value another part after
// its construction leaves a time in which the value is incomplete, and nothing says when that time ends. If two
// parts need each other, the one that is made first gets an interface whose implementation is filled in at one
// place: see inside in internal/app.
func TestNoSettersOfParts(t *testing.T) {
	found := map[string]bool{}
	goFiles(t, func(dir, file string) {
		if strings.HasSuffix(file, "_test.go") {
			return
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil || fn.Body == nil || !fn.Name.IsExported() {
				continue
			}
			field := assignedPart(fn)
			if field == "" {
				continue
			}
			name := dir + "." + receiver(fn.Recv.List[0].Type) + "." + fn.Name.Name
			if found[name] = true; !setters[name] {
				t.Errorf("%s: %s assigns its argument to the field %s: give the part to the constructor", fset.Position(fn.Pos()), name, field)
			}
		}
	})
	for name := range setters {
		if !found[name] {
			t.Errorf("%s assigns nothing any more: take it from the list", name)
		}
	}
}

// assignedPart returns the field of the receiver to which a method assigns one of its parameters, if the type of
// the parameter may be a part: neither a number nor a text. It returns "" if there is none.
func assignedPart(fn *ast.FuncDecl) string {
	if len(fn.Recv.List[0].Names) == 0 {
		return ""
	}
	recv, params := fn.Recv.List[0].Names[0].Name, map[string]bool{}
	for _, p := range fn.Type.Params.List {
		for _, name := range p.Names {
			params[name.Name] = mayBePart(p.Type)
		}
	}
	for _, s := range fn.Body.List {
		assign, ok := s.(*ast.AssignStmt)
		if !ok || len(assign.Lhs) != len(assign.Rhs) {
			continue
		}
		for i := range assign.Lhs {
			to, isField := assign.Lhs[i].(*ast.SelectorExpr)
			from, isName := assign.Rhs[i].(*ast.Ident)
			if !isField || !isName || !params[from.Name] {
				continue
			}
			if of, ok := to.X.(*ast.Ident); ok && of.Name == recv {
				return to.Sel.Name
			}
		}
	}
	return ""
}

// mayBePart reports whether a type may be an interface, a function, or a pointer to a part.
func mayBePart(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return ast.IsExported(e.Name) || e.Name == "any"
	case *ast.SelectorExpr:
		from, ok := e.X.(*ast.Ident)
		return !ok || from.Name != "time" // a duration is a number
	case *ast.StarExpr, *ast.FuncType, *ast.InterfaceType:
		return true
	}
	return false
}
