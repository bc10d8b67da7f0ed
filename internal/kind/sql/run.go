package sql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"time"

	"github.com/go-sql-driver/mysql"

	"skein.dev/skein/internal/connection"
	"skein.dev/skein/internal/egress"
	"skein.dev/skein/internal/kind"
	"skein.dev/skein/internal/sqltext"
)

// database is a session of a database. When the context of its opening ends, the current statement ends, on
// the server too.
type database interface {
	// about describes the session for the log.
	about() string
	begin(ctx context.Context) error
	// claim inserts the key of the effect. If an earlier attempt has committed the key, claim returns the
	// result of that attempt.
	claim(ctx context.Context, key string) (*kept, error)
	run(ctx context.Context, s *sqltext.Statement, to *sink) (affected int64, err error)
	// keep stores the result under the key.
	keep(ctx context.Context, key string, k *kept) error
	// commit commits the transaction. If it fails, nothing was committed, unless the error is errUnknown.
	commit(ctx context.Context) error
	// rollback undoes the transaction. It also works after the end of the context.
	rollback()
	close()
	// judge classifies an error of the database.
	judge(err error) verdict
}

// verdict is the meaning of an error.
type verdict uint8

const (
	failed    verdict = iota
	conflict          // the server ended the transaction because it conflicts with another one
	away              // the server cannot be used now
	permanent         // a retry cannot help
)

func dialectOf(c *connection.Config) sqltext.Dialect {
	switch {
	case c.MySQL != nil:
		return sqltext.MySQL
	case c.SQLite != nil:
		return sqltext.SQLite
	case c.ClickHouse != nil:
		return sqltext.ClickHouse
	}
	return sqltext.Postgres
}

// open opens a session of the connection.
func (t *task) open(ctx context.Context) (database, error) {
	switch {
	case t.to.Postgres != nil:
		return t.openPostgres(ctx)
	case t.to.MySQL != nil:
		return t.openMySQL(ctx)
	case t.to.SQLite != nil:
		return t.openSQLite(ctx)
	case t.to.ClickHouse != nil:
		return t.openClickHouse(ctx)
	}
	return nil, never("it has the type %s, and sql needs postgres, mysql, sqlite or clickhouse", t.to.Type())
}

// unreachable returns the error for a session that could not be opened.
func unreachable(err error, is verdict) error {
	if refused, ok := egress.Refused(err); ok {
		return never("%w", refused)
	}
	var dial *net.OpError
	var name *net.DNSError
	switch {
	case is == permanent:
		return never("the database refuses the session: %w: look at the connection with: skein connection test", err)
	case is == away, errors.As(err, &dial), errors.As(err, &name), errors.Is(err, context.DeadlineExceeded), errors.Is(err, connection.ErrSilent),
		errors.Is(err, driver.ErrBadConn), errors.Is(err, mysql.ErrInvalidConn), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return &failure{kind.Away, fmt.Errorf("the database cannot be reached: %w", err)}
	}
	return fmt.Errorf("no session: %w", err)
}

// run executes the task.
func (t *task) run(ctx context.Context) error {
	db, err := t.open(ctx)
	if err != nil {
		return err
	}
	defer db.close()
	defer t.named()()
	t.say("%s (connection %s)", db.about(), t.with.Connection)
	if !t.whole() {
		return t.each(ctx, db)
	}
	return t.repeat(ctx, db, func() error { return t.transaction(ctx, db) })
}

// repeat calls the function do until its transaction no longer conflicts with others, at most triesMax times.
func (t *task) repeat(ctx context.Context, db database, do func() error) error {
	for try := 1; ; try++ {
		err := do()
		var known *failure
		if err == nil || errors.As(err, &known) || errors.Is(err, errUnknown) {
			return err
		}
		switch is := db.judge(err); {
		case is == conflict && try < triesMax && ctx.Err() == nil:
			pause := time.Duration(try) * (50*time.Millisecond + rand.N(100*time.Millisecond))
			t.say("the server ended the transaction because of another one (%v); try %d begins", err, try+1)
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return err
			}
		case is == permanent:
			return never("%w", err)
		default:
			return err
		}
	}
}

// each executes the statements one after the other. Each is committed by itself.
func (t *task) each(ctx context.Context, db database) error {
	to := t.sink()
	defer to.discard()
	var affected int64
	for i := range t.all {
		err := t.repeat(ctx, db, func() (err error) {
			affected, err = t.statement(ctx, db, i, to)
			return err
		})
		if err != nil {
			if i > 0 {
				err = &failure{codeOf(err), fmt.Errorf("%w; the %d earlier statements took effect", err, i)}
			}
			return err
		}
	}
	if err := t.judged(to, affected); err != nil {
		return err
	}
	t.say("executed %d statements, %s", len(t.all), rowsOf(affected))
	return t.give(&kept{Affected: affected, Rows: to.rows()})
}

func codeOf(err error) int {
	var f *failure
	if errors.As(err, &f) {
		return f.code
	}
	return kind.Failed
}

// judged checks the result and completes its file.
func (t *task) judged(to *sink, affected int64) error {
	if err := t.checks(to, affected); err != nil {
		return &failure{kind.Failed, err}
	}
	return to.close()
}

// statement executes one statement. The rows of the last statement are the result.
func (t *task) statement(ctx context.Context, db database, i int, to *sink) (int64, error) {
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if i < len(t.all)-1 {
		to = &sink{result: ResultNone}
	}
	if err := to.open(); err != nil {
		return 0, err
	}
	n, err := db.run(ctx, &t.all[i], to)
	if err != nil && len(t.all) > 1 {
		err = fmt.Errorf("statement %d of %d: %w", i+1, len(t.all), err)
	}
	return n, err
}

// transaction tries once to execute all statements in a transaction.
func (t *task) transaction(ctx context.Context, db database) (err error) {
	began := time.Now()
	if err := db.begin(ctx); err != nil {
		return err
	}
	done := false
	defer func() {
		if !done {
			db.rollback()
		}
	}()
	key := ""
	if t.with.Once {
		key = t.env.Input.Key
		earlier, err := db.claim(ctx, key)
		if err != nil {
			return fmt.Errorf("the row in skein_done for `once: true`: %w", err)
		}
		if earlier != nil {
			t.say("attempt %d has committed this already: %s, nothing is done again", earlier.Attempt, rowsOf(earlier.Affected))
			return t.give(earlier)
		}
	}
	to := t.sink()
	defer to.discard()
	var affected int64
	for i := range t.all {
		if affected, err = t.statement(ctx, db, i, to); err != nil {
			return err
		}
	}
	if err := t.judged(to, affected); err != nil {
		return err
	}
	k := &kept{affected, to.rows(), t.attempt()}
	if key != "" {
		if err := db.keep(ctx, key, k); err != nil {
			return fmt.Errorf("the row in skein_done for `once: true`: %w", err)
		}
	}
	if err := t.give(k); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return fmt.Errorf("the attempt ended before the commit: %w", ctx.Err())
	}
	if err := db.commit(ctx); err != nil {
		return err
	}
	done = true
	t.say("committed, %s, %v", rowsOf(affected), time.Since(began).Round(time.Millisecond))
	return nil
}

// rowsOf returns a number of rows in words.
func rowsOf(n int64) string {
	if n == 1 {
		return "1 row"
	}
	return fmt.Sprintf("%d rows", n)
}
