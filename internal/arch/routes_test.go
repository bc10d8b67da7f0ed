package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"skein.dev/skein/internal/access"
)

// registered is a route that the server registers with its whole path.
var registered = regexp.MustCompile(`\b\w+\.(get|put|verb|delete)\("(/[^"]+)", "`)

// TestRoutesHaveRows checks that each route of the server has a row in the table of access. server.New checks
// the same at the start of a server; this test needs no server.
func TestRoutesHaveRows(t *testing.T) {
	rows := map[string]bool{}
	for _, r := range access.Table() {
		rows[r.Method+" "+r.Path] = true
	}
	files, err := filepath.Glob(filepath.Join(repoRoot(t), "internal", "server", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	methods, found := map[string]string{"get": "GET", "put": "PUT", "verb": "POST", "delete": "DELETE"}, 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, m := range registered.FindAllStringSubmatch(string(text), -1) {
			found++
			if name := methods[m[1]] + " /api/v1" + m[2]; !rows[name] {
				t.Errorf("%s: the route %s has no row in internal/access/rows.go: add one, with the verb that a caller needs",
					filepath.Base(file), name)
			}
		}
	}
	if found < 50 {
		t.Errorf("only %d routes are found: the pattern is out of date", found)
	}
}
