package connection

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// MySQLFollower reads the rows of a table of MySQL or MariaDB that were added after a position. Its session
// reads only. The server does not tell reliably which transactions are open, so each read counts as one that
// is never settled: see Page.Open.
type MySQLFollower struct {
	s         *MySQLSession
	statement *sql.Stmt
	places    int // how often the statement has the position
	first     string
	whole     bool // the positions are whole numbers
	at        int  // the column of the position
	names     [][]byte
	forms     []Form
	reads     uint64
}

// followMax bounds a statement of a follower in the server.
const followMax = time.Minute

// Follow opens a session that reads the rows of a query. The query has a ? for each of the places at which
// the position stands; column is the position of a row.
func (m *MySQL) Follow(ctx context.Context, password string, dial Dial, query string, places int, column string) (*MySQLFollower, error) {
	s, err := m.Open(ctx, password, dial)
	if err != nil {
		return nil, err
	}
	f := &MySQLFollower{s: s, places: places}
	if err := f.prepare(ctx, query, column); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (f *MySQLFollower) prepare(ctx context.Context, query, column string) error {
	for _, text := range []string{"SET SESSION TRANSACTION READ ONLY", "SET SESSION time_zone = '+00:00'"} {
		if _, err := f.s.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	// The first variable is that of MySQL, the second one that of MariaDB.
	if _, err := f.s.ExecContext(ctx, fmt.Sprintf("SET SESSION max_execution_time = %d", followMax.Milliseconds())); err != nil {
		if _, err := f.s.ExecContext(ctx, fmt.Sprintf("SET SESSION max_statement_time = %d", int(followMax.Seconds()))); err != nil {
			return err
		}
	}
	var err error
	if f.statement, err = f.s.PrepareContext(ctx, query); err != nil {
		return fmt.Errorf("the query is refused: %w", err)
	}
	rows, err := f.statement.QueryContext(ctx, slices.Repeat([]any{nil}, f.places)...)
	if err != nil {
		return fmt.Errorf("the query is refused: %w", err)
	}
	defer rows.Close()
	types, err := rows.ColumnTypes()
	if err != nil {
		return err
	}
	return f.columns(types, column)
}

// columns learns the columns of the result.
func (f *MySQLFollower) columns(types []*sql.ColumnType, column string) error {
	f.at = slices.IndexFunc(types, func(c *sql.ColumnType) bool { return c.Name() == column })
	seen := map[string]bool{}
	for _, c := range types {
		if seen[c.Name()] {
			return fmt.Errorf("two columns of the result have the name %.100q: rename one with AS", c.Name())
		}
		seen[c.Name()] = true
		key, err := json.Marshal(c.Name())
		if err != nil {
			return err
		}
		f.names, f.forms = append(f.names, append(key, ':')), append(f.forms, FormOfMySQL(c.DatabaseTypeName()))
	}
	if f.at < 0 {
		var names []string
		for _, c := range types {
			names = append(names, c.Name())
		}
		return fmt.Errorf("%w, %.100q; it returns %.300s", ErrColumn, column, strings.Join(names, ", "))
	}
	switch name := types[f.at].DatabaseTypeName(); strings.TrimPrefix(name, "UNSIGNED ") {
	case "TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT":
		f.first, f.whole = "-9223372036854775808", true
		if strings.HasPrefix(name, "UNSIGNED") {
			f.first = "-1"
		}
	case "DATE", "DATETIME", "TIMESTAMP":
		f.first = "1000-01-01"
	case "CHAR", "VARCHAR", "TEXT":
		f.first = ""
	default:
		return fmt.Errorf("the column %.100q has the type %s, whose values MySQL does not compare exactly with a position: use a column of whole numbers, instants or texts", column, name)
	}
	return nil
}

// First returns the position before all rows.
func (f *MySQLFollower) First() string { return f.first }

// Read reads the rows after a position.
func (f *MySQLFollower) Read(ctx context.Context, after string) (page Page, err error) {
	f.reads++
	page.Open, page.Next = []uint64{f.reads}, f.reads+1
	position, err := f.position(after)
	if err != nil {
		return page, err
	}
	f.s.Took()
	rows, err := f.statement.QueryContext(ctx, slices.Repeat([]any{position}, f.places)...)
	if err == nil {
		err = f.rows(rows, &page)
		if errors.Is(err, ErrNoEnd) {
			f.s.Cut() // the rest of the rows is not worth reading
			_ = rows.Close()
			return page, err
		}
		err = errors.Join(err, rows.Close())
	}
	if err != nil && f.s.Overflowed() {
		err = fmt.Errorf("a row is larger than %d MiB: select fewer columns", messageMax>>20)
	}
	return page, err
}

// position returns the value that stands for a position. MySQL compares a whole number with a text as
// floating point, and so not exactly.
func (f *MySQLFollower) position(text string) (any, error) {
	if !f.whole {
		return text, nil
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("the stored position %.40q is not a whole number, as the column is: move the source to beginning or now", text)
	}
	return n, nil
}

func (f *MySQLFollower) rows(rows *sql.Rows, page *Page) error {
	raw, into := make([]sql.RawBytes, len(f.forms)), make([]any, len(f.forms))
	for i := range raw {
		into[i] = &raw[i]
	}
	read, size := 0, 0
	for rows.Next() {
		f.s.Took()
		if err := rows.Scan(into...); err != nil {
			return err
		}
		for _, v := range raw {
			size += len(v)
		}
		if read++; read > pageReadMax || size > pageBytesMax {
			return fmt.Errorf("%w, more than %d rows or %d MiB: end it with LIMIT %d", ErrNoEnd, pageReadMax, pageBytesMax>>20, PageRowsMax)
		}
		if raw[f.at] == nil {
			return ErrNull
		}
		page.Last = string(raw[f.at])
		if page.More {
			continue
		}
		if page.More = len(page.Rows) == PageRowsMax; page.More {
			page.Following = page.Last
			continue
		}
		row, err := f.object(raw)
		if err != nil {
			return err
		}
		page.Rows = append(page.Rows, Followed{page.Last, row})
	}
	return rows.Err()
}

// object makes JSON of a row.
func (f *MySQLFollower) object(values []sql.RawBytes) ([]byte, error) {
	out := []byte{'{'}
	for i, v := range values {
		if i > 0 {
			out = append(out, ',')
		}
		form := f.forms[i]
		if v == nil {
			form = FormNull
		}
		var err error
		if out, err = form.AppendJSON(append(out, f.names[i]...), v); err != nil {
			return nil, fmt.Errorf("column %.100s: %w", strings.TrimSuffix(string(f.names[i]), ":"), err)
		}
	}
	return append(out, '}'), nil
}

// Open returns what Page.Open of the last read has: that read is never settled.
func (f *MySQLFollower) Open(context.Context) ([]uint64, error) { return []uint64{f.reads}, nil }

// Close ends the session.
func (f *MySQLFollower) Close() {
	if f.statement != nil {
		_ = f.statement.Close()
	}
	_ = f.s.Close()
}
