package arch

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
)

// Most code is small everywhere. The quality of a program shows in its largest files, functions and
// interfaces, so their sizes are bounded.
const (
	fileLinesMax     = 600
	testFileLinesMax = 1200
	funcLinesMax     = 70
	testFuncLinesMax = 150
	methodsMax       = 20
	paramsMax        = 5 // in addition to ctx and t
	// wiringLinesMax bounds internal/app, which only puts parts together. Code that decides, implements a
	// protocol or has its own state belongs into a separate package.
	wiringLinesMax = 3000
)

// wider lists the exceptions that may be larger, with the reasons. Keys are file:name.
var wider = map[string]string{}

func TestSizes(t *testing.T) {
	root, wiring := repoRoot(t), 0
	goFiles(t, func(dir, file string) {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(src[:min(len(src), 500)], []byte("Code generated")) {
			return
		}
		test := strings.HasSuffix(file, "_test.go") || dir == "internal/store/storetest"
		lines, limit := bytes.Count(src, []byte("\n")), fileLinesMax
		if dir == "internal/app" && !test {
			wiring += lines
		}
		if test {
			limit = testFileLinesMax
		}
		if lines > limit {
			t.Errorf("%s has %d lines, the limit is %d", file, lines, limit)
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, file, src, 0)
		if err != nil {
			t.Fatal(err)
		}
		rel := strings.TrimPrefix(strings.TrimPrefix(file, root), "/")
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				checkFunc(t, set, rel, n, test)
			case *ast.TypeSpec:
				if i, ok := n.Type.(*ast.InterfaceType); ok && i.Methods.NumFields() > methodsMax && wider[rel+":"+n.Name.Name] == "" {
					t.Errorf("%s: interface %s has %d methods, the limit is %d", rel, n.Name.Name, i.Methods.NumFields(), methodsMax)
				}
			}
			return true
		})
	})
	if wiring == 0 || wiring > wiringLinesMax {
		t.Errorf("internal/app has %d lines without its tests, the limit is %d", wiring, wiringLinesMax)
	}
}

func checkFunc(t *testing.T, set *token.FileSet, file string, f *ast.FuncDecl, test bool) {
	t.Helper()
	if wider[file+":"+f.Name.Name] != "" {
		return
	}
	lines, limit := set.Position(f.End()).Line-set.Position(f.Pos()).Line+1, funcLinesMax
	if test {
		limit = testFuncLinesMax
	}
	if lines > limit {
		t.Errorf("%s: %s has %d lines, the limit is %d", file, f.Name.Name, lines, limit)
	}
	params := 0
	for _, p := range f.Type.Params.List {
		params += max(len(p.Names), 1)
		if s, ok := p.Type.(*ast.SelectorExpr); ok && s.Sel.Name == "Context" {
			params--
		}
		if s, ok := p.Type.(*ast.StarExpr); ok {
			if sel, ok := s.X.(*ast.SelectorExpr); ok && (sel.Sel.Name == "T" || sel.Sel.Name == "B") {
				params--
			}
		}
	}
	if params > paramsMax {
		t.Errorf("%s: %s has %d parameters, the limit is %d", file, f.Name.Name, params, paramsMax)
	}
}

// TestPure: the packages that decide never read a clock, start a goroutine or range over a
// channel.
func TestPure(t *testing.T) {
	clocks := []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}
	goFiles(t, func(dir, file string) {
		if !pure[dir] || strings.HasSuffix(file, "_test.go") {
			return
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt, *ast.SendStmt, *ast.SelectStmt:
				t.Errorf("%s: concurrency in a pure package", set.Position(n.Pos()))
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && contains(clocks, n.Sel.Name) {
					t.Errorf("%s: time.%s in a pure package", set.Position(n.Pos()), n.Sel.Name)
				}
			case *ast.FuncDecl:
				if n.Name.Name == "init" && n.Recv == nil {
					t.Errorf("%s: init", set.Position(n.Pos()))
				}
			}
			return true
		})
	})
}

// TestNoInit checks that the import of a package has no effect: no package has an init function.
func TestNoInit(t *testing.T) {
	goFiles(t, func(_, file string) {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if ast.IsGenerated(f) { // generated code of protocol buffers registers its types
			return
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				t.Errorf("%s has an init function", file)
			}
		}
	})
}
