package bench

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"sync"
	"time"

	_ "embed"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// rawSQL is the content of raw_sqlite.sql, which describes it.
//
//go:embed raw_sqlite.sql
var rawSQL string

// rawCopyEvery is the number of transactions between two checkpoints: 40,000 rows, as in the product.
const rawCopyEvery = 10

// rawSQLite measures how many rows per second an SQLite file takes with the pragmas of the product.
func rawSQLite(ctx context.Context, path string, txs int) (float64, error) {
	defer func() {
		for _, suffix := range []string{"", "-wal", "-shm"} {
			_ = os.Remove(path + suffix)
		}
	}()
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite|sqlite.OpenCreate)
	if err != nil {
		return 0, fmt.Errorf("bench: %w", err)
	}
	defer conn.Close()
	for _, pragma := range []string{"journal_mode = WAL", "synchronous = FULL", "cache_size = -16384",
		"wal_autocheckpoint = 0", "temp_store = MEMORY"} {
		if err := sqlitex.ExecuteTransient(conn, "PRAGMA "+pragma, nil); err != nil {
			return 0, fmt.Errorf("bench: %w", err)
		}
	}
	if err := sqlitex.ExecuteScript(conn, rawSQL, nil); err != nil {
		return 0, fmt.Errorf("bench: %w", err)
	}
	copier, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		return 0, fmt.Errorf("bench: %w", err)
	}
	defer copier.Close()
	raw := &rawFile{conn: conn, copier: copier}
	defer raw.copies.Wait()
	if err := raw.prepare(); err != nil {
		return 0, fmt.Errorf("bench: %w", err)
	}
	return rate(ctx, []rawWriter{raw}, txs)
}

// rawFile writes rows that are as wide as those of the product, and does nothing else.
type rawFile struct {
	copier *sqlite.Conn   // copies the log on a connection of its own, as in the product
	copies sync.WaitGroup // at most one copy runs
	txs    int

	conn                                               *sqlite.Conn
	begin, commit                                      *sqlite.Stmt
	insertRun, insertAttempt, updateRun, updateAttempt *sqlite.Stmt
	rows                                               int64 // the number of rows in each table so far
}

func (w *rawFile) prepare() error {
	for _, p := range []struct {
		at  **sqlite.Stmt
		sql string
	}{
		{&w.begin, "BEGIN IMMEDIATE"},
		{&w.commit, "COMMIT"},
		{&w.insertRun, `INSERT INTO raw_run (n, id, shard, workflow, version, priority, origin, user, created, first_seq, first_at,
			events_first, state, intent, generation, split, started, finished, leader, leader_at)
			VALUES (?1, ?2, 0, ?3, 1, 'medium', 'api', 'bench', ?3, ?1, ?3, ?4, 'running', 'run', 1, ?3, ?3, 0, 1, ?3)`},
		{&w.insertAttempt, `INSERT INTO raw_attempt (n, run, task, token, generation, handler, assigned, state, cause, message, signal,
			started, finished, retry_at, retry_wait) VALUES (?1, ?1, 0, 1, 1, 1, ?2, 'assigned', '', '', '', 0, 0, 0, 0)`},
		{&w.updateRun, `UPDATE raw_run SET state = 'succeeded', intent = 'run', final = ?3, finished = ?2, last_seq = ?1, last_at = ?2,
			events_last = ?4 WHERE n = ?1 AND state = 'running'`},
		{&w.updateAttempt, `UPDATE raw_attempt SET state = 'succeeded', exit_code = 0, started = ?2, finished = ?2
			WHERE n = ?1 AND state = 'assigned'`},
	} {
		stmt, err := w.conn.Prepare(p.sql)
		if err != nil {
			return err
		}
		*p.at = stmt
	}
	return nil
}

// transaction inserts a quarter of its rows into each table, and updates the rows of the previous
// transaction.
func (w *rawFile) transaction(context.Context) error {
	const quarter = rawRowsPerTx / 4
	if err := step(w.begin); err != nil {
		return err
	}
	now := time.Now().UnixMicro()
	var id [16]byte
	events, final := make([]byte, 12), make([]byte, 3)
	for n := w.rows + 1; n <= w.rows+quarter; n++ {
		_, _ = rand.Read(id[:]) // never fails
		w.insertRun.BindInt64(1, n)
		w.insertRun.BindBytes(2, id[:])
		w.insertRun.BindInt64(3, now)
		w.insertRun.BindBytes(4, events)
		w.insertAttempt.BindInt64(1, n)
		w.insertAttempt.BindInt64(2, now)
		if err := steps(w.insertRun, w.insertAttempt); err != nil {
			return err
		}
		if n <= quarter {
			continue
		}
		w.updateRun.BindInt64(1, n-quarter)
		w.updateRun.BindInt64(2, now)
		w.updateRun.BindBytes(3, final)
		w.updateRun.BindBytes(4, events)
		w.updateAttempt.BindInt64(1, n-quarter)
		w.updateAttempt.BindInt64(2, now)
		if err := steps(w.updateRun, w.updateAttempt); err != nil {
			return err
		}
	}
	w.rows += quarter
	if err := step(w.commit); err != nil {
		return err
	}
	if w.txs++; w.txs%rawCopyEvery == 0 {
		w.copies.Wait()
		w.copies.Go(func() { _ = sqlitex.ExecuteTransient(w.copier, "PRAGMA wal_checkpoint(PASSIVE)", nil) })
	}
	return nil
}

func steps(stmts ...*sqlite.Stmt) error {
	for _, s := range stmts {
		if err := step(s); err != nil {
			return err
		}
	}
	return nil
}

func step(s *sqlite.Stmt) error {
	if _, err := s.Step(); err != nil {
		return err
	}
	return s.Reset()
}
