package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"skein.dev/skein/internal/store"
)

// codeFenced is the error code that is raised by the function must() in the database.
const codeFenced = "SK001"

// codeUnique is the code for a key that exists already.
const codeUnique = "23505"

// codeReadOnly is PostgreSQL's answer to a write while it recovers, or if it is a replica.
const codeReadOnly = "25006"

// kinds maps the codes of PostgreSQL to kinds of errors by the longest listed prefix. A code that is not
// listed means ErrUnavailable: nothing was written, and the caller tries again.
var kinds = map[string]error{
	codeFenced: store.ErrFenced,
	codeQuota:  store.ErrRefused,
	"22":       store.ErrRefused, // data exception: a NUL, no UTF-8, a number out of range
	"23":       store.ErrRefused, // constraint
	"54":       store.ErrRefused, // program limit: a row or a key too large
	"53100":    store.ErrFull,
	"XX001":    store.ErrCorrupt, // a damaged page
	"XX002":    store.ErrCorrupt, // a damaged index
	"3F":       store.ErrFormat,  // no such schema
	"42P01":    store.ErrFormat,  // no such table
	"42P07":    store.ErrFormat,  // a table of this name already exists
	"42703":    store.ErrFormat,  // no such column
	"42883":    store.ErrFormat,  // no such function
}

// kindOf returns the kind of an error with which the database has answered.
func kindOf(code string) error {
	for n := len(code); n >= 2; n-- {
		if kind, ok := kinds[code[:n]]; ok {
			return kind
		}
	}
	return store.ErrUnavailable
}

// fatal reports whether the database ended the connection with this answer.
func fatal(e *pgconn.PgError) bool {
	return e.SeverityUnlocalized == "FATAL" || e.SeverityUnlocalized == "PANIC"
}

// translate adds to an error of the driver a kind, chosen by its code, and the operation that failed. An
// error that already has a kind keeps it. If the error is not an answer of the database, the connection has
// failed.
func translate(doing string, err error) error {
	if err == nil {
		return nil
	}
	for _, kind := range []error{store.ErrFormat, store.ErrFenced, store.ErrRefused, store.ErrUnavailable, store.ErrNotFound, store.ErrUnknown, store.ErrCorrupt} {
		if errors.Is(err, kind) {
			return fmt.Errorf("%s: %w", doing, err)
		}
	}
	var answer *pgconn.PgError
	if !errors.As(err, &answer) {
		return fmt.Errorf("%s: %w: %w", doing, store.ErrUnavailable, err)
	}
	if over := overQuota(answer.Message, 0); answer.Code == codeQuota && over != nil {
		return fmt.Errorf("%s: %w", doing, over)
	}
	return fmt.Errorf("%s: %w: %w", doing, kindOf(answer.Code), &answered{answer.Code, sentence(answer)})
}

// answered is an error with which the database has answered, without the driver's type.
type answered struct{ code, text string }

func (e *answered) Error() string { return e.text }

// transient holds the codes of errors that another try may not meet: the database is starting, stopping or
// failing over, it has no connection or space left at the moment, or other sessions hold a lock.
var transient = []string{"08", codeReadOnly, "40", "53", "55P03", "57", "58"}

// Passes reports whether an error may disappear by itself, because the database did not answer or could not
// do the work at the moment. A wrong password, a missing database and an unknown format do not disappear.
func Passes(err error) bool {
	var answer *answered
	if !errors.As(err, &answer) {
		return errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknown)
	}
	return slices.ContainsFunc(transient, func(code string) bool { return strings.HasPrefix(answer.code, code) })
}

// sentence returns the text of a database's error for people. It leaves out positions in statements, because
// people did not write these.
func sentence(e *pgconn.PgError) string {
	var b strings.Builder
	b.WriteString(e.Message)
	if e.Detail != "" && !strings.HasPrefix(e.Code, "23") { // a constraint's detail quotes the row
		b.WriteString("; " + e.Detail)
	}
	if e.ConstraintName != "" {
		b.WriteString(" (" + e.ConstraintName + ")")
	}
	if e.Code != codeFenced {
		b.WriteString(" [" + e.Code + "]")
	}
	return b.String()
}

func ended(ctx context.Context, doing string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w: %w", doing, store.ErrUnavailable, err)
	}
	return nil
}
