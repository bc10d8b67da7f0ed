package datadir

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestLockOfAWorker: a command for the process that holds a data folder does not wait for the address of a
// worker, which has none.
func TestLockOfAWorker(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, err := Take(dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // so the command does not wait for a holder without an address
	if h, err := Find(ctx, dir); err != nil || h == nil || h.Worker || h.Address != "" {
		t.Errorf("of a process that begins: %v, %v", h, err)
	}
	if err := l.AnnounceWorker(); err != nil {
		t.Fatal(err)
	}
	h, err := Find(t.Context(), dir)
	if err != nil || h == nil || !h.Worker || !strings.Contains(h.Error(), "worker") {
		t.Errorf("of a worker: %v, %v", h, err)
	}
	if _, err := Take(dir); err == nil || !strings.Contains(err.Error(), "a skein worker") {
		t.Errorf("a second holder: %v", err)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	if h, err := Find(t.Context(), dir); h != nil || err != nil {
		t.Errorf("of nobody: %v, %v", h, err)
	}
}

// TestLookerOfADeadHolder: a process that looks, and is stopped while it holds the lock, does not prevent the
// successor of a dead holder from taking the lock.
func TestLookerOfADeadHolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(lockPath(dir), fmt.Appendf(nil, `{"pid":%d,"address":"http://x"}`, dead.Process.Pid), 0o600); err != nil {
		t.Fatal(err)
	}
	looker, err := os.Open(lockPath(dir))
	if err != nil {
		t.Fatal(err)
	}
	if err := flock(looker, false); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(5*lockTries*lockPoll, func() { _ = looker.Close() })
	l, err := Take(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Release(); err != nil {
		t.Error(err)
	}
}
