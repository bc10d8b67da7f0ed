//go:build linux

package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	api "skein.dev/skein/sdk/api/v1"
)

// TestKilledUnderLoad: a process is killed while it commits transactions of thousands of rows. It always
// writes the next transaction while the log of the previous one is synced. Afterwards its file has only
// complete transactions.
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

// TestKilledWhileRunsWait: hundreds of runs are queued by priority while their server is killed again and
// again. Each run is admitted once, never more runs than the limit are admitted at the same time, and none is
// left in the queue.
func TestKilledWhileRunsWait(t *testing.T) {
	t.Parallel()
	const limit, kills, each = 3, 6, 40
	w := newWorld(t)
	p := w.server("--slots", "8")
	if o := w.skein("queue", "set", "narrow", "--limit", fmt.Sprint(limit), "--order", "priority"); o.code != exitOK {
		t.Fatal(o)
	}
	witness := filepath.Join(w.dir, "witness")
	note := "$SKEIN_RUN_ID 0 0 >> " + witness
	_, err := p.Apply(t.Context(), "waits", api.ApplyRequest{Dir: w.dir, Source: fmt.Sprintf("name: waits\nqueue: narrow\ntasks:\n  a: {run: %q}\n",
		"echo begin "+note+"; sleep 0.01; echo end "+note)})
	if err != nil {
		t.Fatal(err)
	}
	levels := []string{"lowest", "low", "medium", "high", "highest"}
	var ids []string
	for k := range kills {
		for i := range each {
			run, _, err := p.Start(t.Context(), api.RunRequest{Workflow: "waits", Priority: levels[i%len(levels)], IdempotencyKey: fmt.Sprint(k, "-", i)})
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, run.ID)
		}
		goal := k * each / 3
		w.eventually(fmt.Sprintf("%d have ended", goal), func() bool { return ends(witness) >= goal })
		p.kill()
		w.verify()
		p = w.server("--slots", "8")
	}
	for _, id := range ids {
		p.wantState(id, "succeeded")
	}
	all := passages(t, witness)
	if atMost(t, all, limit); len(all) != len(ids) {
		t.Errorf("%d of %d runs began", len(all), len(ids))
	}
	if q, err := p.Queue(t.Context(), "narrow"); err != nil || q.Held != 0 || q.Waiting != 0 {
		t.Errorf("%d hold a place, %d wait: %v", q.Held, q.Waiting, err)
	}
	p.stop()
	w.verify()
}
