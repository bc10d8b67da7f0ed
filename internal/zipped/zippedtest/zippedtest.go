// Package zippedtest compares an archive in the repository with the files that it holds.
package zippedtest

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"skein.dev/skein/internal/zipped"
)

var pack = flag.Bool("pack", false, "write the archives of embedded files")

// Compare requires that the archive in the current folder holds exactly the files of the patterns. With the
// flag -pack, it writes the archive first.
func Compare(t *testing.T, archive string, patterns ...string) {
	t.Helper()
	var names []string
	for _, pattern := range patterns {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("no files %s (%v)", pattern, err)
		}
		names = append(names, found...)
	}
	if *pack {
		var out bytes.Buffer
		if err := zipped.Pack(&out, os.DirFS("."), names); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(archive, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	remedy := "; write it by: go test . -run " + t.Name() + " -pack"
	files, err := zipped.Open(data)
	if err != nil {
		t.Fatalf("%s: %v%s", archive, err, remedy)
	}
	if len(files.File) != len(names) {
		t.Fatalf("%s has %d files, the folder %d%s", archive, len(files.File), len(names), remedy)
	}
	packed := zipped.New(data)
	for _, name := range names {
		is, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if has, err := packed.ReadFile(name); err != nil || !bytes.Equal(has, is) {
			t.Errorf("%s differs in %s (%v)%s", name, archive, err, remedy)
		}
	}
}
