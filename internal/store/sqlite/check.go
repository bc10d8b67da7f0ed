package sqlite

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"skein.dev/skein/internal/dag"
)

// checkMax bounds what one check reports.
const checkMax = 100

// Check compares the lists with the runs, in one snapshot: every run is on the lists it
// belongs to, and no list has a run that it should not have.
func (d *DB) Check(ctx context.Context) (bad []string, err error) {
	conn, err := d.take(ctx)
	if err != nil {
		return nil, err
	}
	defer d.pool.Put(conn)
	end := sqlitex.Transaction(conn)
	defer end(&err)
	lists := map[string]map[int64]bool{}
	err = d.on(conn, "allRolls", nil, func(s *sqlite.Stmt) error {
		list := s.ColumnText(0)
		if lists[list] == nil {
			lists[list] = map[int64]bool{}
		}
		words, err := readBits(s, 2)
		for i := range int64(rollBits) {
			if words[i/64]>>(i%64)&1 != 0 {
				lists[list][s.ColumnInt64(1)*rollBits+i] = true
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	err = d.on(conn, "runLists", nil, func(s *sqlite.Stmt) error {
		n := s.ColumnInt64(0)
		expect := []string{workflowList(dag.WorkflowID(s.ColumnInt64(1))), userList(s.ColumnText(2))}
		if s.ColumnInt64(3) == 0 {
			expect = append(expect, activeList)
		}
		for _, list := range expect {
			if !lists[list][n] && len(bad) < checkMax {
				bad = append(bad, fmt.Sprintf("run number %d is not on list %s", n, list))
			}
			delete(lists[list], n)
		}
		return nil
	})
	for list, rest := range lists {
		for n := range rest {
			if len(bad) < checkMax {
				bad = append(bad, fmt.Sprintf("list %s has run number %d, which does not belong there", list, n))
			}
		}
	}
	return bad, err
}
