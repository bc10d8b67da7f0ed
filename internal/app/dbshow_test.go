package app

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/dbadmin"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/postgres/pgtest"
	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// TestShowRun checks that the rows of a run say what the run waits for, on both databases, while a node runs
// and after it has stopped. The output does not depend on a node.
func TestShowRun(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) { showRuns(t, map[string]string{}) })
	t.Run("postgres", func(t *testing.T) {
		pg, err := pgtest.Start(pgtest.Options{NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = pg.Close() }()
		c, id := showRuns(t, map[string]string{"db": pg.URL("postgres")})
		if err := pg.SQL("postgres", "UPDATE skein.meta SET applied = applied - 1"); err != nil {
			t.Fatal(err)
		}
		if _, err := dbadmin.ShowRun(t.Context(), c, id); !errors.Is(err, store.ErrFormat) {
			t.Errorf("a database of an older format: %v", err)
		}
	})
}

func showRuns(t *testing.T, settings map[string]string) (*config.Config, dag.RunID) {
	c := testConfig(t, settings)
	none, err := dag.ParseRunID("0190a0b0-1234-7abc-8def-0123456789ab")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dbadmin.ShowRun(t.Context(), c, none); !errors.Is(err, dbadmin.ErrNoData) {
		t.Errorf("without a database: %v", err)
	}
	_, k, stop := startNode(t, c)
	if _, err := k.SetQueue(t.Context(), "narrow", api.QueueRequest{Limit: 1}); err != nil {
		t.Fatal(err)
	}
	gate := filepath.Join(t.TempDir(), "gate")
	queued := "name: queued\nqueue: narrow\ntasks:\n  a: {run: 'touch " + gate + "; until [ -e " + gate + ".open ]; do sleep 0.01; done'}\n"
	if _, err := k.Apply(t.Context(), "queued", api.ApplyRequest{Source: queued}); err != nil {
		t.Fatal(err)
	}
	over := begin(t, k, "  a: {run: 'true'}\n  b: {run: 'exit 3', needs: a}\n")
	end(t, k, over)
	holds := beginQueued(t, k)
	eventually(t, "the task runs", func() bool { _, err := os.Stat(gate); return err == nil })
	waits := beginQueued(t, k)
	eventually(t, "the run waits", func() bool {
		run, err := k.Run(t.Context(), waits)
		return err == nil && run.State == "waiting"
	})
	codes := []string{"attempt_assigned", "attempt_running"}
	for _, when := range []string{"beside the node", "after it"} {
		show := func(id string) inspect.Rows {
			t.Helper()
			run, err := dag.ParseRunID(id)
			if err != nil {
				t.Fatal(err)
			}
			rows, err := dbadmin.ShowRun(t.Context(), c, run)
			if err != nil || len(rows.Damage) > 0 {
				t.Fatalf("%s: %v, %q", when, err, rows.Damage)
			}
			return rows
		}
		is := show(over)
		if is.Run.State != "failed" || len(is.Attempts) != 2 || is.Attempts[0].Kept != "history" || is.Attempts[1].Kept != "row" || is.Attempts[1].Exit != "exit 3" {
			t.Errorf("%s, the ended run: %+v", when, is)
		}
		if is = show(holds); len(is.Why) != 1 || !slices.Contains(codes, is.Why[0].Code) || is.Run.Claim.Stage != "granted" {
			t.Errorf("%s, the run with the slot: %+v, %+v", when, is.Why, is.Run.Claim)
		}
		if is = show(waits); len(is.Why) != 1 || is.Why[0].Kind != "queue" || !strings.Contains(is.Why[0].Holder, holds) || is.Run.Claim.Stage != "asked" {
			t.Errorf("%s, the queued run: %+v, %+v", when, is.Why, is.Run.Claim)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	}
	return c, none
}

// beginQueued starts the workflow with the queue.
func beginQueued(t *testing.T, k *skein.Client) string {
	t.Helper()
	run, _, err := k.Start(t.Context(), api.RunRequest{Workflow: "queued"})
	if err != nil {
		t.Fatal(err)
	}
	return run.ID
}
