package connection

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// Follower reads the rows of a table that were added after a position. Its session reads only.
type Follower struct {
	conn      *pgx.Conn
	statement string // $1 stands for the position
	column    string
	first     string // the position before all others
}

// Followed is a row, and its position as the server writes it.
type Followed struct {
	Position string
	Row      []byte // JSON
}

// Page is what one read has found.
type Page struct {
	Rows []Followed
	// More says that the query returned more rows than Rows has. Following is the position of the next one.
	More      bool
	Following string
	// Last is the position of the last row that the query returned.
	Last string
	// Open are the transactions that had begun to write and had not ended when the rows were read. They may still
	// write rows before the ones of the page. Next is the first transaction that had not begun.
	Open []uint64
	Next uint64
}

// Bounds of a page.
const (
	PageRowsMax = 500
	// pageReadMax and pageBytesMax bound what the query may return: all of it must be read.
	pageReadMax  = 10_000
	pageBytesMax = 8 << 20
)

// Errors of a Follower. The texts around them name the remedy.
var (
	ErrColumn = errors.New("the query does not return the column of the position")
	ErrNoEnd  = errors.New("the query returns too much at once")
	ErrNull   = errors.New("the position of a row is NULL")
)

// firsts are positions before all others, by the type of the column.
var firsts = map[uint32]string{
	pgtype.Int2OID: "-32768", pgtype.Int4OID: "-2147483648", pgtype.Int8OID: "-9223372036854775808",
	pgtype.NumericOID: "-Infinity", pgtype.Float4OID: "-Infinity", pgtype.Float8OID: "-Infinity",
	pgtype.DateOID: "-infinity", pgtype.TimestampOID: "-infinity", pgtype.TimestamptzOID: "-infinity",
	pgtype.TextOID: "", pgtype.VarcharOID: "", pgtype.UUIDOID: "00000000-0000-0000-0000-000000000000",
}

// Follow opens a session that reads the rows of a query. The query has $1 for the position; column is the
// position of a row.
func (p *Postgres) Follow(ctx context.Context, password string, dial Dial, query, column string) (*Follower, error) {
	conn, err := p.Open(ctx, password, dial, nil)
	if err != nil {
		return nil, err
	}
	f := &Follower{conn: conn, statement: query, column: column}
	if err := f.prepare(ctx); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (f *Follower) prepare(ctx context.Context) error {
	if err := SetSession(ctx, f.conn, "default_transaction_read_only = on"); err != nil {
		return err
	}
	is, err := f.conn.Prepare(ctx, "", f.statement)
	if err != nil {
		return fmt.Errorf("the query is refused: %w", err)
	}
	columns := make([]string, 0, len(is.Fields))
	has := false
	for _, field := range is.Fields {
		has = has || field.Name == f.column
		columns = append(columns, field.Name)
	}
	if !has {
		return fmt.Errorf("%w, %.100q; it returns %.300s", ErrColumn, f.column, strings.Join(columns, ", "))
	}
	if len(is.ParamOIDs) != 1 {
		return errors.New("the query may have no other parameter than :cursor")
	}
	first, ok := firsts[is.ParamOIDs[0]]
	if !ok {
		return fmt.Errorf(":cursor has the PostgreSQL type %d, whose values Skein cannot put in order: cast it to a number, a text or an instant, as in :cursor::bigint", is.ParamOIDs[0])
	}
	f.first = first
	return nil
}

// First returns the position before all rows.
func (f *Follower) First() string { return f.first }

// Read reads the rows after a position, and the transactions that may still write rows before them.
func (f *Follower) Read(ctx context.Context, after string) (page Page, err error) {
	tx, err := f.conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return page, err
	}
	defer func() {
		if e := tx.Rollback(ctx); err == nil {
			err = e
		}
	}()
	var snapshot string
	if err := tx.QueryRow(ctx, "SELECT txid_current_snapshot()::text").Scan(&snapshot); err != nil {
		return page, err
	}
	if page.Open, page.Next, err = readSnapshot(snapshot); err != nil {
		return page, err
	}
	return page, f.rows(ctx, tx, after, &page)
}

// readSnapshot reads XMIN:XMAX:OPEN,OPEN.
func readSnapshot(text string) (open []uint64, next uint64, err error) {
	parts := strings.SplitN(text, ":", 3)
	if len(parts) != 3 {
		return nil, 0, fmt.Errorf("the snapshot %.40q cannot be read", text)
	}
	if next, err = strconv.ParseUint(parts[1], 10, 64); err != nil {
		return nil, 0, fmt.Errorf("the snapshot %.40q cannot be read", text)
	}
	for part := range strings.SplitSeq(parts[2], ",") {
		if x, err := strconv.ParseUint(part, 10, 64); err == nil {
			open = append(open, x)
		}
	}
	return open, next, nil
}

func (f *Follower) rows(ctx context.Context, tx pgx.Tx, after string, page *Page) error {
	rows, err := tx.Query(ctx, f.statement, pgx.QueryExecModeCacheDescribe, pgx.QueryResultFormats{pgx.TextFormatCode}, after)
	if err != nil {
		return err
	}
	defer rows.Close()
	at, read, size := -1, 0, 0
	for rows.Next() {
		fields, values := rows.FieldDescriptions(), rows.RawValues()
		for i := 0; at < 0; i++ { // prepare has checked that the column exists
			if fields[i].Name == f.column {
				at = i
			}
		}
		for _, v := range values {
			size += len(v)
		}
		if read++; read > pageReadMax || size > pageBytesMax {
			_ = f.conn.PgConn().Conn().Close() // the rest of the rows is not worth reading
			return fmt.Errorf("%w, more than %d rows or %d MiB: end it with LIMIT %d", ErrNoEnd, pageReadMax, pageBytesMax>>20, PageRowsMax)
		}
		if values[at] == nil {
			return fmt.Errorf("%w, column %.100q", ErrNull, f.column)
		}
		page.Last = string(values[at])
		if page.More {
			continue
		}
		if page.More = len(page.Rows) == PageRowsMax; page.More {
			page.Following = page.Last
			continue
		}
		row, err := object(fields, values)
		if err != nil {
			return err
		}
		page.Rows = append(page.Rows, Followed{page.Last, row})
	}
	rows.Close()
	return rows.Err()
}

// Open returns the transactions that have begun to write and have not ended.
func (f *Follower) Open(ctx context.Context) ([]uint64, error) {
	var snapshot string
	if err := f.conn.QueryRow(ctx, "SELECT txid_current_snapshot()::text").Scan(&snapshot); err != nil {
		return nil, err
	}
	open, _, err := readSnapshot(snapshot)
	return open, err
}

// Close ends the session.
func (f *Follower) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), stopMax)
	defer cancel()
	_ = f.conn.Close(ctx)
}

// Listen calls wake for each notice on a channel, until ctx ends or the session breaks.
func (p *Postgres) Listen(ctx context.Context, password string, dial Dial, channel string, wake func()) error {
	conn, err := p.Open(ctx, password, dial, nil)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopMax)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
		return err
	}
	for {
		wake() // rows may have come before the session listened
		if _, err := conn.WaitForNotification(ctx); err != nil {
			return err
		}
	}
}
