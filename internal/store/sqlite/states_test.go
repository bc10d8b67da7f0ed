package sqlite

import (
	"context"
	"path/filepath"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/packed"
)

// TestOlderRunsAreListedByState opens a database of the previous format. It has more runs than one step of
// the listing covers, and entries that an interrupted listing has left.
func TestOlderRunsAreListedByState(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "skein.db")
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	pages := map[int64]packed.Page{}
	for _, run := range []struct {
		n     int64
		state string
	}{{5, "failed"}, {6, "succeeded"}, {2047, "stopped"}, {2048, "failed"}, {statesStep - 1, "skipped"}, {statesStep, "failed"}, {3*statesStep + 7, "failed"}} {
		err = sqlitex.Execute(conn, `INSERT INTO run (n, id, shard, workflow, version, priority, origin, user, created, first_seq, first_at, state, intent,
			generation, cause, message, split, started, finished, leader, leader_at)
			VALUES (?1, randomblob(16), 0, 1, 1, 'medium', 'api', 'ada', 1, 1, 1, ?2, 'run', 1, '', '', 0, 0, 9, 0, 0)`, &sqlitex.ExecOptions{Args: []any{run.n, run.state}})
		if err != nil {
			t.Fatal(err)
		}
		words := pages[run.n/packed.PageRuns]
		words[run.n%packed.PageRuns/64] |= 1 << (run.n % 64)
		pages[run.n/packed.PageRuns] = words
	}
	for page, words := range pages {
		for _, list := range []string{"w/1", "u/ada"} {
			err := sqlitex.Execute(conn, "INSERT INTO roll (list, page, bits) VALUES (?1, ?2, ?3)",
				&sqlitex.ExecOptions{Args: []any{list, page, packed.PackPage(&words)}})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	stale := packed.Page{1}
	err = sqlitex.Execute(conn, "INSERT INTO roll (list, page, bits) VALUES ('s/failed', 77, ?1)", &sqlitex.ExecOptions{Args: []any{packed.PackPage(&stale)}})
	if err == nil {
		err = sqlitex.ExecuteScript(conn, "DROP TABLE fire_day; DROP INDEX request_created; DROP INDEX backfill_workflow; DROP INDEX workflow_deleted; "+noRights+"PRAGMA user_version = 9", nil)
	}
	if err == nil {
		err = conn.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	if d, err = Open(path); err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if bad, err := d.Check(ctx); err != nil || len(bad) > 0 {
		t.Errorf("check: %v %v", bad, err)
	}
	for state, want := range map[string]int{"failed": 4, "stopped": 1, "skipped": 1, "succeeded": 1} {
		page, err := d.Runs(ctx, store.RunQuery{States: []string{state}, Count: true})
		if err != nil || len(page.Runs) != want || !page.Next.IsZero() || page.Total != (store.Total{N: int64(want), Exact: true}) {
			t.Errorf("%s: %d runs, %+v, %v; want %d", state, len(page.Runs), page.Total, err, want)
		}
	}
}
