package workflow

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestCollectFiles(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "secret")
	write := func(name, data string, mode os.FileMode) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(data), mode); err != nil {
			t.Fatal(err)
		}
	}
	write(outside, "secret", 0o600)
	write(dir+"/a.sh", "a", 0o755)
	write(dir+"/b.sh", "b", 0o644)
	write(dir+"/lib/x.py", "x", 0o644)
	write(dir+"/lib/deep/y.py", "y", 0o644)
	write(dir+"/.git/config", "g", 0o644)
	write(dir+"/out/big", strings.Repeat("x", FileMax+1), 0o644)
	for _, l := range [][2]string{{outside, dir + "/links/leak"}, {"../a.sh", dir + "/good/link.sh"}} {
		if err := os.MkdirAll(filepath.Dir(l[1]), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(l[0], l[1]); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for globs, want := range map[string]string{
		"*.sh":            "a.sh b.sh",
		"*.sh lib/**":     "a.sh b.sh lib/deep/y.py lib/x.py",
		"**/*.py":         "lib/deep/y.py lib/x.py",
		"lib/*/y.py a.sh": "a.sh lib/deep/y.py",
		"./a.sh a.sh":     "a.sh",
		"good/*":          "good/link.sh",
		".git/*":          ".git/config",
		"nothing*":        `error the pattern "nothing*" names no file`,
		"../*":            "error leads out",
		"/etc/passwd":     "error leads out",
		"links/*":         "error",
		"out/*":           "error larger than",
		"[a":              "error",
	} {
		files, err := CollectFiles(root.FS(), strings.Fields(globs))
		var names []string
		for _, f := range files {
			names = append(names, f.Name)
		}
		if rest, bad := strings.CutPrefix(want, "error"); bad {
			if err == nil || !strings.Contains(err.Error(), strings.TrimSpace(rest)) {
				t.Errorf("%s: %v %v, want an error with%s", globs, names, err, rest)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(names, strings.Fields(want)) {
			t.Errorf("%s: %v %v, want %s", globs, names, err, want)
		}
	}
	files, err := CollectFiles(root.FS(), []string{"a.sh"})
	if err != nil || string(files[0].Data) != "a" || files[0].Mode != 0o755 {
		t.Errorf("%+v %v", files, err)
	}
	_, errs := Parse([]byte("name: x\nfiles: [\"*.sh\", nope/*, out/*]\ntasks:\n  a: {run: {file: a.sh}}\n  b: {run: {file: ab.sh}}\n  c: {run: {file: lib}}\n  d: {run: {file: links/leak}}\n"),
		Options{File: "f.yaml", Dir: root.FS()})
	said := errs.Error()
	for _, want := range []string{
		`2:17: the pattern "nope/*" names no file`, `2:25: the file out/big is larger than 1.0 MiB`,
		`5:19: there is no file "ab.sh" next to the workflow file`, "did you mean a.sh?", `6:19: "lib" is not a file`, `7:19: the file "links/leak" cannot be read`,
	} {
		if !strings.Contains(said, want) {
			t.Errorf("not said: %s\n%s", want, said)
		}
	}
}
