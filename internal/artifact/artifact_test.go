package artifact

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var ref = Ref{Run: Run{Namespace: "default", Workflow: "w", ID: "r1"}, Task: "a", Attempt: 2}

func never() bool { return false }

// tree writes files below a fresh folder; a content that begins with -> is a link.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if to, link := strings.CutPrefix(content, "->"); link {
			err = os.Symlink(to, path)
		} else {
			err = os.WriteFile(path, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func keeper(t *testing.T, l Limits) (*Keeper, Folder) {
	t.Helper()
	f := Folder{Path: t.TempDir()}
	return &Keeper{Store: f, Limits: l}, f
}

func names(list []Info) string {
	var all []string
	for _, in := range list {
		all = append(all, in.Name)
	}
	return strings.Join(all, " ")
}

// TestPick checks which files names and patterns select. Links are never followed, and hidden files are
// selected only if they are named.
func TestPick(t *testing.T) {
	outside := tree(t, map[string]string{"secret": "s"})
	dir := tree(t, map[string]string{
		"report.html": "r", "out/a.txt": "a", "out/deep/b.txt": "b", "out/.hidden": "h", ".config/x": "x", "other.log": "o",
		"out/link": "->" + outside + "/secret", "away": "->" + outside, "near.html": "->report.html", "odd/[x].txt": "odd",
	})
	for _, c := range []struct{ globs, want string }{
		{"report.html", "report.html"},
		{"*.html", "report.html"},
		{"out/**", "out/a.txt out/deep/b.txt"},
		{"out/**/*.txt", "out/a.txt out/deep/b.txt"},
		{"**/b.txt", "out/deep/b.txt"},
		{"**", "odd/[x].txt other.log out/a.txt out/deep/b.txt report.html"},
		{"out/.*", "out/.hidden"},
		{".config/*", ".config/x"},
		{"away/*", ""},
		{"*/secret", ""},
		{"none/**", ""},
		{"out/? *.log report.html", "other.log report.html"},
		{`odd/\[x].txt`, "odd/[x].txt"},
		{"nothing*", ""},
		{"out", "is a folder"},
		{"out/link", "is not a regular file"},
		{"near.html", "is not a regular file"},
		{"away/secret", "is reached through the link away"},
		{"missing.txt", "does not exist"},
		{"../x", "not a path inside"},
		{"/etc/passwd", "not a path inside"},
	} {
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		got, err := pick(root.FS(), strings.Fields(c.globs))
		_ = root.Close()
		if err != nil {
			if c.want == "" || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %q", c.globs, err, c.want)
			}
			continue
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s: %q, want %q", c.globs, s, c.want)
		}
	}
}

// opened returns a folder like that of an ended attempt.
func opened(t *testing.T, dir string) WorkDir {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return WorkDir{Root: root}
}

// TestKeep checks that stored files are returned unchanged, with their digests, and only for their attempt.
// After a deletion, they no longer exist.
func TestKeep(t *testing.T) {
	k, f := keeper(t, LimitsDefault)
	dir := tree(t, map[string]string{"report.html": "hello", "out/a/b.bin": "", "out/c": "c"})
	if _, err := k.Keep(ref, opened(t, dir), []string{"report.html", "out/**"}, never); err != nil {
		t.Fatal(err)
	}
	list, err := f.List(t.Context(), ref)
	if err != nil || names(list) != "out/a/b.bin out/c report.html" {
		t.Fatalf("%v %v", list, err)
	}
	if got, want := list[2], (Info{"report.html", 5, "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"}); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	r, in, err := f.Open(t.Context(), ref, "report.html")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(io.NewSectionReader(r, 0, in.Size))
	if err != nil || string(text) != "hello" || r.Close() != nil {
		t.Errorf("%q %v", text, err)
	}
	// The same attempt commits again: the same files are stored already, and other files are refused.
	used, _ := f.Used(t.Context(), ref.Run)
	if _, err := k.Keep(ref, opened(t, dir), []string{"report.html", "out/**"}, never); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Keep(ref, opened(t, dir), []string{"out/c"}, never); !errors.Is(err, ErrFinal) {
		t.Errorf("other files: %v", err)
	}
	if now, _ := f.Used(t.Context(), ref.Run); now != used || *k.used[ref.Run] != used {
		t.Errorf("used %+v, and %+v are counted, instead of %+v", now, *k.used[ref.Run], used)
	}
	if list, _ := f.List(t.Context(), ref); names(list) != "out/a/b.bin out/c report.html" {
		t.Errorf("again: %v", list)
	}
	for _, name := range []string{"other.html", "../index.json", "out", "/etc/passwd", ""} {
		if _, _, err := f.Open(t.Context(), ref, name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("open %q: %v", name, err)
		}
	}
	other := ref
	other.Attempt = 1
	if _, err := f.List(t.Context(), other); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another attempt: %v", err)
	}
	for _, bad := range []string{"..", ".", "a/b", ""} {
		other.Task = bad
		if _, err := f.List(t.Context(), other); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("task %q: %v", bad, err)
		}
	}
	for range 2 {
		if err := f.Delete(t.Context(), []Run{ref.Run}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.List(t.Context(), ref); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after Delete: %v", err)
	}
}

// TestBounds checks that artifacts beyond a limit are refused with a reason. No file of the attempt is
// stored, and its bytes no longer count against the limit of the run.
func TestBounds(t *testing.T) {
	k, f := keeper(t, Limits{FileBytes: 10, RunBytes: 20, AttemptFiles: 3, RunFiles: 4})
	keep := func(attempt int, files map[string]string) error {
		at := ref
		at.Attempt = attempt
		_, err := k.Keep(at, opened(t, tree(t, files)), []string{"**"}, never)
		return err
	}
	refused := func(err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	refused(keep(1, map[string]string{"a": "1", "big": strings.Repeat("x", 11)}), "artifact big is larger than 10 bytes")
	refused(keep(1, map[string]string{"a": "", "b": "", "c": "", "d": ""}), "4 files are artifacts of this attempt, at most 3")
	if entries, _ := os.ReadDir(filepath.Join(f.Path, "artifacts", "default", "w", "r1")); len(entries) != 0 {
		t.Errorf("left: %v", entries)
	}
	if err := keep(1, map[string]string{"a": "0123456789", "b": "01234"}); err != nil {
		t.Fatal(err)
	}
	refused(keep(2, map[string]string{"a": "012345"}), "artifacts of the run would be larger than 20 bytes")
	// Another node, or the next process of this node, counts the existing files.
	k = &Keeper{Store: f, Limits: k.Limits}
	refused(keep(2, map[string]string{"a": "012345"}), "artifacts of the run would be larger than 20 bytes")
	if err := keep(2, map[string]string{"a": "01234"}); err != nil {
		t.Fatal(err)
	}
	refused(keep(3, map[string]string{"a": "", "b": ""}), "more than 4 artifacts")
	if err := keep(3, map[string]string{"a": ""}); err != nil {
		t.Errorf("what was refused still counts: %v", err)
	}
}

// TestStopped checks that a stop ends the storing, and that readers see no files.
func TestStopped(t *testing.T) {
	k, f := keeper(t, LimitsDefault)
	calls := 0
	_, err := k.Keep(ref, opened(t, tree(t, map[string]string{"a": "a", "b": "b"})), []string{"*"}, func() bool { calls++; return calls > 2 })
	if !errors.Is(err, ErrStopped) {
		t.Errorf("%v", err)
	}
	if _, err := f.List(t.Context(), ref); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// TestUnfinished: if a node dies before it has committed files, no reader sees them, and they use no quota.
// They are deleted with their run.
func TestUnfinished(t *testing.T) {
	_, f := keeper(t, LimitsDefault)
	d, err := f.Begin(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Add("x/y", strings.NewReader("content")); err != nil {
		t.Fatal(err)
	}
	if _, err := f.List(t.Context(), ref); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if u, err := f.Used(t.Context(), ref.Run); err != nil || u != (Usage{}) {
		t.Errorf("%v %v", u, err)
	}
	if err := f.Delete(t.Context(), []Run{ref.Run}); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(f.Path, "artifacts", "default", "w", "*"))
	if err != nil || !slices.Equal(left, nil) {
		t.Errorf("%v %v", left, err)
	}
}
