package arch

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/printer"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// aliased lists the packages of the SDK module that keep their former import path: the folder of the
// aliases, and that of the package.
var aliased = [][2]string{{".", "sdk/go"}, {"api/v1", "sdk/go/api/v1"}, {"skeintest", "sdk/go/skeintest"}}

// TestAliases checks the packages with the former import paths: each exported name of the SDK has its alias
// there.
func TestAliases(t *testing.T) {
	for _, pair := range aliased {
		file := filepath.Join(repoRoot(t), pair[0], "aliases.go")
		want := aliasesOf(t, pair[1])
		if *update {
			if err := os.WriteFile(file, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		is, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(is, want) {
			t.Errorf("%s differs from the exported names of %s: run go test ./internal/arch -run TestAliases -update", file, pair[1])
		}
	}
}

// aliases collects the exported names of a package.
type aliases struct {
	set     *token.FileSet
	name    string            // name of the package
	imports map[string]string // the imports that the signatures need: paths by names
	types   []string
	consts  []string
	vars    []string
	funcs   []string
}

// aliasesOf returns the text of the file with the aliases of a package.
func aliasesOf(t *testing.T, dir string) []byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(repoRoot(t), dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no Go files: %v", dir, err)
	}
	a := aliases{set: token.NewFileSet(), imports: map[string]string{}}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(a.set, file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		a.name = f.Name.Name
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.IsExported() {
					a.function(t, f, d)
				}
			case *ast.GenDecl:
				a.declared(t, f, d)
			}
		}
	}
	return a.text(t, strings.Replace(module+"/"+dir, "/sdk/go", "/sdk", 1))
}

// declared adds the names of one declaration of types, constants or variables.
func (a *aliases) declared(t *testing.T, f *ast.File, d *ast.GenDecl) {
	t.Helper()
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if spec.Name.IsExported() {
				name := spec.Name.Name
				a.types = append(a.types, name+a.typeParams(t, f, spec.TypeParams)+" = sdk."+name+typeArgs(spec.TypeParams))
			}
		case *ast.ValueSpec:
			for _, name := range spec.Names {
				to := &a.vars
				if d.Tok == token.CONST {
					to = &a.consts
				}
				if name.IsExported() {
					*to = append(*to, name.Name+" = sdk."+name.Name)
				}
			}
		}
	}
}

// function adds a function that calls the one of the SDK.
func (a *aliases) function(t *testing.T, f *ast.File, d *ast.FuncDecl) {
	t.Helper()
	var args []string
	for _, p := range d.Type.Params.List {
		for _, name := range p.Names {
			arg := name.Name
			if _, variadic := p.Type.(*ast.Ellipsis); variadic {
				arg += "..."
			}
			args = append(args, arg)
		}
		if len(p.Names) == 0 || p.Names[0].Name == "_" {
			t.Errorf("%s: %s has a parameter without a name, so its alias cannot pass it on", a.set.Position(d.Pos()), d.Name.Name)
		}
	}
	call := "sdk." + d.Name.Name + typeArgs(d.Type.TypeParams) + "(" + strings.Join(args, ", ") + ")"
	if d.Type.Results.NumFields() > 0 {
		call = "return " + call
	}
	signature := strings.TrimPrefix(a.print(t, f, d.Type), "func")
	a.funcs = append(a.funcs, fmt.Sprintf("// %s calls [sdk.%[1]s].\nfunc %[1]s%s { %s }\n", d.Name.Name, signature, call))
}

func (a *aliases) typeParams(t *testing.T, f *ast.File, list *ast.FieldList) string {
	t.Helper()
	if list == nil {
		return ""
	}
	var all []string
	for _, p := range list.List {
		for _, name := range p.Names {
			all = append(all, name.Name+" "+a.print(t, f, p.Type))
		}
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// typeArgs passes type parameters on.
func typeArgs(list *ast.FieldList) string {
	if list == nil {
		return ""
	}
	var all []string
	for _, p := range list.List {
		for _, name := range p.Names {
			all = append(all, name.Name)
		}
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// print returns the text of a type, and remembers the imports that it needs.
func (a *aliases) print(t *testing.T, f *ast.File, n ast.Expr) string {
	t.Helper()
	ast.Inspect(n, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok {
				a.imports[x.Name] = pathOf(t, f, x.Name)
			}
		}
		return true
	})
	var b bytes.Buffer
	if err := printer.Fprint(&b, a.set, n); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// pathOf returns the path that a file imports under a name.
func pathOf(t *testing.T, f *ast.File, name string) string {
	t.Helper()
	for _, spec := range f.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		if spec.Name != nil && spec.Name.Name == name || spec.Name == nil && path.Base(p) == name {
			return p
		}
	}
	t.Errorf("%s: no import is called %s", f.Name.Name, name)
	return ""
}

func (a *aliases) text(t *testing.T, of string) []byte {
	t.Helper()
	var b bytes.Buffer
	fmt.Fprintf(&b, "// Code generated by go test ./internal/arch -run TestAliases -update. DO NOT EDIT.\n\n")
	fmt.Fprintf(&b, "// Package %s has the names of [%s] under its former import path.\n// New programs import that package.\npackage %[1]s\n\nimport (\n", a.name, of)
	for _, name := range slices.SortedFunc(maps.Keys(a.imports), func(x, y string) int { return strings.Compare(a.imports[x], a.imports[y]) }) {
		if p := a.imports[name]; !strings.Contains(p, ".") {
			fmt.Fprintf(&b, "%q\n", p)
		}
	}
	b.WriteString("\n")
	a.imports["sdk"] = of
	for _, name := range slices.SortedFunc(maps.Keys(a.imports), func(x, y string) int { return strings.Compare(a.imports[x], a.imports[y]) }) {
		if p := a.imports[name]; strings.Contains(p, ".") {
			fmt.Fprintf(&b, "%s %q\n", name, p)
		}
	}
	b.WriteString(")\n\n")
	for _, g := range []struct {
		keyword string
		names   []string
	}{{"type", a.types}, {"const", a.consts}, {"var", a.vars}} {
		if len(g.names) > 0 {
			fmt.Fprintf(&b, "%s (\n%s\n)\n\n", g.keyword, strings.Join(slices.Sorted(slices.Values(g.names)), "\n"))
		}
	}
	slices.Sort(a.funcs)
	b.WriteString(strings.Join(a.funcs, "\n"))
	text, err := format.Source(b.Bytes())
	if err != nil {
		t.Fatalf("%v\n%s", err, b.String())
	}
	return text
}
