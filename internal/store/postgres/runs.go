package postgres

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

const (
	// lookMax bounds the number of rows that are read for one page of runs.
	lookMax = 10_000
	// lookStep is the number of rows of one answer if the database cannot select the rows itself.
	lookStep = 500
)

// rowsRoom is the number of runs for which an answer has memory before it must grow: a page of the web UI,
// and one more run.
const rowsRoom = 51

// runList is the index that a query for runs uses.
type runList struct {
	page, floor, count string // names of statements
	by                 args   // further parameters of the statements floor and count
	own                args   // further parameters of the statement page
	exact              bool   // the query selects every row of the list
}

// listOf chooses the index for a query. It does not use the lists by state until they contain the runs of an
// older database.
func listOf(d *DB, q *store.RunQuery, states []string) runList {
	unfinished, unsuccessful := len(states) > 0, len(states) > 0 && d.statesListed.Load()
	for _, name := range states {
		s, ok := dag.ParseRunState(name)
		unfinished = unfinished && ok && !s.Terminal()
		unsuccessful = unsuccessful && ok && store.Unsuccessful(s)
	}
	plain := q.Since == 0 && q.Until == 0 && q.Origin == "" && q.Cause == "" && !q.Looks()
	every := slices.Equal(states, (&store.RunQuery{States: []string{store.StateActive}}).Expanded())
	switch {
	case unfinished:
		return runList{page: "runsActive", floor: "floorActive", count: "countActive", exact: every && plain && q.Workflow == 0 && q.User == "" && q.Tags == ""}
	case q.Tags != "":
		first, all := "", 0
		for tag := range q.Tags.Lines() {
			first, all = cmp.Or(first, tag), all+1
		}
		by := args{}.blob([]byte(first))
		return runList{page: "runsOfTag", floor: "floorOfTag", count: "countOfTag", by: by, own: by,
			exact: plain && all == 1 && len(states) == 0 && q.Workflow == 0 && q.User == ""}
	case unsuccessful && q.Workflow != 0:
		return runList{page: "runsUnsuccessfulOf", floor: "floorUnsuccessfulOf", count: "countUnsuccessfulOf", by: args{}.int8(int64(q.Workflow)).array(texts(states)),
			exact: plain && q.User == ""}
	case unsuccessful:
		return runList{page: "runsUnsuccessful", floor: "floorUnsuccessful", count: "countUnsuccessful", by: args{}.array(texts(states)), exact: plain && q.User == ""}
	case q.Workflow != 0:
		return runList{page: "runsOfWorkflow", floor: "floorOfWorkflow", count: "countOfWorkflow", by: args{}.int8(int64(q.Workflow)),
			exact: plain && len(states) == 0 && q.User == ""}
	case q.User != "":
		return runList{page: "runsOfUser", floor: "floorOfUser", count: "countOfUser", by: args{}.text(q.User), exact: plain && len(states) == 0}
	}
	return runList{page: "runsNewest", floor: "floorNewest", count: "countNewest", exact: plain && len(states) == 0}
}

// listing is a query for runs under way.
type listing struct {
	*DB
	q      *store.RunQuery
	states []string
	list   runList
	names  store.Names
	from   dag.RunID // the greatest id that the page reads
	floor  dag.RunID // the least id that the page reads
	cut    bool      // the store may have more runs below the floor
}

// Runs implements store.Store. A page ends when it has enough runs, or when it has read lookMax rows.
func (d *DB) Runs(ctx context.Context, q store.RunQuery) (store.RunPage, error) {
	if _, err := statesKnown(ctx, d); err != nil {
		return store.RunPage{}, err
	}
	l := listing{DB: d, q: &q, states: q.Expanded()}
	l.names = store.Names{Workflows: map[dag.WorkflowID]string{}, Nodes: map[dag.HandlerID]string{}}
	l.list = listOf(d, &q, l.states)
	if err := l.span(ctx, q.Before); err != nil {
		return store.RunPage{}, err
	}
	page, err := l.page(ctx)
	if err == nil && q.Params {
		err = l.params(ctx, &page)
	}
	if err == nil && q.Count {
		page.Total, err = l.total(ctx, &page)
	}
	return page, err
}

// span finds the range of ids that the page looks at.
func (l *listing) span(ctx context.Context, before dag.RunID) error {
	slack := dag.Micros(store.ClockSlack.Microseconds())
	l.from, l.floor, l.cut = upTo(before), dag.RunID{}, false
	if l.q.Until != 0 {
		if least := upTo(idAt(l.q.Until + slack)); slices.Compare(least[:], l.from[:]) < 0 {
			l.from = least
		}
	}
	if l.q.Since > slack {
		l.floor = idAt(l.q.Since - slack)
	}
	if l.list.exact {
		return nil
	}
	return l.query(ctx, l.list.floor, l.bounded(lookMax-1), func(r *row) error {
		if id := r.id(); slices.Compare(id[:], l.floor[:]) > 0 {
			l.floor, l.cut = id, true
		}
		return r.bad
	})
}

// idAt returns the least id of a run that was made at an instant.
func idAt(at dag.Micros) (id dag.RunID) {
	var head [8]byte
	binary.BigEndian.PutUint64(head[:], uint64(at/1000)<<16)
	copy(id[:], head[:6])
	return id
}

// bounded returns the parameters of the statements that find the floor and count.
func (l *listing) bounded(rows int64) args {
	return append(args{}.id(l.from).int8(rows), l.list.by...)
}

// rows reads up to limit runs of the list, and returns the last id that it has read.
func (l *listing) rows(ctx context.Context, limit int) (rows []dag.RunRow, sizes []int64, last dag.RunID, read int, err error) {
	a := args{}.id(l.from).id(l.floor).array(texts(l.states)).int8(int64(l.q.Since)).int8(int64(limit)).
		int8(int64(l.q.Workflow)).text(l.q.User).int8(int64(l.q.Until)).text(string(l.q.Origin)).text(l.q.Cause)
	a = append(a, l.list.own...)
	rows, sizes = make([]dag.RunRow, 0, min(limit, rowsRoom)), make([]int64, 0, min(limit, rowsRoom))
	err = l.query(ctx, l.list.page, a, func(r *row) error {
		read++
		rows = append(rows, dag.RunRow{})
		run := &rows[len(rows)-1]
		err := scanRun(r, run)
		last = run.ID
		if errors.Is(err, store.ErrCorrupt) {
			rows = rows[:len(rows)-1]
			return nil // a damaged row must not hide the others; skein verify names it
		}
		sizes = append(sizes, r.int())
		return err
	})
	return rows, sizes, last, read, err
}

func (l *listing) page(ctx context.Context) (page store.RunPage, err error) {
	limit := int(min(limitOf(l.q.Limit), limitDefault))
	bytes, looked, others := int64(0), 0, false
	for {
		step := limit + 1 - len(page.Runs)
		if l.q.Looks() || others || l.q.Tags != "" && !l.list.exact {
			step = lookStep
		}
		rows, sizes, last, read, err := l.rows(ctx, step)
		if err == nil {
			err = l.learn(ctx, rows)
		}
		if err != nil {
			return store.RunPage{}, err
		}
		if page.Runs == nil {
			page.Runs = rows[:0] // the selected rows overwrite the array that was read
		}
		for i := range rows {
			if !l.q.Fits(&rows[i], l.states, &l.names) {
				continue
			}
			bytes += sizes[i]
			if len(page.Runs) == limit || l.q.Params && l.q.Bytes > 0 && bytes > int64(l.q.Bytes) && len(page.Runs) > 0 {
				page.Next = page.Runs[len(page.Runs)-1].ID
				return page, nil
			}
			page.Runs = append(page.Runs, rows[i])
		}
		others = l.q.Not != 0 // rows that the query excludes may follow each other in large numbers
		if looked += read; read < step {
			if l.cut {
				page.Next = l.floor
			}
			return page, nil
		}
		if l.from = upTo(last); others && looked >= lookMax {
			page.Next = last
			return page, nil
		}
	}
}

// learn reads the names of workflows and nodes that the query needs to select runs.
func (l *listing) learn(ctx context.Context, rows []dag.RunRow) error {
	workflows, nodes := l.q.Names()
	var flows []dag.WorkflowID
	var handlers []dag.HandlerID
	for i := range rows {
		r := &rows[i]
		if _, known := l.names.Workflows[r.Workflow]; workflows && !known {
			l.names.Workflows[r.Workflow] = ""
			flows = append(flows, r.Workflow)
		}
		if _, known := l.names.Nodes[r.Leader]; nodes && !known {
			l.names.Nodes[r.Leader] = ""
			handlers = append(handlers, r.Leader)
		}
	}
	var all []query
	if len(flows) > 0 {
		all = append(all, query{"namesOfWorkflows", args{}.array(int8s(flows)), func(r *row) error {
			l.names.Workflows[dag.WorkflowID(r.int())] = r.text()
			return r.damaged("a workflow")
		}})
	}
	if len(handlers) > 0 {
		all = append(all, query{"namesOfNodes", args{}.array(int8s(handlers)), func(r *row) error {
			l.names.Nodes[dag.HandlerID(r.int())] = r.text()
			return r.damaged("a handler")
		}})
	}
	if len(all) == 0 {
		return nil
	}
	return l.queries(ctx, all...)
}

// params reads the parameters of a page.
func (l *listing) params(ctx context.Context, page *store.RunPage) error {
	at := make(map[dag.RunID]int, len(page.Runs))
	for i := range page.Runs {
		at[page.Runs[i].ID] = i
	}
	named := make([]dag.RunID, 0, len(at))
	for i := range page.Runs {
		named = append(named, page.Runs[i].ID)
	}
	if len(named) == 0 {
		return nil
	}
	return l.query(ctx, "paramsOfRuns", args{}.array(ids(named)), func(r *row) error {
		id := r.id()
		page.Runs[at[id]].Params = r.blob()
		return r.damaged("run %s", id)
	})
}

// total counts the runs that the query selects, but at most store.CountMax runs of its list.
func (l *listing) total(ctx context.Context, page *store.RunPage) (store.Total, error) {
	if l.q.Before.IsZero() && page.Next.IsZero() {
		return store.Total{N: int64(len(page.Runs)), Exact: true}, nil
	}
	l.list.exact = l.list.exact && l.q.Not == 0
	if err := l.span(ctx, dag.RunID{}); err != nil {
		return store.Total{}, err
	}
	if l.list.exact { // the list can be counted without reading runs
		t := store.Total{}
		err := l.query(ctx, l.list.count, l.bounded(store.CountMax+1), func(r *row) error {
			t.N = r.int()
			return r.damaged("a count")
		})
		t.Exact = t.N <= store.CountMax
		t.N = min(t.N, store.CountMax)
		return t, err
	}
	return l.lookTotal(ctx)
}

// lookTotal counts by reading the rows.
func (l *listing) lookTotal(ctx context.Context) (t store.Total, err error) {
	for {
		rows, _, last, read, err := l.rows(ctx, lookStep)
		if err == nil {
			err = l.learn(ctx, rows)
		}
		if err != nil {
			return t, err
		}
		for i := range rows {
			if l.q.Fits(&rows[i], l.states, &l.names) {
				t.N++
			}
		}
		if read < lookStep {
			t.Exact = !l.cut
			return t, nil
		}
		l.from = upTo(last)
	}
}

// upTo returns the greatest id before a cursor.
func upTo(before dag.RunID) dag.RunID {
	for i := len(before) - 1; i >= 0; i-- {
		before[i]--
		if before[i] != 0xff {
			break
		}
	}
	return before // for the zero cursor, this is the greatest id
}
