package atomicfile

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("a longer text of before"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []os.FileMode{0o600, 0o640} {
		if err := Write(path, []byte("new"), mode); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		info, statErr := os.Stat(path)
		if err != nil || statErr != nil || string(text) != "new" || info.Mode().Perm() != mode {
			t.Errorf("%q %v %v %v", text, info.Mode(), err, statErr)
		}
	}
	if left := names(t, filepath.Dir(path)); len(left) != 1 {
		t.Errorf("the folder has %q", left)
	}
}

// TestCreate: one of many callers makes the file, and no caller sees a part of it.
func TestCreate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	var wg sync.WaitGroup
	made := make(chan byte, 20)
	for i := range cap(made) {
		wg.Go(func() {
			text := bytes.Repeat([]byte{byte('a' + i)}, 100_000)
			switch err := Create(path, text, 0o600); {
			case err == nil:
				made <- text[0]
			case !errors.Is(err, fs.ErrExist):
				t.Error(err)
			}
			if is, err := os.ReadFile(path); err != nil || len(is) != len(text) || bytes.Count(is, is[:1]) != len(is) {
				t.Errorf("%d bytes, %v", len(is), err)
			}
		})
	}
	wg.Wait()
	close(made)
	is, err := os.ReadFile(path)
	if by := <-made; err != nil || by == 0 || is[0] != by || <-made != 0 {
		t.Errorf("made by %q, and more of them: %v", by, err)
	}
	if left := names(t, filepath.Dir(path)); len(left) != 1 {
		t.Errorf("the folder has %q", left)
	}
}

// TestFailure checks that if a file cannot get its name, no temporary file remains and the old file is
// unchanged.
func TestFailure(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := os.MkdirAll(filepath.Join(path, "of a folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, []byte("new"), 0o600); err == nil {
		t.Error("a file has replaced a folder")
	}
	if left := names(t, dir); len(left) != 1 {
		t.Errorf("the folder has %q", left)
	}
	if err := Write(filepath.Join(dir, "missing", "f"), nil, 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in a folder that is not there: %v", err)
	}
}

// TestLeft checks that the temporary file of a crash is removed once it is old. Files with other names stay,
// and so does the file of a write in progress.
func TestLeft(t *testing.T) {
	dir := t.TempDir()
	path, old := filepath.Join(dir, "f"), time.Now().Add(-2*leftMin)
	for name, at := range map[string]time.Time{".f.new-1": old, ".f.new-2": time.Now(), ".g.new-1": old, "f.new-1": old} {
		if err := errors.Join(os.WriteFile(filepath.Join(dir, name), []byte("half"), 0o600), os.Chtimes(filepath.Join(dir, name), at, at)); err != nil {
			t.Fatal(err)
		}
	}
	if err := Write(path, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	if is := names(t, dir); len(is) != 4 || is[0] != ".f.new-2" {
		t.Errorf("the folder has %q", is)
	}
}

// TestDraft: a draft is not seen before it is put, and leaves nothing if it is discarded. Names of any length
// can have a draft.
func TestDraft(t *testing.T) {
	for _, path := range []string{filepath.Join(t.TempDir(), "f"), filepath.Join(t.TempDir(), strings.Repeat("long", 60))} {
		d, err := Begin(path, 0o640)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Write([]byte("one")); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("before it is put: %v", err)
		}
		if _, err := d.Write([]byte(" two")); err != nil {
			t.Fatal(err)
		}
		if err := d.Put(); err != nil {
			t.Fatal(err)
		}
		d.Discard()
		text, err := os.ReadFile(path)
		if info, statErr := os.Stat(path); err != nil || statErr != nil || string(text) != "one two" || info.Mode().Perm() != 0o640 {
			t.Errorf("%q %v %v", text, err, statErr)
		}
		if d, err = Begin(path, 0o600); err != nil {
			t.Fatal(err)
		}
		d.Discard()
		if left := names(t, filepath.Dir(path)); len(left) != 1 {
			t.Errorf("the folder has %q", left)
		}
	}
}

// TestReplace checks that the new file replaces the target of a link, and that only a regular file can be
// replaced.
func TestReplace(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "f"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(file, []byte("old"), 0o644), os.Symlink(file, link)); err != nil {
		t.Fatal(err)
	}
	d, err := Replace(link, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Write([]byte("new")); err != nil {
		t.Fatal(err)
	}
	if err := d.Put(); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "new" {
		t.Errorf("%q, %v", text, err)
	}
	if to, err := os.Readlink(link); err != nil || to != file {
		t.Errorf("the link: %q, %v", to, err)
	}
	if _, err := Replace(dir, 0o600); err == nil {
		t.Error("a folder has a successor")
	}
	d, err = Replace(filepath.Join(dir, "missing"), 0o600)
	if err != nil || d.Put() != nil {
		t.Errorf("a first file: %v", err)
	}
	if left := names(t, dir); len(left) != 3 {
		t.Errorf("the folder has %q", left)
	}
}
