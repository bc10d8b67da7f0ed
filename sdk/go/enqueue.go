package skein

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Enqueue describes a run that a program starts in its own transaction. The program must keep its data in the
// PostgreSQL database of a cluster. Only Workflow is required.
type Enqueue struct {
	Workflow string // NAME or NAMESPACE/NAME
	Params   any    // encodes to a JSON object: a map, a struct or a json.RawMessage
	Key      string // equal requests with the same key start one run
	Priority string // highest, high, medium, low or lowest; "" means that of the workflow
	// User is the name that the program gives its user, or "". The run shows the name (claimed_by) next to
	// the role of the connection. No decision depends on it.
	User   string
	Schema string // schema of Skein's tables; "" means skein
	// Traceparent is the W3C trace context, of version 00, to which the tasks of the run belong, such as
	// "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01". EnqueueTx stores it in the setting
	// skein.traceparent of the transaction. So it also applies to later starts in the transaction that have
	// no Traceparent. "" keeps the present setting.
	Traceparent string
}

// Row is the result of a query, such as pgx.Row or *sql.Row.
type Row interface{ Scan(dest ...any) error }

// Tx runs a query. pgx.Tx, *pgx.Conn and a pool implement it.
type Tx[R Row] interface {
	QueryRow(ctx context.Context, query string, args ...any) R
}

// EnqueueTx starts a run inside the transaction of the caller. The run exists if and only if the transaction
// commits. It begins within about a second after the commit. The result is the run's id. If an earlier run
// has the same key, the result is the id of that run. If another open transaction has used the key, the call
// waits for that transaction. EnqueueTx only executes SELECT skein.skein_enqueue(…), for which the role needs
// USAGE on the schema and EXECUTE on the function. An error aborts the transaction, as every failed statement
// does. The kind of the error is [ErrNotFound], [ErrConflict] or [ErrInvalid]. The run fails if the workflow
// does not accept its parameters.
func EnqueueTx[R Row](ctx context.Context, tx Tx[R], e Enqueue) (run string, err error) {
	query, args, err := e.statement()
	if err != nil {
		return "", err
	}
	return run, enqueueError(tx.QueryRow(ctx, query, args...).Scan(&run))
}

// EnqueueSQL is [EnqueueTx] for the package database/sql.
func EnqueueSQL(ctx context.Context, tx *sql.Tx, e Enqueue) (run string, err error) {
	query, args, err := e.statement()
	if err != nil {
		return "", err
	}
	return run, enqueueError(tx.QueryRowContext(ctx, query, args...).Scan(&run))
}

func (e *Enqueue) statement() (query string, args []any, err error) {
	params := []byte("{}")
	if e.Params != nil {
		if params, err = json.Marshal(e.Params); err != nil {
			return "", nil, fmt.Errorf("%w: params of %s: %w", ErrInvalid, e.Workflow, err)
		}
	}
	orNull := func(s string) *string {
		if s == "" {
			return nil
		}
		return &s
	}
	schema := e.Schema
	if schema == "" {
		schema = "skein"
	}
	query = `SELECT "` + strings.ReplaceAll(schema, `"`, `""`) + `".skein_enqueue($1::text, $2::text::jsonb, $3::text, $4::text, $5::text)::text`
	args = []any{e.Workflow, string(params), orNull(e.Key), orNull(e.Priority), orNull(e.User)}
	// Thanks to WHERE trace IS NOT NULL, the setting is made before the function is called.
	if e.Traceparent != "" {
		query += ` FROM (SELECT set_config('skein.traceparent', $6::text, true) AS trace OFFSET 0) AS caller WHERE trace IS NOT NULL`
		args = append(args, e.Traceparent)
	}
	return query, args, nil
}

// enqueueError maps the database's refusals to kinds of error.
func enqueueError(err error) error {
	var coded interface{ SQLState() string }
	if err == nil || !errors.As(err, &coded) {
		return err
	}
	switch coded.SQLState() {
	case "SK002":
		return fmt.Errorf("%w: enqueue: %w", ErrNotFound, err)
	case "SK003":
		return fmt.Errorf("%w: enqueue: %w", ErrConflict, err)
	case "22023":
		return fmt.Errorf("%w: enqueue: %w", ErrInvalid, err)
	}
	return fmt.Errorf("enqueue: %w", err)
}
