package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"skein.dev/skein/internal/store"
)

// binaryForm requests the binary form for every parameter, or for every column.
var binaryForm = []int16{1}

// conn is a connection with its prepared statements. One goroutine uses it at a time.
type conn struct {
	*pgconn.PgConn
	sql      map[string]string // statements by name
	prepared map[string]*pgconn.StatementDescription
	rows     map[string]*rows // statement → its buffers for parameters, which are kept
	writes   bool             // all statements of transactions are prepared
	settled  bool             // the connection belongs to the timeline of the server in which the present era began
	backend  uint32           // the server process that serves the session; behind a pooler, PID() is the pooler's number
	made     time.Time
	idle     time.Time // the time since which the connection is idle
}

// prepare prepares the statements that are not prepared yet, in one round trip.
func (c *conn) prepare(ctx context.Context, names ...string) error {
	var missing []string
	for _, name := range names {
		if c.prepared[name] == nil {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	p := c.StartPipeline(ctx)
	for _, name := range missing {
		p.SendPrepare(name, c.text(name), nil)
	}
	err := p.Sync()
	for _, name := range missing {
		if err != nil {
			break
		}
		var got any
		if got, err = p.GetResults(); err != nil {
			err = fmt.Errorf("statement %s: %w", name, err)
			break
		}
		described, ok := got.(*pgconn.StatementDescription)
		if !ok {
			err = fmt.Errorf("statement %s: the database answered with a %T instead of rows", name, got)
			break
		}
		described.Name, described.SQL = name, c.text(name)
		c.prepared[name] = described
	}
	closing := p.Close()
	if err == nil {
		err = closing
	}
	return translate("prepare", err)
}

// query runs one statement and passes its rows to a function.
func (c *conn) query(ctx context.Context, name string, a args, see func(*row) error) error {
	return c.queries(ctx, []query{{name, a, see}})
}

// query is one of the statements that are sent in one round trip.
type query struct {
	name string
	args args
	see  func(*row) error // nil if the statement returns no rows
}

// queries runs statements in one round trip. Each statement sees its own snapshot, unless the first one
// begins a transaction and the last one ends it.
func (c *conn) queries(ctx context.Context, all []query) error {
	if err := c.prepare(ctx, names(all)...); err != nil {
		return err
	}
	doing, err := c.exchange(ctx, all)
	var own *callerError
	if errors.As(err, &own) {
		return own.error
	}
	return translate(doing, err)
}

// names returns the name of each statement once.
func names(all []query) []string {
	names := make([]string, 0, len(all))
	for i := range all {
		if !slices.Contains(names, all[i].name) {
			names = append(names, all[i].name)
		}
	}
	return names
}

// change runs statements that write, in one transaction. If the database does not answer, the outcome is
// unknown.
func (c *conn) change(ctx context.Context, all []query) error {
	if err := c.prepare(ctx, names(all)...); err != nil {
		return err
	}
	doing, err := c.exchange(ctx, all)
	var answer *pgconn.PgError
	if err == nil || errors.As(err, &answer) {
		return translate(doing, err)
	}
	return fmt.Errorf("%s: %w: %w", doing, store.ErrUnknown, err)
}

// exchange sends prepared statements and reads their answers. If one fails, doing names it in the error.
func (c *conn) exchange(ctx context.Context, all []query) (doing string, err error) {
	p := c.StartPipeline(ctx)
	for _, q := range all {
		p.SendQueryStatement(c.prepared[q.name], q.args, binaryForm, binaryForm)
	}
	err = p.Sync()
	for _, q := range all {
		if err != nil {
			break
		}
		doing = q.name
		err = show(p, q.see)
	}
	closing := p.Close()
	if err == nil {
		err = closing
	}
	return doing, err
}

// callerError is an error of the caller's function. It is returned without changes.
type callerError struct{ error }

func (e *callerError) Unwrap() error { return e.error }

// show reads the answer to one statement, and passes its rows to a function.
func show(p *pgconn.Pipeline, see func(*row) error) error {
	got, err := p.GetResults()
	if err != nil {
		return err
	}
	result, ok := got.(*pgconn.ResultReader)
	if !ok {
		return fmt.Errorf("the database answered with a %T instead of rows", got)
	}
	one := row{result: result}
	for result.NextRow() {
		if see == nil {
			continue
		}
		if one.values != nil && one.same == nil { // statements with several rows
			one.same = make([]string, len(one.values))
		}
		one.values, one.col, one.bad = result.Values(), 0, nil
		if err := see(&one); err != nil {
			_, _ = result.Close()
			return &callerError{err}
		}
	}
	_, err = result.Close()
	return err
}

// room returns the empty buffers for the parameters of a statement.
func (c *conn) room(name string) *rows {
	r := c.rows[name]
	if r == nil {
		r = &rows{name: name}
		if c.sql[single(name)] != "" {
			r.single = single(name)
		}
		c.rows[name] = r
	}
	r.reset()
	return r
}

// usable reports whether the connection can be used for another transaction.
func (c *conn) usable() bool { return !c.IsClosed() && c.TxStatus() == 'I' }

func notOpen() error { return fmt.Errorf("the store is closed: %w", store.ErrUnavailable) }
