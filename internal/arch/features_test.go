package arch

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// featureRow is one item of docs/features.md.
var featureRow = regexp.MustCompile(`^\| ((?:JC|S2|DSA|HT)-\d+) \| (.+?) \| (done|partly|planned)( \([a-z, -]+\))? \| (.*?) \| (.*?) \|$`)

// items is how many items each of the four systems has.
var items = map[string]int{"JC": 42, "S2": 46, "DSA": 53, "HT": 15}

// TestFeatureTable checks the acceptance table as far as a test can: each item is listed once, the counts are
// right, and each named place and test exists.
func TestFeatureTable(t *testing.T) {
	root := repoRoot(t)
	text, err := os.ReadFile(filepath.Join(root, "docs", "features.md"))
	if err != nil {
		t.Fatal(err)
	}
	tests := testNames(t)
	seen, states := map[string]bool{}, map[string]int{}
	for _, line := range strings.Split(string(text), "\n") {
		m := featureRow.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		id, state, place, test := m[1], m[3], m[5], m[6]
		if seen[id] {
			t.Errorf("%s is there twice", id)
		}
		seen[id] = true
		states[state]++
		if state == "planned" {
			continue
		}
		for _, p := range strings.Split(place, ", ") {
			if _, err := os.Stat(filepath.Join(root, p)); err != nil {
				t.Errorf("%s: place %q does not exist", id, p)
			}
		}
		for _, name := range strings.Split(test, ", ") {
			if !tests[name] && !strings.HasPrefix(test, "docs/decisions/") {
				t.Errorf("%s: there is no test %q", id, name)
			}
		}
	}
	for system, n := range items {
		for i := 1; i <= n; i++ {
			if id := fmt.Sprintf("%s-%02d", system, i); !seen[id] {
				t.Errorf("%s is missing", id)
			}
		}
	}
	summary := fmt.Sprintf("**156 items: %d done, %d partly, %d planned.**", states["done"], states["partly"], states["planned"])
	if !strings.Contains(string(text), summary) {
		t.Errorf("the summary should read %s", summary)
	}
}

// testNames collects every function of a test, and every testscript by its file name.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	decl := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+|Example\w*)\(`)
	goFiles(t, func(_, file string) {
		if !strings.HasSuffix(file, "_test.go") {
			return
		}
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range decl.FindAllSubmatch(src, -1) {
			names[string(m[1])] = true
		}
	})
	scripts, err := filepath.Glob(filepath.Join(repoRoot(t), "*", "*", "testdata", "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range scripts {
		names[filepath.Base(s)] = true
	}
	deep, err := filepath.Glob(filepath.Join(repoRoot(t), "internal", "*", "testdata", "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range deep {
		names[filepath.Base(s)] = true
	}
	return names
}
