package sqlite

import (
	"context"
	"errors"
	"math/bits"
	"slices"

	"zombiezen.com/go/sqlite"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/packed"
)

const (
	// lookMax bounds the number of rows that are read for one page of runs.
	lookMax = 10_000
	// rollLookMax bounds the number of pages of lists that are read for one page of runs. These pages cover
	// 8,000,000 runs.
	rollLookMax = 4096
)

// choice names the lists that select runs. A selected run is on each list in the field all, and on no list in
// the field not. Unless the field some is empty, the run is on at least one list in it.
type choice struct {
	all, some, not []string
	exact          bool // the lists alone answer the query, without reading runs
}

// choiceOf chooses the lists for a query.
func choiceOf(q *store.RunQuery, states []string) (c choice) {
	if q.Workflow != 0 {
		c.all = append(c.all, workflowList(q.Workflow))
	}
	if q.User != "" {
		c.all = append(c.all, userList(q.User))
	}
	for tag := range q.Tags.Lines() {
		c.all = append(c.all, tagList(tag))
	}
	c.exact = !q.Looks() && q.Since == 0 && q.Until == 0 && q.Origin == "" && q.Cause == ""
	if len(states) == 0 {
		c.exact = c.exact && len(c.all) > 0
		return c
	}
	unfinished, every := 0, 0
	for s := dag.RunSubmitted; s <= dag.RunSkipped; s++ {
		switch has := slices.Contains(states, s.String()); {
		case s.Terminal() && store.Unsuccessful(s) && has:
			c.some = append(c.some, stateList(s.String()))
		case s.Terminal() && store.Unsuccessful(s):
			c.not = append(c.not, stateList(s.String()))
		case !s.Terminal():
			if every++; has {
				unfinished++
			}
		}
	}
	if unfinished > 0 {
		c.some = append(c.some, activeList)
	} else {
		c.not = append(c.not, activeList)
	}
	c.exact = c.exact && (unfinished == 0 || unfinished == every)
	if slices.Contains(states, dag.RunSucceeded.String()) { // no list contains succeeded runs
		c.some = nil
		c.exact = c.exact && len(c.all) > 0
	} else {
		c.not = nil
	}
	return c
}

// free reports whether no list limits the choice.
func (c *choice) free() bool { return len(c.all)+len(c.some) == 0 }

// pageBelow returns the greatest page, up to the given one, on which the choice may have runs. It returns -1
// if there is none.
func (d *DB) pageBelow(conn *sqlite.Conn, c *choice, page int64) (int64, error) {
	below := func(list string, page int64) (at int64, err error) {
		at = -1
		err = d.on(conn, "rollBelow", []any{list, page}, func(s *sqlite.Stmt) error {
			at = s.ColumnInt64(0)
			return nil
		})
		return at, err
	}
	for { // each round lowers the limit
		at := page
		for _, list := range c.all {
			var err error
			if at, err = below(list, at); err != nil || at < 0 {
				return -1, err
			}
		}
		if len(c.some) > 0 {
			best := int64(-1)
			for _, list := range c.some {
				one, err := below(list, at)
				if err != nil {
					return -1, err
				}
				best = max(best, one)
			}
			if at = best; at < 0 {
				return -1, nil
			}
		}
		if at == page {
			return at, nil
		}
		page = at
	}
}

// chosen returns the runs of a choice on a page.
func (d *DB) chosen(conn *sqlite.Conn, c *choice, page int64) (words packed.Page, err error) {
	read := func(list string) (words packed.Page, err error) {
		err = d.on(conn, "rollPage", []any{list, page}, func(s *sqlite.Stmt) (err error) {
			words, err = readBits(s, 0)
			return err
		})
		return words, err
	}
	for _, list := range c.some {
		one, err := read(list)
		if err != nil {
			return words, err
		}
		for w := range words {
			words[w] |= one[w]
		}
	}
	for i, list := range c.all {
		one, err := read(list)
		if err != nil {
			return words, err
		}
		for w := range words {
			if i == 0 && len(c.some) == 0 {
				words[w] = one[w]
			} else {
				words[w] &= one[w]
			}
		}
	}
	for _, list := range c.not {
		one, err := read(list)
		if err != nil {
			return words, err
		}
		for w := range words {
			words[w] &^= one[w]
		}
	}
	return words, nil
}

// end is the reason why a walk over runs has ended.
type end struct {
	enough bool  // see has returned false
	page   int64 // the last page that was read, if there may be further pages below it; otherwise 0
}

// pages calls the function see for the pages on which the choice may have runs, in falling order.
func (d *DB) pages(conn *sqlite.Conn, c *choice, from int64, see func(page int64, words *packed.Page) (bool, error)) (e end, err error) {
	for looked := 0; from >= 0; looked++ {
		page, err := d.pageBelow(conn, c, from)
		if err != nil || page < 0 {
			return end{}, err
		}
		if looked == rollLookMax {
			return end{page: page + 1}, nil
		}
		words, err := d.chosen(conn, c, page)
		if err != nil {
			return end{}, err
		}
		if more, err := see(page, &words); err != nil || !more {
			return end{enough: true}, err
		}
		from = page - 1
	}
	return end{}, nil
}

// newest calls the function see for rows of runs in falling order of their numbers, until see returns false.
// The numbers are less than the parameter below, and not less than floor.
func (d *DB) newest(conn *sqlite.Conn, c *choice, below, floor int64, see func(*sqlite.Stmt) (bool, error)) (end, error) {
	enough := false
	row := func(s *sqlite.Stmt) error {
		more, err := see(s)
		if err == nil && !more {
			enough, err = true, errEnough
		}
		return err
	}
	if c.free() {
		err := d.on(conn, "runsNewest", []any{below, int64(lookMax) + 1, floor}, row)
		if enough {
			err = nil
		}
		return end{enough: enough}, err
	}
	e, err := d.pages(conn, c, (below-1)/packed.PageRuns, func(page int64, words *packed.Page) (bool, error) {
		if (page+1)*packed.PageRuns <= floor {
			return false, nil
		}
		_, err := downwards(page, words, below, func(n int64) (bool, error) {
			if n < floor {
				return false, nil
			}
			err := d.on(conn, "runByNumber", []any{n}, row)
			return !enough, err
		})
		return !enough, err
	})
	if enough {
		return end{enough: true}, nil
	}
	e.enough = false
	return e, err
}

// Runs implements store.Store.
func (d *DB) Runs(ctx context.Context, q store.RunQuery) (_ store.RunPage, err error) {
	conn, err := d.take(ctx)
	if err != nil {
		return store.RunPage{}, err
	}
	defer d.give(ctx, conn, &err)
	l := listing{DB: d, conn: conn, q: &q, states: q.Expanded()}
	l.names = store.Names{Workflows: map[dag.WorkflowID]string{}, Nodes: map[dag.HandlerID]string{}}
	l.choice = choiceOf(&q, l.states)
	if q.Not != 0 {
		l.choice.not = append(l.choice.not, workflowList(q.Not))
	}
	page, err := l.page()
	if err == nil && q.Count {
		page.Total, err = l.total(&page)
	}
	return page, err
}

// listing is a query for runs under way.
type listing struct {
	*DB
	conn   *sqlite.Conn
	q      *store.RunQuery
	states []string
	choice choice
	names  store.Names
}

// bounds returns the range of numbers of the runs that were created in the requested time.
func (l *listing) bounds() (floor, below int64, err error) {
	below = 1 << 62
	if l.q.Until != 0 {
		if below, err = l.numberSince(l.q.Until + dag.Micros(store.ClockSlack.Microseconds())); err != nil {
			return 0, 0, err
		}
	}
	if since := l.q.Since - dag.Micros(store.ClockSlack.Microseconds()); since > 0 {
		floor, err = l.numberSince(since)
	}
	return floor, below, err
}

// numberSince returns the least number of a run that was created at or after an instant, or a number beyond
// all runs. Numbers rise with time, as long as the clock rises.
func (l *listing) numberSince(at dag.Micros) (n int64, err error) {
	var low, high int64
	err = l.on(l.conn, "numbersOfRuns", nil, func(s *sqlite.Stmt) error {
		low, high = s.ColumnInt64(0), s.ColumnInt64(1)
		return nil
	})
	for low < high && err == nil {
		middle := low + (high-low)/2
		next, created := high, at
		err = l.on(l.conn, "createdFrom", []any{middle}, func(s *sqlite.Stmt) error {
			next, created = s.ColumnInt64(0), dag.Micros(s.ColumnInt64(1))
			return nil
		})
		if created >= at {
			high = middle
		} else {
			low = next + 1
		}
	}
	return low, err
}

// pageRoom is the number of runs for which a page has memory before it grows: a page of the web UI.
const pageRoom = 50

func (l *listing) page() (page store.RunPage, err error) {
	limit := min(limitOf(l.q.Limit), limitDefault)
	floor, below, err := l.bounds()
	if err != nil {
		return page, err
	}
	if !l.q.Before.IsZero() {
		before, there, err := l.numberOf(l.conn, l.q.Before)
		if err != nil {
			return page, err
		}
		if !there {
			before++ // the run of the cursor has been deleted
		}
		below = min(below, before)
	}
	page.Runs = make([]dag.RunRow, 0, min(limit, pageRoom))
	looked, bytes := 0, 0
	e, err := l.newest(l.conn, &l.choice, below, floor, func(s *sqlite.Stmt) (bool, error) {
		if len(page.Runs) == limit || looked == lookMax {
			return false, nil
		}
		looked++
		page.Runs = append(page.Runs, dag.RunRow{})
		last := len(page.Runs) - 1
		r := &page.Runs[last]
		fits, err := l.row(s, r)
		if err == nil && fits && l.q.Params {
			bytes += len(r.Params)
		}
		full := l.q.Params && l.q.Bytes > 0 && bytes > l.q.Bytes && last > 0
		if err != nil || !fits || full {
			page.Runs = page.Runs[:last]
		}
		if err != nil || full {
			return false, err
		}
		s.ColumnBytes(colID, page.Next[:])
		return true, nil
	})
	switch {
	case err != nil || e.enough:
	case e.page > 0:
		err = l.on(l.conn, "idFrom", []any{e.page * packed.PageRuns}, func(s *sqlite.Stmt) error {
			s.ColumnBytes(0, page.Next[:])
			return nil
		})
	default:
		page.Next = dag.RunID{}
	}
	return page, err
}

// row reads a row into r, and reports whether the query selects it. It skips a damaged row, so that the row
// does not hide others; skein verify reports the damage.
func (l *listing) row(s *sqlite.Stmt, r *dag.RunRow) (fits bool, err error) {
	if len(l.states) > 0 && !slices.Contains(l.states, s.ColumnText(colState)) {
		return false, nil
	}
	scan := scanLeanRun
	if l.q.Params {
		scan = scanRun
	}
	if err = scan(s, r); errors.Is(err, store.ErrCorrupt) {
		return false, nil
	}
	if err == nil {
		err = l.learn(r)
	}
	return err == nil && l.q.Fits(r, l.states, &l.names), err
}

// learn reads those names of a run that the query needs.
func (l *listing) learn(r *dag.RunRow) (err error) {
	workflows, nodes := l.q.Names()
	if _, known := l.names.Workflows[r.Workflow]; workflows && !known {
		l.names.Workflows[r.Workflow] = ""
		err = l.on(l.conn, "nameOfWorkflow", []any{int64(r.Workflow)}, func(s *sqlite.Stmt) error {
			l.names.Workflows[r.Workflow] = s.ColumnText(0)
			return nil
		})
	}
	if _, known := l.names.Nodes[r.Leader]; nodes && !known && err == nil {
		l.names.Nodes[r.Leader] = ""
		err = l.on(l.conn, "nameOfNode", []any{int64(r.Leader)}, func(s *sqlite.Stmt) error {
			l.names.Nodes[r.Leader] = s.ColumnText(0)
			return nil
		})
	}
	return err
}

// total counts the runs that the query selects. If the lists alone answer the query, it reads no rows.
func (l *listing) total(page *store.RunPage) (t store.Total, err error) {
	if l.q.Before.IsZero() && page.Next.IsZero() {
		return store.Total{N: int64(len(page.Runs)), Exact: true}, nil
	}
	if l.choice.exact {
		e, err := l.pages(l.conn, &l.choice, 1<<62/packed.PageRuns, func(_ int64, words *packed.Page) (bool, error) {
			for _, w := range words {
				t.N += int64(bits.OnesCount64(w))
			}
			return true, nil
		})
		t.Exact = e.page == 0
		return t, err
	}
	floor, below, err := l.bounds()
	if err != nil {
		return t, err
	}
	looked := 0
	e, err := l.newest(l.conn, &l.choice, below, floor, func(s *sqlite.Stmt) (bool, error) {
		if looked++; looked > store.CountMax {
			return false, nil
		}
		fits, err := l.row(s, new(dag.RunRow))
		if fits {
			t.N++
		}
		return true, err
	})
	t.Exact = !e.enough && e.page == 0
	return t, err
}
