package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strings"
	"testing"
)

// receiverMethodsMax bounds the methods of one type. A type with more does several things: give each its own
// type.
const receiverMethodsMax = 60

// wideReceivers lists the types that have more, with their limits. The limits are a ratchet: lower them when
// a type shrinks, and never raise them.
var wideReceivers = map[string]int{
	"cmd/skein.cli":                213,
	"internal/dag.Run":             198,
	"internal/engine.Engine":       90,
	"internal/engine.writer":       119,
	"internal/home.Home":           119,
	"internal/server.Server":       181,
	"internal/store/memory.Store":  96,
	"internal/store/postgres.DB":   120,
	"internal/store/sqlite.DB":     145,
	"internal/store/storetest.bed": 70,
	"sdk/go.Client":                116,
}

func TestReceivers(t *testing.T) {
	methods := map[string]int{}
	goFiles(t, func(dir, file string) {
		if strings.HasSuffix(file, "_test.go") {
			return
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil {
				methods[dir+"."+receiver(fn.Recv.List[0].Type)]++
			}
		}
	})
	for name, n := range methods {
		if limit, wide := wideReceivers[name]; wide {
			ratchet(t, "methods of "+name, n, limit)
		} else if n > receiverMethodsMax {
			t.Errorf("%s has %d methods, the limit is %d", name, n, receiverMethodsMax)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wideReceivers)) {
		if methods[name] <= receiverMethodsMax {
			t.Errorf("%s has %d methods: take it from the list of wide types", name, methods[name])
		}
	}
}

// receiver returns the name of a method's type.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return "?"
}
