//go:build linux

package pgtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func startNoSync(t *testing.T) *Server {
	t.Helper()
	s, err := Start(Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestLife(t *testing.T) {
	s := startNoSync(t)
	sql := func(statements string) {
		t.Helper()
		if err := s.SQL("postgres", statements); err != nil {
			t.Fatal(err)
		}
	}
	sql("CREATE TABLE kept (x int)")
	for _, end := range []func() error{s.Stop, s.Kill, s.Kill} {
		sql("INSERT INTO kept VALUES (1)")
		if err := end(); err != nil {
			t.Fatal(err)
		}
		if err := s.SQL("postgres", "SELECT 1"); err == nil {
			t.Error("a server that has ended answers")
		}
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
	}
	sql("DO $$ BEGIN ASSERT (SELECT count(*) FROM kept) = 3; END $$")
	if err := s.SQL("postgres", "SELECT 1/0"); err == nil || !strings.Contains(err.Error(), "division by zero") {
		t.Errorf("an error of a statement: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(s.dir); !os.IsNotExist(err) {
		t.Errorf("the folder is still there: %v", err)
	}
}

// TestAbandoned: a test binary that is killed leaves neither a server nor a folder.
func TestAbandoned(t *testing.T) {
	if dir := os.Getenv("SKEIN_PGTEST_ABANDON"); dir != "" {
		t.Setenv("TMPDIR", dir)
		s := startNoSync(t)
		p, err := os.FindProcess(os.Getpid())
		if err != nil || s == nil {
			t.Fatal(err)
		}
		_ = p.Kill()
		select {}
	}
	dir, err := os.MkdirTemp("", "pgtest-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestAbandoned$")
	cmd.Env = append(os.Environ(), "SKEIN_PGTEST_ABANDON="+dir)
	if out, err := cmd.CombinedOutput(); err == nil || strings.Contains(string(out), "FAIL") {
		t.Fatalf("%v: %s", err, out)
	}
	deadline := time.Now().Add(30 * time.Second)
	for {
		left, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil {
			t.Fatal(err)
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("left behind: %q", left)
		}
		time.Sleep(poll)
	}
}
