package importer_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"skein.dev/skein/internal/importer"
	"skein.dev/skein/internal/importer/argo"
	"skein.dev/skein/internal/importer/dagu"
	"skein.dev/skein/internal/importer/dolphin"
	"skein.dev/skein/internal/workflow"
)

var update = flag.Bool("update", false, "write testdata/golden")

func converter(kind string) func([]byte, importer.Options) (*importer.Result, error) {
	switch kind {
	case "dagu":
		return dagu.Convert
	case "dolphin":
		return dolphin.Convert
	}
	return func(src []byte, opt importer.Options) (*importer.Result, error) {
		return argo.Convert(src, argo.Options{Options: opt, Run: true})
	}
}

// TestImports compares the reports and files of all formats with golden files. The inputs use every feature.
func TestImports(t *testing.T) {
	files, err := filepath.Glob("testdata/*/*.yaml")
	exports, err2 := filepath.Glob("testdata/*/*.json")
	if files = append(files, exports...); err != nil || err2 != nil || len(files) < 6 {
		t.Fatal(files, err, err2)
	}
	for _, file := range files {
		kind := filepath.Base(filepath.Dir(file))
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		r, err := converter(kind)(src, importer.Options{Path: filepath.Base(file), Zone: "Europe/Berlin"})
		if err != nil {
			t.Fatal(err)
		}
		sound(t, r)
		var b strings.Builder
		for _, l := range r.Lines {
			fmt.Fprintf(&b, "%d:%d %s %s %s/%s\n", l.Line, l.Column, l.Kind, l.Outcome, l.Workflow, l.Task)
			for _, n := range l.Notes {
				b.WriteString("    " + n + "\n")
			}
		}
		for _, w := range r.Workflows {
			b.WriteString("---\n" + strings.TrimRight(w.Source, "\n") + "\n")
		}
		golden := filepath.Join("testdata/golden", kind+"-"+strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))+".txt")
		if *update {
			if err := os.WriteFile(golden, []byte(b.String()), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if b.String() != string(want) {
			t.Errorf("%s is not as %s; look at it with -update\n%s", file, golden, b.String())
		}
	}
}

// sound checks the promises that hold for every import.
func sound(t *testing.T, r *importer.Result) {
	t.Helper()
	names := map[string]bool{}
	for _, w := range r.Workflows {
		if _, faults := workflow.Parse([]byte(w.Source), workflow.Options{}); len(faults) > 0 {
			t.Errorf("%v\n%s", faults, w.Source)
		}
		if names[w.Name] {
			t.Errorf("the workflow %s comes twice", w.Name)
		}
		names[w.Name] = true
	}
	documents := 0
	for _, l := range r.Lines {
		if l.Line < 1 || l.Column < 1 || l.Workflow != "" && !names[l.Workflow] || l.Outcome != importer.Converted && l.Kind != importer.KindDocument && len(l.Notes) == 0 {
			t.Errorf("%+v", l)
		}
		if l.Kind == importer.KindDocument && l.Workflow != "" {
			documents++
		}
	}
	if documents != len(r.Workflows) {
		t.Errorf("%d workflows, %d of them in the report", len(r.Workflows), documents)
	}
}

// TestImageDropped checks that no command of an image runs on the node without --containers run.
func TestImageDropped(t *testing.T) {
	src := "kind: Workflow\nmetadata: {name: a}\nspec:\n  entrypoint: m\n  templates: [{name: m, container: {image: alpine, command: [rm, -rf, /work]}}]\n"
	r, err := argo.Convert([]byte(src), argo.Options{})
	if err != nil || len(r.Workflows) != 0 || len(r.Lines) != 2 || !strings.Contains(r.Lines[1].Notes[0], "--containers run") {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestImportBounds checks that a file of another kind, or beyond a bound, gives an error or a line of the
// report. The import must not hang.
func TestImportBounds(t *testing.T) {
	bomb := "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c < 'k'; c++ {
		bomb += fmt.Sprintf("%c: &%c [*%c, *%c, *%c, *%c, *%c, *%c, *%c, *%c]\n", c, c, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1)
	}
	for name, src := range map[string]string{
		"bomb": bomb, "deep": "steps: " + strings.Repeat("[", 1000), "binary": "\x7fELF\x00", "large": strings.Repeat("# x\n", 300_000),
		"merge": "a: &a {b: c}\nsteps:\n  - <<: *a\n", "scalar": "hello", "empty": "",
		"tasks":  "workflow: {name: a}\ntasks: [{name: a, task_type: shell, deps: [b], command: x}, {name: b, task_type: shell, deps: [a], command: x}]",
		"circle": "steps: [{name: a, depends: b, run: x}, {name: b, depends: a, run: x}]",
		"brackets": "kind: Workflow\nmetadata: {name: a}\nspec:\n  entrypoint: a\n  templates:\n  - {name: a, steps: [[{name: x, template: b, when: '" +
			strings.Repeat("(", 100_000) + "a == a" + strings.Repeat(")", 100_000) + "'}]]}\n  - {name: b, container: {command: [\"true\"]}}\n",
		"wide": "kind: Workflow\nmetadata: {name: a}\nspec:\n  entrypoint: a0\n  templates:\n" + doubling(),
	} {
		for _, kind := range []string{"dagu", "argo", "dolphin"} {
			r, err := converter(kind)([]byte(src), importer.Options{})
			if err != nil {
				if !strings.Contains(err.Error(), "standard input:") {
					t.Errorf("%s as %s: an error without a place: %v", name, kind, err)
				}
				continue
			}
			sound(t, r)
			if len(r.Workflows) > 0 {
				t.Errorf("%s as %s: %s", name, kind, r.Workflows[0].Source)
			}
		}
	}
}

// doubling returns templates that each call the next one twice. They would become 2^14 tasks.
func doubling() string {
	var b strings.Builder
	for i := range 14 {
		fmt.Fprintf(&b, "  - {name: a%d, steps: [[{name: x, template: a%d}, {name: y, template: a%d}]]}\n", i, i+1, i+1)
	}
	return b.String() + "  - {name: a14, container: {command: [\"true\"]}}\n"
}

func FuzzImport(f *testing.F) {
	files, _ := filepath.Glob("testdata/*/*.*")
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		// Use one document at a time, so that the fuzzer can reduce a finding.
		for _, document := range strings.Split(string(src), "\n---\n") {
			f.Add([]byte(document))
		}
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		for _, kind := range []string{"dagu", "argo", "dolphin"} {
			if r, err := converter(kind)(src, importer.Options{}); err == nil {
				sound(t, r)
			}
		}
	})
}
