package sqlite

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// TestAttemptsUpToAnEnd: a query that names the newest attempt reads the packed transactions up to its end.
func TestAttemptsUpToAnEnd(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "skein.db")
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	run := dag.RunID{15: 1}
	// Task 7 is assigned in all transactions except two: in transaction 400 task 3 has ended, and the row of the
	// next one is damaged.
	for _, sql := range []string{`INSERT INTO run (n, id, shard, workflow, version, priority, origin, user, created, first_seq, first_at, state, intent,
			generation, cause, message, split, started, finished, leader, leader_at)
			VALUES (1, ?1, 0, 1, 1, 'medium', 'api', 'ada', 1, 1, 1, 'running', 'run', 1, '', '', 0, 0, 0, 0, 0)`,
		`WITH RECURSIVE seqs (n) AS (SELECT 100 UNION ALL SELECT n + 1 FROM seqs WHERE n < 600)
			INSERT INTO event (run, seq, at, records, hands) SELECT 1, n, 1, x'', CASE n WHEN 400 THEN x'020706020202000006'
			WHEN 401 THEN x'01ff' ELSE x'010e02020200' END FROM seqs WHERE ?1 <> 0`} {
		if err := sqlitex.Execute(conn, sql, &sqlitex.ExecOptions{Args: []any{run[:]}}); err != nil {
			t.Fatal(err)
		}
	}
	q := store.AttemptQuery{Run: run, Task: 3, One: true, Token: 1}
	got, err := d.Attempts(ctx, q)
	if err != nil || len(got) != 1 || got[0].Task != 3 || got[0].State != dag.AttemptSucceeded {
		t.Errorf("%+v, %v", got, err)
	}
	for _, token := range []dag.Token{0, 2} { // the end of this attempt is not found
		q.Token = token
		if got, err := d.Attempts(ctx, q); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("token %d: %+v, %v", token, got, err)
		}
	}
}
