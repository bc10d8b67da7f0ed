package remote

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"skein.dev/skein/internal/worker"
)

// version makes the files of a version, of about that number of bytes.
func version(name string, size int) []worker.File {
	return []worker.File{{Name: "lib/" + name, Mode: 0o755, Content: []byte(strings.Repeat(name[:1], size))}, {Name: "empty"}}
}

// TestFileCache: the files of a version are fetched once, also after a restart. Damaged files are fetched
// again, and those that were not used for the longest time make room.
func TestFileCache(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "files")
	c := newFileCache(dir)
	fetched := 0
	get := func(digest string, files []worker.File) {
		t.Helper()
		got, err := c.files(digest, func() ([]worker.File, error) { fetched++; return files, nil })
		if err != nil || len(got) != len(files) || len(files) > 0 && (got[0].Name != files[0].Name || got[0].Mode != files[0].Mode || string(got[0].Content) != string(files[0].Content)) {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	want := func(what string, n int) {
		t.Helper()
		if fetched != n {
			t.Errorf("%s: %d fetches, want %d", what, fetched, n)
		}
	}
	a, b := version("a", 1000), version("b", 1000)
	get(FilesDigest(a), a)
	get(FilesDigest(a), a)
	c = newFileCache(dir)
	get(FilesDigest(a), a)
	want("the same version", 1)
	get(noFiles, nil)
	want("no files", 1)
	for _, digest := range []string{"", "../x", "ab"} {
		get(digest, a)
		get(digest, a)
	}
	want("no digest", 7)
	if err := os.WriteFile(filepath.Join(dir, FilesDigest(a)), []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	get(FilesDigest(a), a)
	get(FilesDigest(a), a)
	want("a damaged file", 8)
	get(FilesDigest(b), a)
	get(FilesDigest(b), a)
	want("files of another digest", 10)

	c.max = 2500
	past := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(dir, FilesDigest(a)), past, past); err != nil {
		t.Fatal(err)
	}
	get(FilesDigest(b), b)
	d := version("d", 1000)
	get(FilesDigest(d), d)
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 2 {
		t.Errorf("%d files are kept, %v", len(left), err)
	}
	if _, err := os.Stat(filepath.Join(dir, FilesDigest(a))); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the oldest files are kept: %v", err)
	}
	c.each = 100
	large := version("l", 1000)
	get(FilesDigest(large), large)
	get(FilesDigest(large), large)
	want("files that are too large", 14)
}

// TestFileCacheTogether: of attempts that begin together, one fetches. If it fails, the others fetch for
// themselves.
func TestFileCacheTogether(t *testing.T) {
	c := newFileCache(t.TempDir())
	for round := range 200 {
		fails := round%2 == 1
		files := version(fmt.Sprint(round), 100)
		var fetched atomic.Int64
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				got, err := c.files(FilesDigest(files), func() ([]worker.File, error) {
					if n := fetched.Add(1); fails && n == 1 {
						return nil, errors.New("the home is away")
					}
					return files, nil
				})
				if err == nil && !reflect.DeepEqual(got[0].Content, files[0].Content) {
					t.Errorf("%+v", got)
				}
			})
		}
		all.Wait()
		if n := fetched.Load(); !fails && n != 1 {
			t.Errorf("%d fetches", n)
		}
		if len(c.busy) > 0 {
			t.Error("a fetch has not ended")
		}
	}
}
