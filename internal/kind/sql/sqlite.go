package sql

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"zombiezen.com/go/sqlite"

	"skein.dev/skein/internal/sqltext"
)

// file is an open SQLite file. The end of the attempt interrupts its statement. The end of the process
// releases its locks.
type file struct {
	t    *task
	conn *sqlite.Conn
	// open is true within a transaction.
	open bool
}

func (t *task) openSQLite(ctx context.Context) (database, error) {
	var is Settings
	if raw := t.env.Input.Settings; len(raw) > 0 && json.Unmarshal(raw, &is) != nil {
		return nil, never("the settings of the machine cannot be read")
	}
	conn, err := t.to.SQLite.Open(ctx, is.Protected)
	if err != nil {
		return nil, never("%w", err)
	}
	return &file{t: t, conn: conn}, nil
}

func (f *file) about() string { return "file " + f.t.to.SQLite.Path }

// do executes a statement with positional values, and returns the first value of the first row.
func (f *file) do(text string, values ...string) (first *string, err error) {
	stmt, _, err := f.conn.PrepareTransient(text)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stmt.Finalize()) }()
	for i, v := range values {
		stmt.BindText(i+1, v)
	}
	for {
		row, err := stmt.Step()
		if err != nil || !row {
			return first, err
		}
		if first == nil && stmt.ColumnType(0) != sqlite.TypeNull {
			is := stmt.ColumnText(0)
			first = &is
		}
	}
}

// reads lists the first words of statements that write nothing.
var reads = []string{"SELECT", "VALUES", "EXPLAIN"}

func (f *file) begin(context.Context) error {
	how := "BEGIN"
	for i := range f.t.all {
		if enders(&f.t.all[i]) {
			return errEnds
		}
		if !slices.Contains(reads, f.t.all[i].Word(0)) {
			// IMMEDIATE takes the lock now, while this transaction holds nothing that others wait for.
			how = "BEGIN IMMEDIATE"
		}
	}
	if level := f.t.with.Isolation; level != "" && level != "serializable" {
		return never("isolation: SQLite is always serializable: remove %s", level)
	}
	_, err := f.do(how)
	f.open = err == nil
	return err
}

func (f *file) claim(_ context.Context, key string) (*kept, error) {
	there, err := f.do("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'skein_done'")
	if err == nil && there == nil {
		err = never("the database has no such table: make it with: CREATE TABLE skein_done (key TEXT PRIMARY KEY, at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP, result TEXT)")
	}
	if err != nil {
		return nil, err
	}
	if _, err := f.do("INSERT INTO skein_done (key) VALUES (?) ON CONFLICT DO NOTHING", key); err != nil || f.conn.Changes() == 1 {
		return nil, err
	}
	raw, err := f.do("SELECT result FROM skein_done WHERE key = ?", key)
	if err != nil {
		return nil, err
	}
	return keptOf(raw)
}

func (f *file) keep(_ context.Context, key string, k *kept) error {
	raw, err := json.Marshal(k)
	if err != nil {
		return err
	}
	if _, err = f.do("UPDATE skein_done SET result = ? WHERE key = ?", string(raw), key); err == nil && f.conn.Changes() != 1 {
		err = errKeyGone
	}
	return err
}

func (f *file) run(_ context.Context, s *sqltext.Statement, to *sink) (n int64, err error) {
	stmt, rest, err := f.conn.PrepareTransient(strings.TrimSpace(s.Render(func(name string) string { return ":" + name })))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, stmt.Finalize()) }()
	if rest > 0 {
		return 0, never("a statement has a semicolon at a place that only SQLite understands: write each statement into a task of its own")
	}
	f.bind(stmt)
	names := make([]string, stmt.ColumnCount())
	for i := range names {
		names[i] = strings.Clone(stmt.ColumnName(i))
	}
	if slices.Contains(names, "") { // the driver drops a name that occurs twice
		return 0, never("two columns of the result have the same name, or one has none: name them with AS")
	}
	if len(names) > 0 {
		if err := to.columns(names); err != nil {
			return 0, err
		}
	}
	cells := make([]cell, len(names))
	for {
		row, err := stmt.Step()
		if err != nil {
			return 0, err
		}
		if !row {
			break
		}
		for i := range cells {
			cells[i] = columnOf(stmt, i)
		}
		if n++; len(names) > 0 {
			if err := to.row(cells); err != nil {
				return 0, err
			}
		}
	}
	if f.open && f.conn.AutocommitEnabled() {
		return 0, errEnds
	}
	if len(names) == 0 {
		n = int64(f.conn.Changes())
		if !slices.Contains([]string{"INSERT", "UPDATE", "DELETE", "REPLACE", "WITH"}, s.Word(0)) {
			n = 0 // Changes still has the value of an earlier statement
		}
	}
	return n, nil
}

func (f *file) bind(stmt *sqlite.Stmt) {
	for i := 1; i <= stmt.BindParamCount(); i++ {
		name := strings.TrimPrefix(stmt.BindParamName(i), ":")
		switch v := f.t.params[name].(type) {
		case bool:
			stmt.BindBool(i, v)
		case int64:
			stmt.BindInt64(i, v)
		case decimal:
			stmt.BindFloat(i, v.float())
		case string:
			stmt.BindText(i, v)
		default:
			stmt.BindNull(i)
		}
	}
}

func columnOf(stmt *sqlite.Stmt, i int) cell {
	switch stmt.ColumnType(i) {
	case sqlite.TypeInteger:
		return cell{number, strconv.AppendInt(nil, stmt.ColumnInt64(i), 10)}
	case sqlite.TypeFloat:
		return cell{number, strconv.AppendFloat(nil, stmt.ColumnFloat(i), 'g', -1, 64)}
	case sqlite.TypeText:
		return cell{text, []byte(stmt.ColumnText(i))}
	case sqlite.TypeBlob:
		raw := make([]byte, stmt.ColumnLen(i))
		stmt.ColumnBytes(i, raw)
		return cell{bytesOf, raw}
	}
	return cell{}
}

func (f *file) commit(context.Context) error {
	_, err := f.do("COMMIT")
	if err == nil {
		f.open = false
		return nil
	}
	if f.conn.AutocommitEnabled() { // the statement ended the transaction, but reports an error
		return fmt.Errorf("%w: %w", errUnknown, err)
	}
	return fmt.Errorf("the transaction was not committed: %w", err)
}

func (f *file) rollback() {
	f.conn.SetInterrupt(nil)
	if !f.conn.AutocommitEnabled() {
		_, _ = f.do("ROLLBACK")
	}
	f.open = false
}

func (f *file) close() {
	f.conn.SetInterrupt(nil)
	_ = f.conn.Close()
}

func (*file) judge(err error) verdict {
	switch code := sqlite.ErrCode(err); code.ToPrimary() {
	case sqlite.ResultBusy, sqlite.ResultLocked:
		return conflict
	case sqlite.ResultNotADB, sqlite.ResultCorrupt, sqlite.ResultReadOnly, sqlite.ResultAuth:
		return permanent
	case sqlite.ResultError:
		if strings.Contains(err.Error(), "syntax error") {
			return permanent
		}
	}
	return failed
}
