package sql

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"skein.dev/skein/internal/connection"
	"skein.dev/skein/internal/egress"
	"skein.dev/skein/internal/sqltext"
)

// postgres is a session of PostgreSQL.
type postgres struct {
	t    *task
	conn *pgx.Conn
	tx   pgx.Tx
}

func (t *task) openPostgres(ctx context.Context) (database, error) {
	dial, err := egress.Dialer(t.egress)
	if err != nil {
		return nil, never("%w", err)
	}
	p := &postgres{t: t}
	if p.conn, err = t.to.Postgres.Open(ctx, t.password, dial, t.notice); err != nil {
		return nil, unreachable(err, p.judge(err))
	}
	if err := connection.SetSession(ctx, p.conn, "application_name = '"+t.sessionName()+"'"); err != nil {
		p.close()
		return nil, unreachable(err, p.judge(err))
	}
	return p, nil
}

func (p *postgres) about() string {
	return fmt.Sprintf("session of %s at %s", p.t.to.Postgres.User, p.t.to.Postgres.Host)
}

// enders reports whether a statement begins or ends a transaction.
func enders(s *sqltext.Statement) bool {
	switch s.Word(0) {
	case "COMMIT", "END", "ABORT", "BEGIN", "START", "PREPARE", "XA":
		return s.Word(1) != "NOT" // BEGIN NOT ATOMIC begins a block of MariaDB
	case "ROLLBACK":
		return s.Word(1) != "TO" && s.Word(2) != "TO"
	}
	return false
}

func (p *postgres) begin(ctx context.Context) (err error) {
	for i := range p.t.all {
		if enders(&p.t.all[i]) {
			return errEnds
		}
	}
	levels := []string{"", "read committed", "repeatable read", "serializable"}
	if !slices.Contains(levels, p.t.with.Isolation) {
		return never("isolation: PostgreSQL has %s", strings.Join(levels[1:], ", "))
	}
	if p.tx, err = p.conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.TxIsoLevel(p.t.with.Isolation)}); err != nil {
		return err
	}
	// Set the timeout only for this transaction, because a pooler may give the session to other clients.
	_, err = p.tx.Exec(ctx, fmt.Sprintf("SET LOCAL idle_in_transaction_session_timeout = %d", idleMax.Milliseconds()))
	return err
}

func (p *postgres) claim(ctx context.Context, key string) (*kept, error) {
	tag, err := p.tx.Exec(ctx, "INSERT INTO skein_done (key) VALUES ($1) ON CONFLICT DO NOTHING", key)
	if of := new(pgconn.PgError); errors.As(err, &of) && of.Code == "42P01" {
		return nil, never("the database has no such table: make it with: CREATE TABLE skein_done (key text PRIMARY KEY, at timestamptz NOT NULL DEFAULT now(), result json)")
	}
	if err != nil || tag.RowsAffected() == 1 {
		return nil, err
	}
	var raw *string
	if err := p.tx.QueryRow(ctx, "SELECT result::text FROM skein_done WHERE key = $1", key).Scan(&raw); err != nil {
		return nil, err
	}
	return keptOf(raw)
}

// keptOf decodes the result of an earlier attempt.
func keptOf(raw *string) (*kept, error) {
	var is kept
	if raw == nil || json.Unmarshal([]byte(*raw), &is) != nil {
		return nil, never("it holds no result, so a transaction of the task was committed in part: repair its effect, and delete the row")
	}
	return &is, nil
}

func (p *postgres) keep(ctx context.Context, key string, k *kept) error {
	raw, err := json.Marshal(k)
	if err != nil {
		return err
	}
	tag, err := p.tx.Exec(ctx, "UPDATE skein_done SET result = $2::text::json WHERE key = $1", key, string(raw))
	if err == nil && tag.RowsAffected() != 1 {
		err = errKeyGone
	}
	return err
}

func (p *postgres) run(ctx context.Context, s *sqltext.Statement, to *sink) (int64, error) {
	var args []any
	at := map[string]int{}
	text := s.Render(func(name string) string {
		if at[name] == 0 {
			value := p.t.params[name]
			if d, ok := value.(decimal); ok {
				value = string(d)
			}
			args = append(args, value)
			at[name] = len(args)
		}
		return fmt.Sprintf("$%d", at[name])
	})
	// Read values as texts in the format of the server.
	rows, err := p.conn.Query(ctx, text, append([]any{pgx.QueryExecModeDescribeExec, pgx.QueryResultFormats{pgx.TextFormatCode}}, args...)...)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	fields := rows.FieldDescriptions()
	cells := make([]cell, len(fields))
	for i := 0; rows.Next(); i++ {
		if i == 0 {
			if err := to.columns(namesOf(rows.FieldDescriptions())); err != nil {
				return 0, err
			}
			fields = rows.FieldDescriptions()
			cells = make([]cell, len(fields))
		}
		for n, value := range rows.RawValues() {
			cells[n] = cellOf(fields[n].DataTypeOID, value)
		}
		if err := to.row(cells); err != nil {
			return 0, err
		}
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		return 0, err
	}
	if to.n == 0 && len(rows.FieldDescriptions()) > 0 {
		if err := to.columns(namesOf(rows.FieldDescriptions())); err != nil {
			return 0, err
		}
	}
	if p.tx != nil && p.conn.PgConn().TxStatus() != 'T' {
		return 0, errEnds
	}
	return rows.CommandTag().RowsAffected(), nil
}

func namesOf(fields []pgconn.FieldDescription) []string {
	names := make([]string, len(fields))
	for i := range fields {
		names[i] = fields[i].Name
	}
	return names
}

var yes, no = []byte("true"), []byte("false")

// cellOf returns a number, a boolean or JSON for values of these types, and a text for any other.
func cellOf(oid uint32, value []byte) cell {
	if value == nil {
		return cell{}
	}
	switch oid {
	case pgtype.BoolOID:
		if string(value) == "t" {
			return cell{boolean, yes}
		}
		return cell{boolean, no}
	case pgtype.Int2OID, pgtype.Int4OID, pgtype.Int8OID, pgtype.Float4OID, pgtype.Float8OID, pgtype.NumericOID:
		return cell{number, value}
	case pgtype.JSONOID, pgtype.JSONBOID:
		return cell{document, value}
	}
	return cell{text, value}
}

func (p *postgres) commit(ctx context.Context) error {
	if p.conn.IsClosed() {
		return errors.New("the session ended before the commit")
	}
	err := p.tx.Commit(ctx)
	of := new(pgconn.PgError)
	switch {
	case err == nil:
		return nil
	// If the session is lost after the driver has sent the COMMIT, the driver returns ErrConnClosed.
	// SafeToRetry is true for this error, although the transaction may have been committed. So it must not
	// count as safe.
	case errors.Is(err, pgx.ErrTxCommitRollback), pgconn.SafeToRetry(err) && !errors.Is(err, pgconn.ErrConnClosed):
		return fmt.Errorf("the transaction was not committed: %w", err)
	case errors.As(err, &of) && of.Code == "25P03": // the server ended the session before it read the COMMIT
		return err
	case errors.As(err, &of) && of.Code != "40003" && of.SeverityUnlocalized == "ERROR":
		return err
	}
	return fmt.Errorf("%w: %w", errUnknown, err) // for example, the server ended while it waited for a standby
}

func (p *postgres) rollback() {
	if p.tx != nil {
		ctx, cancel := context.WithTimeout(context.Background(), stopMax)
		defer cancel()
		_ = p.tx.Rollback(ctx)
	}
}

func (p *postgres) close() {
	ctx, cancel := context.WithTimeout(context.Background(), stopMax)
	defer cancel()
	_ = p.conn.Close(ctx)
}

func (p *postgres) judge(err error) verdict {
	of := new(pgconn.PgError)
	if !errors.As(err, &of) {
		return tlsVerdict(err)
	}
	switch of.Code {
	case "40001", "40P01":
		return conflict
	case "57P03", "53300", "53400": // the server starts or shuts down, or has no free session
		return away
	case "28P01", "28000", "3D000": // wrong password, user or database
		return permanent
	case "42601": // syntax
		return permanent
	}
	return failed
}
