package api_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"

	api "skein.dev/skein/sdk/api/v1"
)

// TestProblemKinds checks that the table of problems covers the constants, because the documentation is
// generated from the table.
func TestProblemKinds(t *testing.T) {
	constants := map[string]bool{}
	for _, kind := range problemConstants(t) {
		constants[kind] = true
	}
	if len(constants) < 20 {
		t.Fatalf("only %d constants were found", len(constants))
	}
	codeForm := regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)
	for _, k := range api.ProblemKinds() {
		if !constants[k.Type] {
			t.Errorf("%s is no constant, or is in the table twice", k.Type)
		}
		delete(constants, k.Type)
		p := api.NewProblem(k.Type, k.Status[0], "the sentence")
		if !codeForm.MatchString(p.Code) || p.Type != k.Type || p.Title != k.Title || p.Status != k.Status[0] || p.Detail != "the sentence" {
			t.Errorf("%+v", p)
		}
		if k.Title == "" || !strings.HasSuffix(k.Meaning, ".") || !strings.HasSuffix(k.Remedy, ".") {
			t.Errorf("%s: want a title, and a meaning and a remedy in whole sentences", k.Type)
		}
	}
	for kind := range constants {
		t.Errorf("%s is not in the table", kind)
	}
	if code := api.CodeOf("about:blank"); code != "" {
		t.Errorf("a foreign type has the code %q", code)
	}
}

// problemConstants returns the values of the constants whose names begin with Problem.
func problemConstants(t *testing.T) (values []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "problem.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Problem") || len(spec.Values) != 1 {
			return true
		}
		value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		values = append(values, value)
		return true
	})
	return values
}
