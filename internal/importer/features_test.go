package importer_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"skein.dev/skein/internal/importer"
)

// feature is a case of testdata/features. It names a feature from the public examples of another scheduler,
// and has a small file of our own that uses the feature, and the expected result.
type feature struct {
	title, source, want string
}

// features reads the cases of a kind. Each begins with "## TITLE". The expected result follows "=> ".
func features(t *testing.T, kind string) (all []feature) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata/features", kind+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	titles := map[string]bool{}
	for _, part := range strings.Split("\n"+string(text), "\n## ")[1:] {
		title, rest, _ := strings.Cut(part, "\n")
		source, want, _ := strings.Cut(rest, "\n=> ")
		if title == "" || titles[title] || strings.TrimSpace(source) == "" {
			t.Fatalf("a case %q without a source, or twice", title)
		}
		titles[title] = true
		all = append(all, feature{title, strings.TrimRight(source, "\n") + "\n", strings.TrimRight(want, "\n")})
	}
	return all
}

// becomes imports a file. It returns the worst outcome, its first reason, and the report and the workflows as
// text.
func becomes(t *testing.T, kind string, f *feature) (outcome importer.Outcome, reason, text string) {
	t.Helper()
	r, err := converter(kind)([]byte(f.source), importer.Options{Path: "f.yaml", Zone: "Europe/Berlin"})
	if err != nil {
		t.Fatalf("%s: %v", f.title, err)
	}
	sound(t, r)
	rank := map[importer.Outcome]int{importer.Converted: 1, importer.Approximated: 2, importer.Dropped: 3}
	var b strings.Builder
	for _, l := range r.Lines {
		if rank[l.Outcome] > rank[outcome] { // the report lists the document before its parts
			outcome, reason = l.Outcome, ""
		}
		for _, n := range l.Notes {
			if l.Outcome == outcome && reason == "" && !strings.HasSuffix(n, ", see below") {
				reason = n
			}
		}
		fmt.Fprintf(&b, "%d:%d %s %s %s/%s\n", l.Line, l.Column, l.Kind, l.Outcome, l.Workflow, l.Task)
		for _, n := range l.Notes {
			b.WriteString("    " + n + "\n")
		}
	}
	for _, w := range r.Workflows {
		b.WriteString("---\n" + strings.TrimRight(w.Source, "\n") + "\n")
	}
	return outcome, reason, string(outcome) + "\n" + strings.TrimRight(b.String(), "\n")
}

// TestFeatures checks the result of importing each feature of the public examples of Dagu, Argo and
// DolphinScheduler. docs/import.md has a table of all features.
func TestFeatures(t *testing.T) {
	const page = "../../docs/import.md"
	doc, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	now := string(doc)
	for _, kind := range []string{"dagu", "argo", "dolphin"} {
		all := features(t, kind)
		if len(all) < 50 {
			t.Errorf("%s has %d cases", kind, len(all))
		}
		var file, table strings.Builder
		table.WriteString("| feature | outcome | first note |\n|---|---|---|\n")
		for i := range all {
			f := &all[i]
			outcome, reason, text := becomes(t, kind, f)
			fmt.Fprintf(&file, "## %s\n%s=> %s\n\n", f.title, f.source, text)
			fmt.Fprintf(&table, "| %s | %s | %s |\n", cell(f.title), outcome, cell(reason))
			if text != f.want && !*update {
				t.Errorf("%s: %s becomes something else; look at it with -update\n%s", kind, f.title, text)
			}
		}
		if *update {
			if err := os.WriteFile(filepath.Join("testdata/features", kind+".txt"), []byte(strings.TrimRight(file.String(), "\n")+"\n"), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		begin, end := "<!-- features of "+kind+" -->\n", "<!-- end of features -->\n"
		before, rest, ok := strings.Cut(now, begin)
		_, after, closed := strings.Cut(rest, end)
		if !ok || !closed {
			t.Fatalf("%s has no place for the features of %s", page, kind)
		}
		now = before + begin + "\n" + table.String() + "\n" + end + after
	}
	if now == string(doc) {
		return
	}
	if !*update {
		t.Fatalf("the tables of %s are not those of the cases; write them with -update", page)
	}
	if err := os.WriteFile(page, []byte(now), 0o666); err != nil {
		t.Fatal(err)
	}
}

// cell escapes a text for a table of Markdown.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "{{", "&#123;&#123;", "<", "&lt;").Replace(text)
}
