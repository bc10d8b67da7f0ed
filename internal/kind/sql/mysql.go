package sql

import (
	"context"
	stdsql "database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"skein.dev/skein/internal/connection"
	"skein.dev/skein/internal/egress"
	"skein.dev/skein/internal/sqltext"
)

// mariaDB is a session of MySQL or MariaDB. If a context ends, the driver only closes the session, and the
// server continues the statement. So statements run under another context, which ends later. When the attempt
// ends, kill first ends the statement from a second session.
type mariaDB struct {
	t       *task
	s       *connection.MySQLSession
	dial    connection.Dial
	inner   context.Context
	cut     context.CancelFunc // closes the session
	unwatch func() bool
	over    chan struct{} // closed when the session is no longer used
}

func (t *task) openMySQL(ctx context.Context) (database, error) {
	dial, err := egress.Dialer(t.egress)
	if err != nil {
		return nil, never("%w", err)
	}
	m := &mariaDB{t: t, dial: dial, over: make(chan struct{})}
	if m.s, err = t.to.MySQL.Open(ctx, t.password, dial); err != nil {
		return nil, unreachable(err, m.judge(err))
	}
	m.inner, m.cut = context.WithCancel(context.WithoutCancel(ctx))
	m.unwatch = context.AfterFunc(ctx, m.kill)
	// If the client vanishes or is frozen, the server rolls back and ends the session after this time.
	if _, err := m.s.ExecContext(m.inner, fmt.Sprintf("SET SESSION wait_timeout = %d", int(idleMax.Seconds()))); err != nil {
		m.close()
		return nil, unreachable(err, m.judge(err))
	}
	var of *mysql.MySQLError
	_, err = m.s.ExecContext(m.inner, "DO GET_LOCK(?, 0)", t.sessionName()) // see Release
	if t.unnamed = errors.As(err, &of); err != nil && !t.unnamed {
		m.close()
		return nil, unreachable(err, m.judge(err))
	}
	return m, nil
}

// isNumber reports whether an error of the server has a number.
func isNumber(err error, number uint16) bool {
	var of *mysql.MySQLError
	return errors.As(err, &of) && of.Number == number
}

// kill ends the current statement on the server, and then the session.
func (m *mariaDB) kill() {
	ctx, cancel := context.WithTimeout(context.Background(), stopMax)
	defer cancel()
	defer m.cut()
	other, err := m.t.to.MySQL.Open(ctx, m.t.password, m.dial)
	if err != nil {
		m.t.say("the statement cannot be ended in the server, so the session is cut: %v", err)
		return
	}
	defer func() { _ = other.Close() }()
	for { // repeated, because another statement may begin in between
		_, _ = other.ExecContext(ctx, fmt.Sprintf("KILL QUERY %d", m.s.ID))
		select {
		case <-m.over:
			return
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			ctx, cancel := context.WithTimeout(context.Background(), stopMax)
			defer cancel()
			_, _ = other.ExecContext(ctx, fmt.Sprintf("KILL CONNECTION %d", m.s.ID))
			return
		}
	}
}

func (m *mariaDB) about() string {
	return fmt.Sprintf("session of %s at %s", m.t.to.MySQL.User, m.t.to.MySQL.Host)
}

// commitMax bounds the wait for the answer to a COMMIT.
const commitMax = time.Minute

// commits lists the first words of statements at which MySQL commits the transaction implicitly.
var commits = []string{"ALTER", "ANALYZE", "CACHE", "CHANGE", "CHECK", "CREATE", "DROP", "FLUSH", "GRANT", "INSTALL", "LOCK", "OPTIMIZE",
	"RENAME", "REPAIR", "RESET", "REVOKE", "STOP", "TRUNCATE", "UNINSTALL", "UNLOCK"}

func (m *mariaDB) begin(context.Context) error {
	for i := range m.t.all {
		s := &m.t.all[i]
		if enders(s) {
			return errEnds
		}
		if slices.Contains(commits, s.Word(0)) && s.Word(1) != "TEMPORARY" && s.Word(3) != "TEMPORARY" {
			return never("MySQL commits before and after %s, so statement %d cannot be part of a transaction: write transaction: false", s.Word(0), i+1)
		}
	}
	levels := []string{"", "read uncommitted", "read committed", "repeatable read", "serializable"}
	if !slices.Contains(levels, m.t.with.Isolation) {
		return never("isolation: MySQL has %s", strings.Join(levels[1:], ", "))
	}
	all := []string{"START TRANSACTION", "SAVEPOINT skein_begin"}
	if m.t.with.Isolation != "" {
		all = append([]string{"SET TRANSACTION ISOLATION LEVEL " + strings.ToUpper(m.t.with.Isolation)}, all...)
	}
	for _, s := range all {
		if _, err := m.s.ExecContext(m.inner, s); err != nil {
			return err
		}
	}
	return nil
}

const mysqlTable = "CREATE TABLE skein_done (`key` varchar(500) CHARACTER SET ascii COLLATE ascii_bin PRIMARY KEY, " +
	"at timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP, result longtext) ENGINE=InnoDB"

func (m *mariaDB) claim(_ context.Context, key string) (*kept, error) {
	var engine *string
	err := m.s.QueryRowContext(m.inner, "SELECT engine FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'skein_done'").Scan(&engine)
	switch {
	case errors.Is(err, stdsql.ErrNoRows):
		return nil, never("the database has no such table: make it with: %s", mysqlTable)
	case err == nil && (engine == nil || !strings.EqualFold(*engine, "InnoDB")):
		return nil, never("the table is not of the engine InnoDB, so it has no transactions: ALTER TABLE skein_done ENGINE=InnoDB")
	case err != nil:
		return nil, err
	}
	_, err = m.s.ExecContext(m.inner, "INSERT INTO skein_done (`key`) VALUES (?)", key)
	var of *mysql.MySQLError
	if !errors.As(err, &of) || of.Number != 1062 { // 1062 is a duplicate key
		return nil, err
	}
	var raw *string // FOR UPDATE makes the statement below read the latest committed row
	if err := m.s.QueryRowContext(m.inner, "SELECT result FROM skein_done WHERE `key` = ? FOR UPDATE", key).Scan(&raw); err != nil {
		return nil, err
	}
	return keptOf(raw)
}

func (m *mariaDB) keep(_ context.Context, key string, k *kept) error {
	raw, err := json.Marshal(k)
	if err != nil {
		return err
	}
	if err := m.unbroken(); err != nil { // must come before the key gets a result
		return err
	}
	if _, err := m.s.ExecContext(m.inner, "SAVEPOINT skein_begin"); err != nil {
		return err
	}
	done, err := m.s.ExecContext(m.inner, "UPDATE skein_done SET result = ? WHERE `key` = ?", string(raw), key)
	if err != nil {
		return err
	}
	// The row had no result, so an update always changes it.
	if n, err := done.RowsAffected(); err != nil || n != 1 {
		return errors.Join(err, errKeyGone)
	}
	return nil
}

func (m *mariaDB) run(_ context.Context, s *sqltext.Statement, to *sink) (int64, error) {
	var args []any
	text := s.Render(func(name string) string {
		value := m.t.params[name]
		if d, ok := value.(decimal); ok {
			value = string(d)
		}
		args = append(args, value)
		return "?"
	})
	m.s.Took()
	rows, err := m.s.QueryContext(m.inner, text, args...)
	if err != nil {
		return 0, m.large(err)
	}
	defer rows.Close()
	n, returns, err := m.rows(rows, to)
	if err != nil {
		return 0, m.large(err)
	}
	if returns {
		return n, nil
	}
	err = m.s.QueryRowContext(m.inner, "SELECT ROW_COUNT()").Scan(&n)
	return max(n, 0), err
}

// large replaces an error by its cause if this side has cut the connection because a row was too large.
func (m *mariaDB) large(err error) error {
	if m.s.Overflowed() {
		return never("the server sent a row that is too large: select less")
	}
	return err
}

// rows passes the rows of the first result to the sink.
func (m *mariaDB) rows(rows *stdsql.Rows, to *sink) (n int64, returns bool, err error) {
	for more := true; more; more = rows.NextResultSet() {
		types, err := rows.ColumnTypes()
		if err != nil {
			return 0, false, err
		}
		if len(types) == 0 || returns {
			for rows.Next() {
				m.s.Took()
			}
			continue
		}
		returns = true
		names, kinds := make([]string, len(types)), make([]cellKind, len(types))
		for i, c := range types {
			names[i], kinds[i] = c.Name(), connection.FormOfMySQL(c.DatabaseTypeName())
		}
		if err := to.columns(names); err != nil {
			return 0, false, err
		}
		if n, err = m.each(rows, kinds, to); err != nil {
			return 0, false, err
		}
	}
	if err := rows.Err(); err != nil {
		return 0, false, err
	}
	return n, returns, rows.Close()
}

// each passes rows to the sink.
func (m *mariaDB) each(rows *stdsql.Rows, kinds []cellKind, to *sink) (n int64, err error) {
	raw, into, cells := make([]stdsql.RawBytes, len(kinds)), make([]any, len(kinds)), make([]cell, len(kinds))
	for i := range raw {
		into[i] = &raw[i]
	}
	for ; rows.Next(); n++ {
		m.s.Took()
		if err := rows.Scan(into...); err != nil {
			return 0, err
		}
		for i := range raw {
			if cells[i] = (cell{kinds[i], raw[i]}); raw[i] == nil {
				cells[i] = cell{}
			}
		}
		if err := to.row(cells); err != nil {
			return 0, err
		}
	}
	return n, rows.Err()
}

// unbroken returns an error if a statement has ended the transaction, for example inside a procedure. In that
// case the savepoint no longer exists.
func (m *mariaDB) unbroken() error {
	_, err := m.s.ExecContext(m.inner, "RELEASE SAVEPOINT skein_begin")
	var of *mysql.MySQLError
	if errors.As(err, &of) && of.Number == 1305 {
		return never("a statement has committed or ended the transaction by itself, so its effects cannot be taken back: write transaction: false, or remove it")
	}
	return err
}

func (m *mariaDB) commit(context.Context) error {
	if err := m.unbroken(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(m.inner, commitMax)
	defer cancel()
	_, err := m.s.ExecContext(ctx, "COMMIT")
	var of *mysql.MySQLError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &of):
		return fmt.Errorf("the transaction was not committed: %w", err)
	}
	return fmt.Errorf("%w: %w", errUnknown, err)
}

func (m *mariaDB) rollback() {
	ctx, cancel := context.WithTimeout(m.inner, stopMax)
	defer cancel()
	_, _ = m.s.ExecContext(ctx, "ROLLBACK")
}

func (m *mariaDB) close() {
	close(m.over)
	m.unwatch()
	_ = m.s.Close()
	m.cut()
}

func (m *mariaDB) judge(err error) verdict {
	var of *mysql.MySQLError
	if !errors.As(err, &of) {
		return tlsVerdict(err)
	}
	switch of.Number {
	case 1213:
		return conflict
	case 1040, 1203, 1053, 1226: // too many sessions, or the server shuts down
		return away
	case 1044, 1045, 1049, 1698, 1130: // wrong user, password, database or host
		return permanent
	case 1064: // syntax
		return permanent
	}
	return failed
}
