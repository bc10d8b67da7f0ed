package postgres

import (
	"context"
	"errors"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// lookMax is how many rows one page of runs may look at.
const lookMax = 10_000

// runList is the index that a query for runs goes by.
type runList struct {
	page, floor string // statements
	by          args   // what they want beyond the bounds
	and         args   // what only page wants
	exact       bool   // every row of the list is wanted
}

func listOf(q *store.RunQuery) runList {
	plain := q.State == "" && q.Since == 0
	switch {
	case q.State != "" && !endState(q.State):
		return runList{page: "runsActive", floor: "floorActive", and: args{}.int8(int64(q.Workflow)).text(q.User),
			exact: q.State == "active" && q.Since == 0 && q.Workflow == 0 && q.User == ""}
	case q.Workflow != 0:
		return runList{page: "runsOfWorkflow", floor: "floorOfWorkflow", by: args{}.int8(int64(q.Workflow)),
			and: args{}.text(q.User), exact: plain && q.User == ""}
	case q.User != "":
		return runList{page: "runsOfUser", floor: "floorOfUser", by: args{}.text(q.User), exact: plain}
	}
	return runList{page: "runsNewest", floor: "floorNewest", exact: plain}
}

func endState(s string) bool {
	state, ok := dag.ParseRunState(s)
	return ok && state.Terminal()
}

// Runs implements store.Store. A page ends where it has enough runs, or where it has looked
// at enough rows.
func (d *DB) Runs(ctx context.Context, q store.RunQuery) (store.RunPage, error) {
	var page store.RunPage
	limit := int(min(limitOf(q.Limit), limitDefault))
	from, l := upTo(q.Before), listOf(&q)
	var floor dag.RunID
	if !l.exact {
		a := append(args{}.id(from).int8(lookMax-1), l.by...)
		err := d.query(ctx, l.floor, a, func(r *row) error {
			floor = r.id()
			return r.bad
		})
		if err != nil {
			return page, err
		}
	}
	a := args{}.id(from).id(floor).text(q.State).int8(int64(q.Since)).int8(int64(limit) + 1)
	a = append(append(a, l.by...), l.and...)
	found, last := 0, dag.RunID{}
	err := d.query(ctx, l.page, a, func(r *row) error {
		if found++; found > limit {
			return nil
		}
		var run dag.RunRow
		err := scanRun(r, &run)
		last = run.ID
		if errors.Is(err, store.ErrCorrupt) {
			return nil // one damaged row does not hide the others; verify names it
		}
		page.Runs = append(page.Runs, run)
		return err
	})
	if err != nil {
		return store.RunPage{}, err
	}
	switch {
	case found > limit:
		page.Next = last
	case !floor.IsZero():
		page.Next = floor
	}
	return page, nil
}

// upTo is the greatest id before a cursor.
func upTo(before dag.RunID) dag.RunID {
	for i := len(before) - 1; i >= 0; i-- {
		before[i]--
		if before[i] != 0xff {
			break
		}
	}
	return before // of the zero cursor: the greatest of all
}
