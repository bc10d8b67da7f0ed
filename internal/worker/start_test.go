package worker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestShellIsFoundOnce checks that the shell is searched in the node's PATH only once, until a start fails,
// and in any other PATH each time.
func TestShellIsFoundOnce(t *testing.T) {
	sh, err := lookPath("sh", pathDefault, "/")
	if err != nil {
		t.Fatal(err)
	}
	first, second := t.TempDir(), t.TempDir()
	link := func(target, dir string) {
		t.Helper()
		if err := os.Symlink(target, filepath.Join(dir, "sh")); err != nil {
			t.Fatal(err)
		}
	}
	link(sh, second)
	t.Setenv("PATH", first+":"+second)
	r := newRig(t)
	run := func(env ...string) Result {
		t.Helper()
		return r.run(Job{Key: r.key(), Argv: []string{"sh", "-c", "exit 0"}, Env: env})
	}
	expect := func(res Result, state, message string) {
		t.Helper()
		if res.State != state || !strings.Contains(res.Message, message) {
			t.Errorf("%s: %q", res.State, res.Message)
		}
	}
	expect(run(), Succeeded, "")
	link("/bin/false", first)
	expect(run(), Succeeded, "")
	expect(run("PATH="+first), Failed, "exit code 1")
	if err := os.Remove(filepath.Join(second, "sh")); err != nil {
		t.Fatal(err)
	}
	expect(run(), Failed, "does not exist")
	expect(run(), Failed, "exit code 1")
}
