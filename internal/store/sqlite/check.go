package sqlite

import (
	"cmp"
	"context"
	"fmt"
	"math/bits"
	"slices"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/packed"
)

// checkMax bounds the faults that one check reports.
const checkMax = 100

// Check compares derived lists with the rows, in one snapshot. Each run must be on exactly the lists to which
// it belongs, and so must its key. Each active trigger must be listed under the workflows to which it
// listens, and no other row may be listed.
func (d *DB) Check(ctx context.Context) (bad []string, err error) {
	conn, err := d.take(ctx)
	if err != nil {
		return nil, err
	}
	defer d.give(ctx, conn, &err)
	end := sqlitex.Transaction(conn)
	defer end(&err)
	lists := map[rollKey]*packed.Page{}
	err = d.on(conn, "allRolls", nil, func(s *sqlite.Stmt) error {
		words, err := readBits(s, 2)
		lists[rollKey{s.ColumnText(0), s.ColumnInt64(1)}] = &words
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
		if s.ColumnInt64(4) != 0 {
			expect = append(expect, lineList)
		}
		if state := s.ColumnText(5); store.UnsuccessfulName(state) {
			expect = append(expect, stateList(state))
		}
		for tag := range tagsIn((&row{s: s, col: 6}).blob()).Lines() {
			expect = append(expect, tagList(tag))
		}
		for _, list := range expect {
			words, bit := lists[rollKey{list, n / packed.PageRuns}], uint64(1)<<(n%64)
			if words == nil || words[n%packed.PageRuns/64]&bit == 0 {
				bad = report(bad, "run number %d is not on list %s", n, list)
				continue
			}
			words[n%packed.PageRuns/64] &^= bit
		}
		return nil
	})
	if err == nil {
		err = d.on(conn, "wrongKeys", nil, func(s *sqlite.Stmt) error {
			bad = report(bad, "run number %d does not match the list of keys at key %q", s.ColumnInt64(0), s.ColumnText(1))
			return nil
		})
	}
	if err == nil {
		bad, err = d.checkLines(conn, bad)
	}
	for key, words := range lists {
		for w, left := range words {
			for ; left != 0; left &= left - 1 {
				n := key.page*packed.PageRuns + int64(w*64+bits.TrailingZeros64(left))
				bad = report(bad, "list %s has run number %d, which does not belong there", key.list, n)
			}
		}
	}
	if err == nil {
		bad, err = d.checkListening(conn, bad)
	}
	if err != nil {
		return bad, err
	}
	return checkStocks(d, conn, bad)
}

// checkStocks counts the stocks of namespaces again, and reports those that differ.
func checkStocks(d *DB, conn *sqlite.Conn, bad []string) ([]string, error) {
	err := d.on(conn, "wrongStocks", nil, func(s *sqlite.Stmt) error {
		r := row{s: s}
		bad = report(bad, store.StockMiscounted, r.text(), r.int(), r.int(), r.int(), r.int(), r.int(), r.int())
		return nil
	})
	return bad, err
}

// checkLines compares the lines with the claims of runs. Each run must be at the position of its claim,
// exactly once.
func (d *DB) checkLines(conn *sqlite.Conn, bad []string) ([]string, error) {
	err := d.on(conn, "allLines", nil, func(s *sqlite.Stmt) error {
		first := s.ColumnInt64(3)
		runs, err := packed.UnpackLine(first, s.ColumnText(5))
		rising := slices.IsSortedFunc(runs, func(a, b int64) int { return cmp.Or(cmp.Compare(a, b), 1) })
		if err != nil || int64(len(runs)) != s.ColumnInt64(4) || runs[0] != first || !rising {
			bad = report(bad, "line %s, level %d, asked %d, from run number %d on: its count differs from the runs that it names", s.ColumnText(0), s.ColumnInt64(1),
				s.ColumnInt64(2), first)
		}
		return nil
	})
	if err != nil {
		return bad, err
	}
	stand := map[int64]bool{}
	err = d.on(conn, "allStanders", nil, func(s *sqlite.Stmt) error {
		n := s.ColumnInt64(0)
		c, _, err := dag.UnpackClaims((&row{s: s, col: 5}).blob())
		is := stander{s.ColumnText(1), dag.Priority(s.ColumnInt64(2)), dag.Micros(s.ColumnInt64(3)), s.ColumnInt64(4) != 0, n, dag.RunID{}}
		switch {
		case err != nil || !c.InLine() || is != standing(c, n):
			bad = report(bad, "run number %d is in the line %s, level %d, asked %d, but has no such claim", n, is.line, is.level, is.asked)
		case stand[n]:
			bad = report(bad, "run number %d is in the line %s twice", n, is.line)
		}
		stand[n] = true
		return nil
	})
	if err != nil {
		return bad, err
	}
	err = d.on(conn, "allClaims", nil, func(s *sqlite.Stmt) error {
		n := s.ColumnInt64(0)
		if c, _, err := dag.UnpackClaims((&row{s: s, col: 1}).blob()); err == nil && c.InLine() && !stand[n] {
			bad = report(bad, "run number %d should be in the line %s, but is not", n, c.Line())
		}
		return nil
	})
	return bad, err
}

func (d *DB) checkListening(conn *sqlite.Conn, bad []string) ([]string, error) {
	type listing struct {
		target string
		store.TriggerKey
	}
	listed := map[listing]bool{}
	err := d.on(conn, "allListening", nil, func(s *sqlite.Stmt) error {
		listed[listing{s.ColumnText(0), store.TriggerKey{Workflow: dag.WorkflowID(s.ColumnInt64(1)), Name: s.ColumnText(2)}}] = true
		return nil
	})
	if err != nil {
		return bad, err
	}
	expected := map[listing]bool{}
	err = d.on(conn, "allHears", nil, func(s *sqlite.Stmt) error {
		k := store.TriggerKey{Workflow: dag.WorkflowID(s.ColumnInt64(0)), Name: s.ColumnText(1)}
		names, err := packed.UnpackHears(s.ColumnText(2))
		if err != nil {
			bad = report(bad, "trigger %s of workflow %d: %v", k.Name, k.Workflow, err)
		}
		for _, name := range names {
			expected[listing{name, k}] = true
			if !listed[listing{name, k}] {
				bad = report(bad, "trigger %s of workflow %d listens to %s, but is not listed for it", k.Name, k.Workflow, name)
			}
		}
		return nil
	})
	for l := range listed {
		if !expected[l] {
			bad = report(bad, "trigger %s of workflow %d is listed for %s, but does not listen to it", l.Name, l.Workflow, l.target)
		}
	}
	return bad, err
}

func report(bad []string, format string, args ...any) []string {
	if len(bad) < checkMax {
		bad = append(bad, fmt.Sprintf(format, args...))
	}
	return bad
}
