package bench

import (
	"crypto/rand"
	"time"

	"zombiezen.com/go/sqlite"
)

// rawWriter writes rows as wide as the product's and nothing else.
type rawWriter struct {
	conn                                               *sqlite.Conn
	begin, commit                                      *sqlite.Stmt
	insertRun, insertAttempt, updateRun, updateAttempt *sqlite.Stmt
	rows                                               int64 // of each table, so far
}

func (w *rawWriter) prepare() error {
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

// transaction inserts a quarter of its rows into each table and updates those of the one before.
func (w *rawWriter) transaction() error {
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
	return step(w.commit)
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
