package arch

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// recordsMax bounds the decision records. A step of an earlier decision extends its record.
const recordsMax = 40

// TestRecords checks the number and the form of the decision records, and that docs/decisions/README.md lists
// all of them.
func TestRecords(t *testing.T) {
	dir := filepath.Join(repoRoot(t), "docs", "decisions")
	list, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "[0-9]*.md"))
	if err != nil || len(files) == 0 || len(files) > recordsMax {
		t.Fatalf("%d decision records (%v), the limit is %d: extend the record of the decision that yours is a step of", len(files), err, recordsMax)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name, last := filepath.Base(file), -1
		if !strings.Contains(string(list), "]("+name+") |") {
			t.Errorf("README.md does not list %s", name)
		}
		for _, part := range []string{"# " + name[:3] + ". ", "\n**Status.**", "\n**Context.**", "\n**Decision.**", "\n**Alternatives.**", "\n**Consequences.**"} {
			at := strings.Index(string(text), part)
			if at <= last && !(at == 0 && last == -1) {
				t.Errorf("%s: %q is missing, or not in its place", name, strings.TrimSpace(part))
			}
			last = max(at, last)
		}
	}
}

// docLink is a link of a page to a file: [text](path#heading).
var docLink = regexp.MustCompile(`\]\(([^)\s:#]+)(?:#[^)\s]*)?\)`)

// TestDocLinks checks that the files to which pages link exist.
func TestDocLinks(t *testing.T) {
	root := repoRoot(t)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			switch d.Name() {
			case ".git", "node_modules", "bin", "dist", ".skein":
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(path) != ".md" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range docLink.FindAllStringSubmatch(outsideCode(string(text)), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), m[1])); err != nil {
				t.Errorf("%s links to %s, which is not there", strings.TrimPrefix(path, root+"/"), m[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// outsideCode takes blocks and spans of code out of a page.
func outsideCode(page string) string {
	var b strings.Builder
	for i, block := range strings.Split(page, "```") {
		if i%2 == 1 {
			continue
		}
		for k, span := range strings.Split(block, "`") {
			if k%2 == 0 {
				b.WriteString(span)
			}
		}
	}
	return b.String()
}
