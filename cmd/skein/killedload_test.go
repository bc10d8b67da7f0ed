package main

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestKilledUnderLoad: a process whose transactions hold thousands of rows, the next always written ahead while the log is synced, is
// killed somewhere in the middle. Its file then holds whole transactions, and nothing else.
func TestKilledUnderLoad(t *testing.T) {
	w := newWorld(t)
	for range 3 {
		dir, file := t.TempDir(), ""
		p := w.start("bench", "--shape", "single", "--runs", "10000000", "--data", dir)
		enough := 2<<20 + rand.Int64N(8<<20)
		w.eventually("much is in the log", func() bool {
			logs, err := filepath.Glob(filepath.Join(dir, "*", "bench.db-wal"))
			if err != nil || len(logs) != 1 {
				return false
			}
			file = strings.TrimSuffix(logs[0], "-wal")
			is, err := os.Stat(logs[0])
			return err == nil && is.Size() > enough
		})
		p.kill()
		if o := w.skein("verify", "--db", "sqlite:"+file); o.code != exitOK {
			t.Errorf("after %d bytes: %v", enough, o)
		}
	}
}
