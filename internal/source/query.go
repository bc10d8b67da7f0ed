package source

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"skein.dev/skein/internal/connection"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/host"
	"skein.dev/skein/internal/workflow"
)

// Query reads the rows of a database that were added after the last read row. Its cursor is the position of
// that row, in the server's own form.
//
// A transaction that inserts a row may commit after another transaction that has inserted a later row. So
// rows are passed on only when all transactions that had begun before the read have ended, or after
// Config.Settle.
type Query struct {
	pulse
	Config *workflow.Query
	Start  Start
	// Open opens a session that reads.
	Open func(ctx context.Context) (Table, error)
	// Listen calls wake for each notice of Config.Listen, until ctx ends or its session breaks. It is nil if
	// the database has no notices.
	Listen func(ctx context.Context, wake func()) error

	waited uint64 // the source no longer waits for older transactions than this one
}

// Table is a session that reads the rows of a query.
type Table interface {
	First() string
	Read(ctx context.Context, after string) (connection.Page, error)
	Open(ctx context.Context) ([]uint64, error)
	Close()
}

var (
	_ Source = (*Query)(nil)
	_ Table  = (*connection.Follower)(nil)
	_ Table  = (*connection.MySQLFollower)(nil)
)

const (
	settlePauseMin = 20 * time.Millisecond
	settlePauseMax = time.Second
	// listenAgain is the pause before a broken session for notices is opened again.
	listenAgain = 5 * time.Second
	// positionMax bounds a position, in bytes.
	positionMax = 4 << 10
)

// Run implements Source.
func (q *Query) Run(ctx context.Context, from []byte, give func(context.Context, Batch) error) error {
	table, err := within(ctx, q.Open)
	if err != nil {
		return err
	}
	defer table.Close()
	wake := make(chan struct{}, 1)
	if q.Config.Listen != "" && q.Listen != nil {
		listening, stop := context.WithCancel(ctx)
		ended := make(chan struct{})
		defer func() { stop(); <-ended }()
		go func() { defer close(ended); q.listen(listening, wake) }()
	}
	cursor := from
	if cursor == nil {
		if cursor, err = q.begin(ctx, table, give); err != nil {
			return err
		}
	}
	for {
		page, err := q.settled(ctx, table, q.position(cursor, table))
		if err != nil {
			return err
		}
		if len(page.Rows) == 0 {
			q.answered(0)
			if err := q.wait(ctx, time.Duration(q.Config.Every), wake); err != nil {
				return err
			}
			continue
		}
		if cursor, err = q.give(ctx, cursor, table, &page, give); err != nil {
			return err
		}
	}
}

// within calls a function with a context that ends with the time of one look.
func within[T any](ctx context.Context, f func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, lookMax)
	defer cancel()
	is, err := f(ctx)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("%w within %s", errSlow, lookMax)
	}
	return is, err
}

// position returns the position of a cursor. Before the first batch it returns the position before all rows.
func (q *Query) position(cursor []byte, table Table) string {
	if cursor == nil {
		return table.First()
	}
	return string(cursor)
}

// begin returns the first cursor of a source. The cursor is nil if the source begins before all rows.
// Otherwise it is the position of the last present row.
func (q *Query) begin(ctx context.Context, table Table, give func(context.Context, Batch) error) ([]byte, error) {
	if q.Start.Beginning {
		return nil, nil
	}
	last := table.First()
	for {
		page, err := within(ctx, func(ctx context.Context) (connection.Page, error) { return table.Read(ctx, last) })
		if err != nil {
			return nil, err
		}
		q.answered(0)
		if page.Last == "" || page.Last == last {
			break
		}
		last = page.Last
	}
	cursor := []byte(last)
	return cursor, give(ctx, Batch{Cursor: cursor})
}

// settled reads the rows after a position that no earlier row can precede any more.
func (q *Query) settled(ctx context.Context, table Table, after string) (connection.Page, error) {
	read := func(ctx context.Context) (connection.Page, error) { return table.Read(ctx, after) }
	page, err := within(ctx, read)
	if err != nil || len(page.Rows) == 0 || q.Config.Settle == 0 || !q.unsettled(page.Open, page.Next) {
		return page, err
	}
	last, until := page.Rows[len(page.Rows)-1].Position, time.Now().Add(time.Duration(q.Config.Settle))
	for pause := settlePauseMin; ; pause = min(2*pause, settlePauseMax) {
		q.answered(int64(len(page.Rows)))
		if err := q.wait(ctx, min(pause, time.Until(until)), nil); err != nil {
			return page, err
		}
		open, err := within(ctx, table.Open)
		if err != nil {
			return page, err
		}
		if !q.unsettled(open, page.Next) {
			break
		}
		if !time.Now().Before(until) {
			q.waited = page.Next
			break
		}
	}
	again, err := within(ctx, read)
	if err != nil {
		return again, err
	}
	// Further rows may still be inserted before the rows after last.
	if at := slices.IndexFunc(again.Rows, func(r connection.Followed) bool { return r.Position == last }); at >= 0 {
		for at+1 < len(again.Rows) && again.Rows[at+1].Position == last {
			at++
		}
		if at+1 < len(again.Rows) {
			again.More, again.Following = true, again.Rows[at+1].Position
		}
		again.Rows = again.Rows[:at+1]
		return again, nil
	}
	if again.More { // more earlier rows came than one page takes
		return again, nil
	}
	again.Rows = nil // the row is gone, and the next look reads the present rows
	return again, nil
}

// unsettled reports whether an open transaction is older than next and has not been waited for long enough.
func (q *Query) unsettled(open []uint64, next uint64) bool {
	return slices.ContainsFunc(open, func(x uint64) bool { return x >= q.waited && x < next })
}

// give passes on one batch of rows, and returns the position of the last row.
func (q *Query) give(ctx context.Context, cursor []byte, table Table, page *connection.Page, give func(context.Context, Batch) error) ([]byte, error) {
	b := Batch{After: cursor}
	size, same := 0, 0
	n := 0
	for ; n < len(page.Rows); n++ {
		row := &page.Rows[n]
		if same++; n == 0 || row.Position != page.Rows[n-1].Position {
			same = 0
		}
		e := rowEvent(row, same)
		if size += e.Size(); size > engine.BatchBytesMax {
			break
		}
		b.Events = append(b.Events, e)
	}
	if more := page.More || n < len(page.Rows); more { // rows with the position of the next one would be skipped
		next := page.Following
		if n < len(page.Rows) {
			next = page.Rows[n].Position
		}
		for n > 0 && page.Rows[n-1].Position == next {
			n--
		}
		if n == 0 {
			return cursor, fmt.Errorf("%w: more rows have the position %.100q than fit into one batch; the column %s must be unique", errTies, next, q.Config.Cursor)
		}
	}
	last := page.Rows[n-1].Position
	switch {
	case len(last) > positionMax:
		return cursor, fmt.Errorf("the position of a row has %d bytes, the limit is %d", len(last), positionMax)
	case last == q.position(cursor, table):
		return cursor, fmt.Errorf("%w: the query returned the row with %.100q again; write WHERE %s > :cursor ORDER BY %s", errStays, last, q.Config.Cursor, q.Config.Cursor)
	}
	b.Events, b.Cursor = b.Events[:n], []byte(last)
	lag := int64(len(page.Rows) - n)
	q.answered(lag + int64(n))
	if err := give(ctx, b); err != nil {
		return cursor, err
	}
	q.answered(lag)
	return b.Cursor, nil
}

// rowEvent makes an event from a row. same is the number of earlier rows with the same position.
func rowEvent(row *connection.Followed, same int) Event {
	key := "query/" + row.Position
	if len(key) > 100 || shortened(row.Position) != row.Position || strings.ContainsAny(row.Position, "#") {
		key = keyOf("query", sumOf(row.Position))
	}
	if same > 0 {
		key += fmt.Sprintf("#%d", same)
	}
	e := Event{Key: key, Value: row.Row, Reason: "the new row " + shortened(row.Position)}
	if len(row.Row) > valueMax {
		e.Value, e.Reason = nil, e.Reason+" cannot be used: "+errTooLarge.Error()
	}
	return e
}

// listen wakes the source for each notice. Without a session for notices, the source only looks at intervals.
func (q *Query) listen(ctx context.Context, wake chan<- struct{}) {
	for ctx.Err() == nil {
		_ = q.Listen(ctx, func() {
			select {
			case wake <- struct{}{}:
			default:
			}
		})
		if host.Sleep(ctx, listenAgain) != nil {
			return
		}
	}
}
