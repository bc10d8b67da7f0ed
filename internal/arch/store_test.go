package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// storeInterfaceMax bounds the methods of each interface of the store's contract, those of embedded ones
// included.
const storeInterfaceMax = 20

// TestStoreInterfaces: an interface of the contract is small enough to be read at once. Only Store, which
// joins all of them, has more methods, and its only own method is Close.
func TestStoreInterfaces(t *testing.T) {
	declared := map[string]*ast.InterfaceType{}
	files, err := filepath.Glob(filepath.Join(repoRoot(t), "internal", "store", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if i, ok := spec.Type.(*ast.InterfaceType); ok {
					declared[spec.Name.Name] = i
				}
			}
			return true
		})
	}
	if declared["Store"] == nil {
		t.Fatal("there is no interface Store")
	}
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		own, all := 0, 0
		for _, m := range declared[name].Methods.List {
			if _, embeds := m.Type.(*ast.Ident); embeds {
				continue
			}
			own++
		}
		all = flattened(declared, name)
		switch {
		case name == "Store":
			t.Logf("Store joins %d methods", all)
			if own != 1 {
				t.Errorf("Store has %d methods of its own: put them into the interface of their kind", own)
			}
		case all > storeInterfaceMax:
			t.Errorf("%s has %d methods, the limit is %d", name, all, storeInterfaceMax)
		}
	}
}

// flattened counts the methods of an interface and of those that it embeds.
func flattened(declared map[string]*ast.InterfaceType, name string) (n int) {
	for _, m := range declared[name].Methods.List {
		if id, embeds := m.Type.(*ast.Ident); embeds {
			n += flattened(declared, id.Name)
		} else {
			n += len(m.Names)
		}
	}
	return n
}

// TestCapabilities: only store.Can looks for the parts of a store by type, so one struct says what an engine
// can do.
func TestCapabilities(t *testing.T) {
	parts := map[string]bool{}
	goFiles(t, func(dir, file string) {
		if dir != "internal/store" || filepath.Base(file) != "can.go" {
			return
		}
		for _, assertion := range assertions(t, file) {
			if id, ok := assertion.Type.(*ast.Ident); ok {
				parts[id.Name] = true
			}
		}
	})
	if len(parts) == 0 {
		t.Fatal("store.Can finds no part")
	}
	goFiles(t, func(dir, file string) {
		if strings.HasSuffix(file, "_test.go") || dir == "internal/store" || dir == "internal/store/storetest" {
			return
		}
		for _, assertion := range assertions(t, file) {
			sel, ok := assertion.Type.(*ast.SelectorExpr)
			if !ok {
				continue
			}
			if pkg, ok := sel.X.(*ast.Ident); ok && pkg.Name == "store" && parts[sel.Sel.Name] {
				t.Errorf("%s looks for store.%s by type: use store.Can", file, sel.Sel.Name)
			}
		}
	})
}

func assertions(t *testing.T, file string) (all []*ast.TypeAssertExpr) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if a, ok := n.(*ast.TypeAssertExpr); ok && a.Type != nil {
			all = append(all, a)
		}
		return true
	})
	return all
}
