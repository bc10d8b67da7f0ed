package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestReadFolder: in a folder, readFolder reads all workflow files. It leaves out hidden files, and the files
// that a workflow names.
func TestReadFolder(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.yaml": "name: a\nfiles: [conf.yaml]\ntasks: {a: {run: 'true'}}\n", "conf.yaml": "name: [no workflow]\n", "data.yml": "x: 1\n",
		"deep/b.yml": "name: b\ntasks: {a: {run: 'true'}}\n", ".hidden/c.yaml": "name: [", "extension.yaml": "name: [",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	defs, err := readEvery([]string{dir}, 0)
	if err != nil || len(defs) != 2 || defs[0].Name != "a" || defs[1].Name != "b" || len(defs[0].request.Files) != 1 {
		t.Fatalf("%+v, %v", defs, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "bad.yaml"), []byte("name: bad\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := readEvery([]string{dir}, 0); err == nil {
		t.Error("a fault in the folder was not found")
	}
	if _, err := readEvery([]string{filepath.Join(dir, ".hidden")}, 0); err == nil {
		t.Error("a hidden folder that is named was not read")
	}
}
