package remote

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestOldLogsGo: old logs are deleted with their folders, unless the worker still has their attempts.
func TestOldLogsGo(t *testing.T) {
	t.Parallel()
	h, data := newHome(t, false), t.TempDir()
	w := works(t, data, []string{h.url})
	ended := shell("ended", "echo over")
	h.give(ended)
	h.ends(ended)
	runs := shell("runs", `echo here; while ! [ -e "`+data+`/over" ]; do sleep 0.05; done`)
	h.give(runs)
	logs := func() []string {
		all, err := filepath.Glob(filepath.Join(data, "logs", "*", "*", "*", "*.log"))
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	h.until("there are two logs", func() bool { return len(logs()) == 2 })
	tidy := func(before time.Time, want int) {
		t.Helper()
		if gone, err := w.tidy(t.Context(), before); gone != want || err != nil {
			t.Errorf("%d have gone, %v; want %d", gone, err, want)
		}
	}
	h.until("one is in use", func() bool { return len(w.logsInUse()) == 1 })
	tidy(time.Now().Add(-time.Hour), 0)
	tidy(time.Now().Add(time.Minute), 1)
	if all := logs(); len(all) != 1 {
		t.Fatalf("there are %q", all)
	}
	if err := os.WriteFile(filepath.Join(data, "over"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h.ends(runs)
	h.until("the other is in use no more", func() bool { return len(w.logsInUse()) == 0 })
	tidy(time.Now().Add(time.Minute), 1)
	if left, err := filepath.Glob(filepath.Join(data, "logs", "*")); err != nil || len(left) != 0 {
		t.Errorf("%q are left, %v", left, err)
	}
}
