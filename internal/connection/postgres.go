package connection

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgtype"
)

const (
	// messageMax bounds a message of the server, such as a row, in bytes.
	messageMax = 8 << 20
	// stopMax is how long a cancelled statement may take to end in the server before the session is cut.
	stopMax = 2 * time.Second
)

// openMax bounds the opening of a session. Tests lower it.
var openMax = 30 * time.Second

// sessionSettings make the server end a statement whose client is gone, and a session whose network is gone.
var sessionSettings = []string{"client_connection_check_interval = '1s'", "tcp_keepalives_idle = 10", "tcp_keepalives_interval = 5",
	"tcp_keepalives_count = 3", "tcp_user_timeout = '25s'"}

// SetSession sets sessionSettings and further settings. It leaves out those that the server refuses, because
// earlier versions do not know all of them.
func SetSession(ctx context.Context, conn *pgx.Conn, further ...string) error {
	for _, set := range slices.Concat(further, sessionSettings) {
		if _, err := conn.Exec(ctx, "SET "+set); err != nil && (ctx.Err() != nil || conn.IsClosed()) {
			return err
		}
	}
	return nil
}

// framed reads messages of a server and refuses one that is larger than messageMax.
type framed struct {
	r    io.Reader
	head [5]byte // type and length of the next message
	have int     // bytes of head
	left int     // bytes of the present message
}

func (f *framed) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	for rest := p[:n]; len(rest) > 0; {
		if f.left > 0 {
			skip := min(f.left, len(rest))
			f.left, rest = f.left-skip, rest[skip:]
			continue
		}
		took := copy(f.head[f.have:], rest)
		if f.have, rest = f.have+took, rest[took:]; f.have < len(f.head) {
			break
		}
		size := int64(binary.BigEndian.Uint32(f.head[1:]))
		if size < 4 || size > messageMax {
			return 0, fmt.Errorf("the server sent a message of %d bytes; the limit is %d", size, messageMax)
		}
		if bytes.IndexByte([]byte("GHW"), f.head[0]) >= 0 { // the driver would wait for ever, or lose the rows
			return 0, errors.New("the statement is a COPY from or to the client, which a task cannot do: use INSERT or SELECT, or run psql")
		}
		f.have, f.left = 0, int(size)-4
	}
	return n, err
}

// ErrSilent is in the error of a session that a server has not opened in time.
var ErrSilent = errors.New("no session is open")

func silent(host string) error {
	return fmt.Errorf("the server at %s has sent nothing: %w within %v", host, ErrSilent, openMax)
}

// Dial connects to an address, as egress allows it.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Open opens a session. The end of ctx during a call on it makes the server end the statement. notice, unless
// it is nil, is called with each notice of the server, which may hold secrets and have any length.
func (p *Postgres) Open(ctx context.Context, password string, dial Dial, notice func(text string)) (*pgx.Conn, error) {
	cfg, err := p.settings(password, dial)
	if err != nil {
		return nil, err
	}
	cfg.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend { return pgproto3.NewFrontend(&framed{r: r}, w) }
	cfg.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: c, DeadlineDelay: stopMax}
	}
	if notice != nil {
		cfg.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { notice(n.Severity + ": " + n.Message) }
	}
	within, cancel := context.WithTimeout(ctx, openMax)
	defer cancel()
	conn, err := pgx.ConnectConfig(within, cfg)
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		return nil, silent(p.Host)
	}
	return conn, err
}

// object makes JSON of a row.
func object(fields []pgconn.FieldDescription, values [][]byte) ([]byte, error) {
	out := []byte{'{'}
	seen := map[string]bool{}
	for i := range fields {
		name := fields[i].Name
		if seen[name] {
			return nil, fmt.Errorf("two columns of the result have the name %.100q: rename one with AS", name)
		}
		seen[name] = true
		key, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			out = append(out, ',')
		}
		value, err := valueOf(fields[i].DataTypeOID, values[i])
		if err != nil {
			return nil, fmt.Errorf("column %.100q: %w", name, err)
		}
		out = append(append(append(out, key...), ':'), value...)
	}
	return append(out, '}'), nil
}

var numbers = []uint32{pgtype.Int2OID, pgtype.Int4OID, pgtype.Int8OID, pgtype.Float4OID, pgtype.Float8OID, pgtype.NumericOID}

// valueOf makes JSON of a value. Types that it does not name become texts. nil is NULL.
func valueOf(oid uint32, value []byte) ([]byte, error) {
	form := FormText
	switch {
	case value == nil:
		form = FormNull
	case oid == pgtype.BoolOID:
		return strconv.AppendBool(nil, string(value) == "t"), nil
	case slices.Contains(numbers, oid):
		form = FormNumber
	case oid == pgtype.JSONOID, oid == pgtype.JSONBOID:
		form = FormDocument
	}
	return form.AppendJSON(nil, value)
}
