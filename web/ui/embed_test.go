package ui

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestWebStamp fails if the page in this tree was built from other sources than the ones that are here.
func TestWebStamp(t *testing.T) {
	built, err := Built()
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("the page is not built in this tree; make web builds it")
	}
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join("..", "..")
	files := []string{"sdk/go/api/v1/openapi.json", "web/index.html", "web/package-lock.json", "web/tsconfig.json", "web/vite.config.ts"}
	for _, folder := range []string{"web/src", "web/tools"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			rel, err := filepath.Rel(root, p)
			if rel = filepath.ToSlash(rel); rel != "web/src/api/types.ts" {
				files = append(files, rel)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(files)
	sum := sha256.New()
	for _, name := range files {
		content, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		sum.Write([]byte(name + "\x00"))
		sum.Write(content)
		sum.Write([]byte{0})
	}
	if is := hex.EncodeToString(sum.Sum(nil)); is != built.Sources {
		t.Errorf("the page was built from other sources (stamp %s, now %s); make web builds it again", built.Sources, is)
	}
}

func TestState(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		built Stamp
		err   error
		now   string
		want  State
	}{
		{err: fs.ErrNotExist, now: "a", want: StateAbsent},
		{built: Stamp{Sources: "a"}, now: "a", want: StateCurrent},
		{built: Stamp{Sources: "a"}, now: "b", want: StateStale},
		{built: Stamp{Sources: "a"}, want: StateUnknown},
		{err: broken, now: "a"},
	} {
		got, err := stateOf(c.built, c.err, c.now)
		if got != c.want || errors.Is(err, broken) != (c.err == broken) {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
}

func TestPlaceholder(t *testing.T) {
	text, err := Placeholder()
	if err != nil || len(text) == 0 {
		t.Fatalf("%q %v", text, err)
	}
}
