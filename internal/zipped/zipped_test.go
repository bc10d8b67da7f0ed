package zipped

import (
	"bytes"
	"testing"
	"testing/fstest"
)

// TestPack packs files and reads them back, and refuses archives that are cut off.
func TestPack(t *testing.T) {
	t.Parallel()
	var archive bytes.Buffer
	source := fstest.MapFS{"d/a": {Data: []byte("one")}, "d/b": {Data: []byte("two")}}
	if err := Pack(&archive, source, []string{"d/a", "d/b"}); err != nil {
		t.Fatal(err)
	}
	files := New(archive.Bytes())
	if names, err := files.ReadDir("d"); err != nil || len(names) != 2 || names[1].Name() != "b" {
		t.Fatal(names, err)
	}
	if text, err := files.ReadFile("d/b"); err != nil || string(text) != "two" {
		t.Fatal(string(text), err)
	}
	if _, err := files.ReadFile("d/c"); err == nil {
		t.Error("a file is read that the archive does not have")
	}
	for n := range archive.Len() {
		if _, err := New(archive.Bytes()[:n]).ReadDir("d"); err == nil {
			t.Errorf("an archive is read that was cut off after %d bytes", n)
		}
	}
	if err := Pack(&archive, source, []string{"d/c"}); err == nil {
		t.Error("a file is packed that does not exist")
	}
}
