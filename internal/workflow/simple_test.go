package workflow

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// compareSimple reads a text in both ways, and reports whether parseSimple accepted it.
func compareSimple(t testing.TB, text string) bool {
	t.Helper()
	s, ok := newSource([]byte(text), "")
	if !ok {
		return false
	}
	s.anchors = map[string]anchor{}
	whole := chunk{text: s.text, line: 1}
	got, ok := s.parseSimple(whole)
	if len(s.errs) > 0 {
		t.Fatalf("it found faults: %v\n%s", s.errs, text)
	}
	if !ok {
		return false
	}
	want := s.parseYAML(whole)
	if len(s.errs) > 0 {
		t.Fatalf("YAML refuses what was taken: %v\n%s", s.errs, text)
	}
	if is, right := printNode(got), printNode(want); is != right {
		t.Fatalf("not as in YAML:\n%s\nin place of\n%s\nof\n%s", is, right, text)
	}
	return true
}

// printNode returns all fields of a node, as text.
func printNode(n *node) string {
	var b strings.Builder
	var all func(n *node)
	all = func(n *node) {
		fmt.Fprintf(&b, "(%d:%d kind %d %q plain %v block %v broken %v", n.line, n.col, n.kind, n.text, n.plain, n.block, n.broken)
		for _, list := range [][]*node{n.keys, n.vals} {
			b.WriteString("\n ")
			for _, v := range list {
				all(v)
			}
		}
		b.WriteString(")")
	}
	all(n)
	return b.String()
}

// simpleTexts are texts that parseSimple accepts, and texts that it leaves to the parser.
var simpleTexts = []struct {
	text   string
	simple bool
}{
	{"a: b\n", true},
	{"  a: b c\n  d:   e\n", true},
	{"a:\n  b: 1\n  c:\n    d: true\ne: null\nf: 0x1F\ng: 1_000\nh: 1e3\n", true},
	{"a: [b, c]\nd: {e: f, g: [1, \"x y\"], h: '${{ params.day }}'}\n", true},
	{"needs:\n- a\n- b\nenv:\n  - c\n", true},
	{"a: echo \"hello 5\" | cat && x=y:z\nb: ${{ params.day }}\nc: /bin/true\n", true},
	{"a:\n\n  b: 06:00\n\n\n  c: 2026-11-25\n", true},
	{"a: b \n", false},
	{"a: [b, c,]\n", false},
	{"a: []\n", false},
	{"a: b: c\n", false},
	{"a: b # c\n", false},
	{"# c\na: b\n", false},
	{"a: b\n  c\n", false},
	{"a: |\n  c\n", false},
	{"a: &b c\n", false},
	{"a: *b\n", false},
	{"a: !b c\n", false},
	{"<<: {a: b}\n", false},
	{"? a\n", false},
	{"a:\n", false},
	{"a:\nb: c\n", false},
	{"a:\n    b: c\n  d: e\n", false},
	{"a: b\n c: d\n", false},
	{"  a: b\nc: d\n", false},
	{"a: \"b\\n\"\n", false},
	{"a: 'b''c'\n", false},
	{"a: \"b\" c\n", false},
	{"a: b\tc\n", false},
	{"a: ü\n", false},
	{"- a\n- b\n", false},
	{"a:\n  - b: c\n", false},
	{"a:\n  -\n", false},
	{"a: {b: c\n", false},
	{"a: {b c}\n", false},
	{"a: {b:c}\n", false},
	{"a: [b: c]\n", false},
	{"a: [06:00]\n", false},
	{"a: b:\n", false},
	{"a: -\n", false},
}

func TestSimple(t *testing.T) {
	for _, c := range simpleTexts {
		if got := compareSimple(t, c.text); got != c.simple {
			t.Errorf("%q is of the plain kind: %v", c.text, got)
		}
	}
	deep := strings.Repeat("[", depthMax)
	if compareSimple(t, "a: "+deep+"b"+strings.Repeat("]", depthMax)+"\n") {
		t.Error("it takes what is nested too deep")
	}
	if compareSimple(t, strings.Repeat("a: b\n", chunkKeysMax+1)) {
		t.Error("it takes too many keys")
	}
}

// TestSimpleFiles reads each piece of the examples, and of the files of tests, in both ways.
func TestSimpleFiles(t *testing.T) {
	taken, all := 0, 0
	compare := func(s *source, c chunk) {
		all++
		if compareSimple(t, c.text) {
			taken++
		}
	}
	err := filepath.WalkDir("../..", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() && e.Name() == "node_modules" {
			return fs.SkipDir
		}
		if ext := filepath.Ext(path); e.IsDir() || ext != ".yaml" && ext != ".yml" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		s, ok := newSource(text, path)
		if !ok {
			return nil
		}
		s.tasksMax = 1000
		for _, d := range s.documents() {
			for _, c := range append(d.top, d.tasks...) {
				compare(s, c)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d of %d pieces are of the plain kind", taken, all)
	if taken < 50 {
		t.Errorf("only %d of %d pieces are of the plain kind", taken, all)
	}
}

// FuzzSimple searches for a text that the YAML parser reads differently.
func FuzzSimple(f *testing.F) {
	for _, c := range simpleTexts {
		f.Add(c.text)
	}
	f.Fuzz(func(t *testing.T, text string) { compareSimple(t, text) })
}
