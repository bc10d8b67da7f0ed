package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestDoorsPage checks that the tests that docs/internal/doors.md names exist.
func TestDoorsPage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(repoRoot(t), "docs", "internal", "doors.md"))
	if err != nil {
		t.Fatal(err)
	}
	tests, named := testNames(t), 0
	for _, name := range regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)[A-Z]\w*`).FindAllString(string(text), -1) {
		if named++; !tests[name] {
			t.Errorf("there is no test %s", name)
		}
	}
	if named < 100 {
		t.Errorf("the page names %d tests: it has another form by now", named)
	}
}
