package extension

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const slurm = `
extension: 1
name: slurm
version: 1.4.0
kinds:
  slurm:
    run: [./slurm.py]
    input: {type: object, required: [script], additionalProperties: false, properties: {script: {type: string, minLength: 1}, nodes: {type: integer, minimum: 1, maximum: 8}, partition: {enum: [big, small]}, tags: {type: array, items: {type: string, pattern: "^[a-z]+$"}, maxItems: 2}}}
    outputs: {job_id: string, exit_code: int}
    connection: http
    release: [./slurm.py, release]
    adopts: true
`

// says reports whether an error contains a text.
func says(err error, what string) bool {
	if err == nil {
		return false
	}
	text := err.Error()
	return strings.Contains(text, what)
}

func TestParse(t *testing.T) {
	m, err := Parse([]byte(slurm))
	if err != nil || m.Version != "1.4.0" || len(m.Digest) != 64 || m.Kinds["slurm"].Input.Properties["nodes"] == nil {
		t.Fatalf("%+v, %v", m, err)
	}
	for text, want := range map[string]string{
		"":                        "not one mapping",
		"a: [":                    "extension.yaml",
		"- a":                     "not one mapping",
		"extension: 2\nname: a":   "not a version of the protocol",
		"name: a\nversion: 1.0.0": "extension is missing",
		"extension: 1\nnmae: a":   `unknown field "nmae"`,
		"extension: 1\nname: a\nversion: 1.0.0\nsources: {a: {run: []}}":                                              "sources.a.run: it names no program",
		"extension: 1\nchannels: {}":                                                                                  "channels are not yet supported",
		"extension: 1\nsecrets: {a: b}":                                                                               "secrets are not yet supported",
		"extension: 1\nname: a b\nversion: 1.0.0":                                                                     "is not a name",
		"extension: 1\nname: a\nversion: v1":                                                                          "is not a version",
		"extension: 1\nname: a\nversion: 1.0.0":                                                                       "kinds and sources are missing",
		"extension: 1\nname: a\nversion: 1.0.0\nkinds: {'a b': {run: [x]}}":                                           "is not the name of a kind",
		"extension: 1\nname: a\nversion: 1.0.0\nkinds: {'skein:sql': {run: [x]}}":                                     "is not the name of a kind",
		"extension: 1\nname: a\nversion: 1.0.0\nkinds: {a: {run: []}}":                                                "kinds.a.run: it names no program",
		"extension: 1\nname: a\nversion: 1.0.0\nkinds: {a: {run: x}}":                                                 "cannot be read",
		"extension: 1\nname: a\nversion: 1.0.0\nkinds: {a: {run: [x], outputs: {n: number}}}":                         "not one of string, int",
		"extension: 1\nname: a\nversion: 1.0.0\nkinds: {a: {run: [x], connection: 'http, sql'}}":                      "with commas and without spaces",
		"extension: 1\nname: a\nversion: 1.0.0\nkinds: {a: {run: [x], adopts: true}}":                                 "it needs the key release",
		"extension: 1\nname: a\nversion: 1.0.0\nkinds: {a: {run: [x], release: []}}":                                  "release: it names no program",
		"extension: 1\nname: a\nversion: 1.0.0\nkinds: {a: {run: [x], input: {type: text}}}":                          "not a type of JSON Schema",
		"extension: 1\nname: a\nversion: 1.0.0\nkinds: {a: {run: [x], input: {properties: {b: {format: date}}}}}":     "is not supported",
		"extension: 1\nname: a\nversion: 1.0.0\nkinds: {a: {run: [x], input: {pattern: \"(\"}}}":                      "pattern",
		"extension: 1\nname: a\nversion: 1.0.0\nkinds: {a: {run: [x]}}\n" + strings.Repeat("# long\n", manifestMax/7): "the limit is",
		"extension: 1\nname: a\nversion: 1.0.0\nkinds: {a: {run: [x]}}\nkinds: {}":                                    "twice",
		"extension: 1\nname: a\nversion: 1.0.0\nkinds: {a: {run: [" + strings.Repeat("x,", wordsMax) + "x]}}":         "words",
	} {
		if _, err := Parse([]byte(text)); !says(err, want) {
			t.Errorf("%.150s: %v; want %q", text, err, want)
		}
	}
}

func TestSchema(t *testing.T) {
	m, err := Parse([]byte(slurm))
	if err != nil {
		t.Fatal(err)
	}
	s := m.Kinds["slurm"].Input
	open := func(text string) bool { return strings.Contains(text, "${{") }
	for text, want := range map[string]string{
		`{"script":"x"}`: "",
		`{"script":"x","nodes":8,"partition":"big","tags":["a","b"]}`: "",
		`{"script":"${{ params.a }}","nodes":"${{ params.n }}"}`:      "",
		`{"script":"x","nodes":8.0}`:                                  "",
		`{}`:                                                          "with.script is missing",
		`[]`:                                                          "with must be of type object",
		`{"script":5}`:                                                "with.script must be of type string",
		`{"script":""}`:                                               "at least 1 characters",
		`{"script":"x","nodes":8.5}`:                                  "with.nodes must be of type integer",
		`{"script":"x","nodes":9}`:                                    "at most 8",
		`{"script":"x","nodes":0}`:                                    "at least 1",
		`{"script":"x","nodes":1e999999999}`:                          "with.nodes must be of type integer",
		`{"script":"x","partition":"huge"}`:                           `one of "big", "small"`,
		`{"script":"x","tags":["A"]}`:                                 "with.tags[0] must match",
		`{"script":"x","tags":["a","b","c"]}`:                         "at most 2 items",
		`{"script":"x","skript":"y"}`:                                 "with.skript is not known: the known keys are nodes, partition, script, tags",
		`{`:                                                           "not JSON",
	} {
		if err := s.Check(json.RawMessage(text), "with", open); want == "" && err != nil || want != "" && (!says(err, want)) {
			t.Errorf("%s: %v; want %q", text, err, want)
		}
	}
	if err := s.Check(json.RawMessage(`{"script":"x","partition":"canary"}`), "with", nil); err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("%v: it quotes a value", err)
	}
	if err := (*Schema)(nil).Check(json.RawMessage(`5`), "with", nil); err != nil {
		t.Error(err)
	}
	var of Schema
	if err := json.Unmarshal([]byte(`{"anyOf":[{"type":"string"},{"const":1.0}],"additionalProperties":true}`), &of); err != nil {
		t.Fatal(err)
	}
	for text, ok := range map[string]bool{`"a"`: true, `1`: true, `2`: false, `null`: false} {
		if err := of.Check(json.RawMessage(text), "v", nil); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestForms checks that a null is not a schema, and that each of several nested forms is compared only once.
func TestForms(t *testing.T) {
	text := `{"anyOf":[null]}`
	for range 40 { // if each level compared twice, this would not end
		text = `{"anyOf":[{"type":"null"},` + text + `]}`
	}
	var s Schema
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	if err := s.Check(json.RawMessage(`1`), "v", nil); err != nil {
		t.Error(err)
	}
	text = `{"type":"string"}`
	for range 40 {
		text = `{"anyOf":[` + text + `]}`
	}
	s = Schema{}
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	if err := s.Check(json.RawMessage(`1`), "v", nil); !says(err, "must be of type string") {
		t.Error(err)
	}
}

// TestMostKinds checks that a machine offers no more kinds than a node accepts from a worker.
func TestMostKinds(t *testing.T) {
	root := t.TempDir()
	for i := range 3 {
		text := fmt.Sprintf("extension: 1\nname: a%d\nversion: 1.0.0\nkinds:\n", i)
		for j := range 49 {
			text += fmt.Sprintf("  k%d-%d: {run: [x]}\n", i, j)
		}
		folderOf(t, root, fmt.Sprint(i), text)
	}
	b := Open([]string{root}, "3", []House{{Kind: "skein:a"}, {Kind: "skein:b"}})
	if n := len(b.Extensions()); n != 100 || !says(b.Found()[2].Err, "more than 100 kinds") {
		t.Errorf("%d, %v", n, b.Found()[2].Err)
	}
	b = Open([]string{root}, "3", []House{{Kind: "skein:a"}, {Kind: "skein:b"}, {Kind: "skein:c"}})
	if n := len(b.Extensions()); n > 100 {
		t.Errorf("%d kinds", n)
	}
}

// folderOf writes an extension into a folder below root.
func folderOf(t *testing.T, root, name, manifest string) string {
	t.Helper()
	at := filepath.Join(root, name)
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(at, FileName), []byte(manifest), 0o644); err != nil {
		t.Fatal(err)
	}
	return at
}

func TestBook(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	at := folderOf(t, one, "slurm", slurm)
	folderOf(t, one, "slurm-2", strings.Replace(slurm, "1.4.0", "1.10.0", 1))
	folderOf(t, two, "slurm", slurm) // the same kind and version as in the first folder
	folderOf(t, two, "broken", "a: b")
	folderOf(t, two, "plain", "extension: 1\nname: plain\nversion: 1.0.0\nkinds: {plain: {run: [cat]}}")
	house := []House{{Kind: "skein:sql", Connection: "postgres", Settings: json.RawMessage(`{"a":1}`)}}
	b := Open([]string{one, filepath.Join(one, "none"), two}, "3.0.0", house)
	all := b.Extensions()
	if len(all) != 4 || all[1].Kind != "skein:sql" || all[1].Version != "3.0.0" || all[2].Version != "1.10.0" || all[3].Version != "1.4.0" || all[3].Connection != "http" ||
		!all[3].Releases || !all[3].Adopts || all[0].Releases {
		t.Errorf("%+v", all)
	}
	refused := 0
	for _, f := range b.Found() {
		if f.Err != nil {
			refused++
		}
	}
	if refused != 2 {
		t.Errorf("%+v", b.Found())
	}
	for kind, version := range map[string]string{"slurm": "1.10.0", "slurm@1.4": "1.4.0", "slurm@1": "1.10.0", "slurm@1.4.0": "1.4.0"} {
		c, err := b.Command(kind, json.RawMessage(`{"script":"x"}`), false)
		if err != nil || c.Version != version || c.House || !filepath.IsAbs(c.Argv[0]) || c.Folder == "" {
			t.Errorf("%s: %+v, %v", kind, c, err)
		}
	}
	if c, err := b.Command("slurm@1.4", json.RawMessage(`{"script":"x"}`), false); err != nil || c.Argv[0] != filepath.Join(at, "slurm.py") {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err := b.Command("skein:sql", nil, false); err != nil || !c.House || c.Argv[1] != "sql" || string(c.Settings) != `{"a":1}` {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := b.Command("skein:sql", nil, true); err == nil {
		t.Error("a kind of this program without handles releases one")
	}
	jobs := Open(nil, "3.0.0", []House{{Kind: "skein:spark", Releases: true, Adopts: true}})
	if c, err := jobs.Command("skein:spark", nil, true); err != nil || len(c.Argv) != 3 || c.Argv[2] != ReleaseArg || !jobs.Extensions()[0].Releases || !jobs.Extensions()[0].Adopts {
		t.Errorf("%+v, %v", c, err)
	}
	for kind, want := range map[string]string{"slurm@2": "does not have the kind", "mail": "does not have the kind", "slurm@1.1": "does not have"} {
		if _, err := b.Command(kind, nil, false); !says(err, want) {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if c, err := b.Command("slurm@1", json.RawMessage(`{"script":"x"}`), true); err != nil || len(c.Argv) != 2 || c.Argv[1] != "release" {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := b.Command("plain", nil, true); !says(err, "releases nothing") {
		t.Error(err)
	}
	if _, err := b.Command("slurm", json.RawMessage(`{}`), false); !says(err, "with.script is missing") {
		t.Error(err)
	}
	if err := b.Check("slurm", json.RawMessage(`{"script":"${{ params.x }}","nodes":"${{ params.n }}"}`)); err != nil {
		t.Error(err)
	}
	if err := b.Check("slurm", json.RawMessage(`{"script":"x","nodes":99}`)); err == nil {
		t.Error("an input that does not suit is taken")
	}
	if err := b.Check("mail", json.RawMessage(`{}`)); err != nil {
		t.Error(err)
	}
	if err := os.RemoveAll(at); err != nil {
		t.Fatal(err)
	}
	b.Reload()
	if all := b.Extensions(); len(all) != 4 { // the extension of the second folder is now the first one
		t.Errorf("%+v", all)
	}
}

// TestOwned checks that an error names a file that another user could write.
func TestOwned(t *testing.T) {
	root := t.TempDir()
	for name, spoil := range map[string]func(at string) (path string, err error){
		"program": func(at string) (string, error) {
			path := filepath.Join(at, "run.py")
			return path, errors.Join(os.WriteFile(path, nil, 0o755), os.Chmod(path, 0o757))
		},
		"manifest": func(at string) (string, error) {
			return filepath.Join(at, FileName), os.Chmod(filepath.Join(at, FileName), 0o664)
		},
		"folder": func(at string) (string, error) { return at, os.Chmod(at, 0o777) },
		"sticky": func(at string) (string, error) { return at, os.Chmod(at, 0o777|os.ModeSticky) },
		"linked folder": func(at string) (string, error) {
			real := filepath.Join(t.TempDir(), "real")
			path := filepath.Join(real, "run.py")
			return path, errors.Join(os.Rename(at, real), os.Symlink(real, at), os.WriteFile(path, nil, 0o755), os.Chmod(path, 0o757))
		},
		"link to a folder": func(at string) (string, error) {
			lib := t.TempDir()
			path := filepath.Join(lib, "run.py")
			return path, errors.Join(os.WriteFile(path, nil, 0o644), os.Chmod(path, 0o666), os.Symlink(lib, filepath.Join(at, "lib")), os.Symlink(".", filepath.Join(at, "self")))
		},
		"folder of a link": func(at string) (string, error) { // others could replace the link after the check
			open, real := t.TempDir(), filepath.Join(t.TempDir(), "real")
			err := errors.Join(os.WriteFile(real, nil, 0o755), os.Symlink(real, filepath.Join(open, "link")), os.Chmod(open, 0o777))
			return open, errors.Join(err, os.Symlink(filepath.Join(open, "link"), filepath.Join(at, "slurm.py")))
		},
		"folder of a missing file": func(at string) (string, error) {
			open := t.TempDir()
			return open, errors.Join(os.Chmod(open, 0o777), os.Symlink(filepath.Join(open, "later"), filepath.Join(at, "slurm.py")))
		},
		"link": func(at string) (string, error) {
			path := filepath.Join(t.TempDir(), "elsewhere")
			return path, errors.Join(os.WriteFile(path, nil, 0o755), os.Chmod(path, 0o666), os.Symlink(path, filepath.Join(at, "lib")))
		},
	} {
		at := folderOf(t, root, name, slurm)
		if _, err := Read(at); err != nil {
			t.Fatal(err)
		}
		path, err := spoil(at)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Read(at); !says(err, "other users can write to "+path) {
			t.Errorf("%s: %v", name, err)
		}
	}
	above := t.TempDir()
	at := folderOf(t, filepath.Join(above, "extensions"), "above", slurm)
	if err := os.Chmod(above, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(at); !says(err, "other users can write to "+above) {
		t.Errorf("a folder above it can be replaced: %v", err)
	}
	tool := filepath.Join(t.TempDir(), "tool")
	if err := errors.Join(os.WriteFile(tool, nil, 0o755), os.Chmod(tool, 0o777)); err != nil {
		t.Fatal(err)
	}
	at = folderOf(t, root, "tool", strings.Replace(slurm, "[./slurm.py]", "["+tool+"]", 1))
	if _, err := Read(at); !says(err, "other users can write to "+tool) {
		t.Errorf("a program elsewhere: %v", err)
	}
	if os.Geteuid() == 0 {
		at := folderOf(t, root, "owner", slurm)
		if err := os.Chown(filepath.Join(at, FileName), 12345, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(at); !says(err, "belongs to the user with the number 12345") {
			t.Error(err)
		}
	}
}
