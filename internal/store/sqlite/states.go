package sqlite

import (
	"fmt"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/packed"
)

const (
	// formatStates is the first format with lists of the unsuccessful runs.
	formatStates = 10
	// statesStep is the number of run numbers that one transaction of listStates covers.
	statesStep = 64 * packed.PageRuns
)

// listStates lists the unsuccessful runs of a database of an older format. If it is interrupted, it begins
// again.
func listStates(conn *sqlite.Conn) error {
	err := sqlitex.Execute(conn, "DELETE FROM roll WHERE list >= 's/' AND list < 's0'", nil)
	if err != nil {
		return err
	}
	last, err := scalar(conn, "SELECT coalesce(max(n), 0) FROM run")
	for from := int64(0); from <= last && err == nil; from += statesStep {
		err = listStatesFrom(conn, from)
	}
	return err
}

// listStatesFrom lists the runs of one step.
func listStatesFrom(conn *sqlite.Conn, from int64) (err error) {
	defer sqlitex.Save(conn)(&err)
	pages := map[rollKey]*packed.Page{}
	look := &sqlitex.ExecOptions{Args: []any{from, from + statesStep}, ResultFunc: func(s *sqlite.Stmt) error {
		n, key := s.ColumnInt64(0), rollKey{stateList(s.ColumnText(1)), s.ColumnInt64(0) / packed.PageRuns}
		if pages[key] == nil {
			pages[key] = &packed.Page{}
		}
		pages[key][n%packed.PageRuns/64] |= 1 << (n % 64)
		return nil
	}}
	err = sqlitex.Execute(conn, "SELECT n, state FROM run WHERE n >= ?1 AND n < ?2 AND state IN ('failed', 'stopped', 'skipped')", look)
	for key, words := range pages {
		if err != nil {
			break
		}
		err = sqlitex.Execute(conn, "INSERT INTO roll (list, page, bits) VALUES (?1, ?2, ?3)",
			&sqlitex.ExecOptions{Args: []any{key.list, key.page, packed.PackPage(words)}})
	}
	if err != nil {
		return fmt.Errorf("list runs by state (%v): %w", store.UnsuccessfulStates(), err)
	}
	return nil
}
