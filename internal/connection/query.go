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
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgproto3"

	"skein.dev/skein/sdk/shared/mask"
)

// Uses of the rows that a statement returns.
const (
	ResultNone  = "" // rows are only counted
	ResultFirst = "first"
	ResultRows  = "rows"
)

// Statement is what a task executes in a database.
type Statement struct {
	Text string // the text of the statement, with @NAME for each parameter
	// Params is an object of the values by name; they are bound, never put into the text.
	Params json.RawMessage
	Result string
	// Isolation is the isolation level of the transaction; "": the default of the database.
	Isolation string
	// Once is the key of the effect: its transaction commits once, whatever is repeated. "": each time.
	Once string
	// Max bounds the returned JSON, in bytes.
	Max int
	// Keep, if not nil, is called with the result before the commit, also with the result of an earlier attempt.
	// If it returns an error, the transaction is rolled back.
	Keep func(*Done) error
	// Wanted, unless it is nil, is called directly before the commit. Its error ends the transaction, too.
	Wanted func() error
}

// Done is the result of a statement.
type Done struct {
	Affected int64           // rows
	Rows     json.RawMessage // the first row, an object or null; or all of them, a list; nil: not asked for
	Earlier  bool            // an earlier attempt has executed the statement, and this is its result
}

// Levels are the levels of isolation of PostgreSQL.
var Levels = []string{"read committed", "repeatable read", "serializable"}

const (
	// messageMax bounds a message of the server, such as a row, in bytes.
	messageMax = 8 << 20
	// stopMax is how long a cancelled statement may take to end in the server before the session is cut.
	stopMax = 2 * time.Second
	// triesMax bounds the tries of a transaction that the server ended because of others.
	triesMax = 5
	// noticesMax bounds the notices of the server that the log shows.
	noticesMax = 1000
)

// Bounds that the tests lower.
var (
	// openMax bounds the opening of a session.
	openMax = 30 * time.Second
	// idleMax is how long a transaction may wait for its client before the server ends it. It is shorter than the
	// usual lease of a worker: a machine that vanished or was frozen leaves no locks and commits nothing late.
	idleMax = 10 * time.Second
)

// ErrUnknown says that the session broke during the commit.
var ErrUnknown = errors.New("it is unknown whether the transaction was committed")

// sessionSettings are set one by one, as far as the server knows them. The server ends a statement whose
// client is gone, and a session whose network is gone.
var sessionSettings = []string{"client_connection_check_interval = '1s'", "tcp_keepalives_idle = 10", "tcp_keepalives_interval = 5",
	"tcp_keepalives_count = 3", "tcp_user_timeout = '25s'"}

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
var ErrSilent = errors.New("has opened no session")

func silent(host string) error {
	return fmt.Errorf("the server at %s %w within %v", host, ErrSilent, openMax)
}

// Dial connects to an address, as egress allows it.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Open opens a session. The end of ctx during a call on it makes the server end the statement. notice, unless
// it is nil, is called with each notice of the server.
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
		hidden := mask.NewSet([]string{password})
		cfg.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { notice(n.Severity + ": " + shown(hidden, n.Message)) }
	}
	within, cancel := context.WithTimeout(ctx, openMax)
	defer cancel()
	conn, err := pgx.ConnectConfig(within, cfg)
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		return nil, silent(p.Host)
	}
	return conn, err
}

// Run executes a statement in a transaction of its own, and says to log how it goes.
func (p *Postgres) Run(ctx context.Context, password string, dial Dial, s *Statement, log io.Writer) (Done, error) {
	if endsTransaction(s.Text) {
		return Done{}, errEnds
	}
	told := 0
	conn, err := p.Open(ctx, password, dial, func(text string) {
		if told++; told <= noticesMax {
			fmt.Fprintln(log, text)
		}
	})
	if err != nil {
		return Done{}, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopMax)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	for _, set := range sessionSettings {
		if _, err := conn.Exec(ctx, "SET "+set); err != nil && (ctx.Err() != nil || conn.IsClosed()) {
			return Done{}, err
		}
	}
	args, err := s.args()
	if err != nil {
		return Done{}, err
	}
	for try := 1; ; try++ {
		began := time.Now()
		done, err := s.once(ctx, conn, args)
		var of *pgconn.PgError
		if errors.As(err, &of) && (of.Code == "40001" || of.Code == "40P01") && try < triesMax && ctx.Err() == nil {
			fmt.Fprintf(log, "the server ended the transaction because of another one (%s); try %d begins\n", of.Code, try+1)
			continue
		}
		if err == nil {
			what := "committed"
			if done.Earlier {
				what = "an earlier attempt has committed"
			}
			fmt.Fprintf(log, "%s, %d rows, %v\n", what, done.Affected, time.Since(began).Round(time.Millisecond))
		}
		return done, err
	}
}

// args are the parameters as the driver takes them.
func (s *Statement) args() (pgx.StrictNamedArgs, error) {
	args := pgx.StrictNamedArgs{}
	if len(s.Params) == 0 {
		return args, nil
	}
	d := json.NewDecoder(bytes.NewReader(s.Params))
	d.UseNumber()
	var values map[string]any
	if err := d.Decode(&values); err != nil {
		return nil, errors.New("params is not an object")
	}
	for name, v := range values {
		switch v := v.(type) {
		case json.Number:
			if n, err := v.Int64(); err == nil {
				args[name] = n
			} else {
				args[name] = v.String() // the decimal number exactly as written
			}
		case map[string]any, []any:
			raw, err := json.Marshal(v)
			if err != nil {
				return nil, err
			}
			args[name] = string(raw)
		default: // texts, booleans and null
			args[name] = v
		}
	}
	return args, nil
}

// onceTable is the table that makes a transaction commit once.
const onceTable = "CREATE TABLE skein_done (key text PRIMARY KEY, at timestamptz NOT NULL DEFAULT now(), result json)"

// errEnds refuses a statement such as COMMIT.
var errEnds = errors.New("the statement ends the transaction that the task has begun for it: remove COMMIT or ROLLBACK")

// endsTransaction reports whether a statement begins with a word that may end a transaction.
func endsTransaction(text string) bool {
	word, _, _ := strings.Cut(strings.TrimLeft(uncommented(text), ";"), ";")
	if word = strings.TrimSpace(word); word != "" {
		word = strings.Fields(word)[0]
	}
	return slices.Contains([]string{"COMMIT", "END", "ROLLBACK", "ABORT", "PREPARE"}, strings.ToUpper(word))
}

// uncommented is a statement without the space and the comments at its beginning.
func uncommented(text string) string {
	for {
		text = strings.TrimLeft(text, " \t\r\n\f\v")
		switch {
		case strings.HasPrefix(text, "--"):
			_, text, _ = strings.Cut(text, "\n")
		case strings.HasPrefix(text, "/*"):
			deep, at := 1, 2
			for ; deep > 0 && at < len(text); at++ {
				if rest := text[at:]; strings.HasPrefix(rest, "/*") {
					deep, at = deep+1, at+1
				} else if strings.HasPrefix(rest, "*/") {
					deep, at = deep-1, at+1
				}
			}
			text = text[min(at, len(text)):]
		default:
			return text
		}
	}
}

// once makes one try: a transaction with the statement and, if it has a key, the row of the key.
func (s *Statement) once(ctx context.Context, conn *pgx.Conn, args pgx.StrictNamedArgs) (done Done, err error) {
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.TxIsoLevel(s.Isolation)})
	if err != nil {
		return done, err
	}
	defer func() {
		if err != nil {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopMax)
			defer cancel()
			_ = tx.Rollback(ctx)
		}
	}()
	// A setting of the transaction, because a pooler may give the session to others.
	if _, err := tx.Exec(ctx, fmt.Sprintf("SET LOCAL idle_in_transaction_session_timeout = %d", idleMax.Milliseconds())); err != nil {
		return done, err
	}
	if s.Once != "" {
		tag, err := tx.Exec(ctx, "INSERT INTO skein_done (key) VALUES ($1) ON CONFLICT DO NOTHING", s.Once)
		var of *pgconn.PgError
		if errors.As(err, &of) && of.Code == "42P01" {
			return done, fmt.Errorf("the database has no table skein_done, which `once: true` needs: make it with: %s", onceTable)
		}
		if err != nil {
			return done, fmt.Errorf("the row in skein_done for `once: true`: %w", err)
		}
		if tag.RowsAffected() == 0 {
			if done, err = s.earlier(ctx, tx); err == nil && s.Keep != nil {
				err = s.Keep(&done)
			}
			return done, err
		}
	}
	if done, err = s.execute(ctx, tx, args); err != nil {
		return done, err
	}
	if conn.PgConn().TxStatus() != 'T' {
		return done, errEnds
	}
	if s.Keep != nil {
		if err := s.Keep(&done); err != nil {
			return done, err
		}
	}
	if s.Once != "" {
		raw, err := json.Marshal(kept{done.Affected, done.Rows})
		if err != nil {
			return done, err
		}
		if _, err := tx.Exec(ctx, "UPDATE skein_done SET result = $2::text::json WHERE key = $1", s.Once, string(raw)); err != nil {
			return done, fmt.Errorf("the row in skein_done for `once: true`: %w", err)
		}
	}
	if ctx.Err() != nil {
		return done, fmt.Errorf("the attempt ended before the commit: %w", ctx.Err())
	}
	if conn.IsClosed() {
		return done, errors.New("the session ended before the commit")
	}
	if s.Wanted != nil {
		if err := s.Wanted(); err != nil {
			return done, err
		}
	}
	return done, commit(ctx, tx)
}

// commit commits the transaction. After ErrUnknown, the transaction may have been committed; after any other
// error it was not.
func commit(ctx context.Context, tx pgx.Tx) error {
	err := tx.Commit(ctx)
	var of *pgconn.PgError
	switch {
	case err == nil:
		return nil
	// If the session is lost after the driver has sent the COMMIT, the driver returns ErrConnClosed.
	// SafeToRetry is true for this error too, although the transaction may have been committed.
	case errors.Is(err, pgx.ErrTxCommitRollback), pgconn.SafeToRetry(err) && !errors.Is(err, pgconn.ErrConnClosed):
		return fmt.Errorf("the transaction was not committed: %w", err)
	case errors.As(err, &of) && of.Code == "25P03": // the server ended the session before it read the COMMIT
		return err
	case errors.As(err, &of) && of.Code != "40003" && of.SeverityUnlocalized == "ERROR":
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnknown, err) // such as the end of the server while it waits for a standby
}

// kept is the result in the row of a key.
type kept struct {
	Affected int64           `json:"affected"`
	Rows     json.RawMessage `json:"rows,omitempty"`
}

// earlier returns the result of the attempt that has committed.
func (s *Statement) earlier(ctx context.Context, tx pgx.Tx) (Done, error) {
	var raw *string
	if err := tx.QueryRow(ctx, "SELECT result::text FROM skein_done WHERE key = $1", s.Once).Scan(&raw); err != nil {
		return Done{}, fmt.Errorf("the row in skein_done for `once: true`: %w", err)
	}
	var is kept
	if raw == nil || json.Unmarshal([]byte(*raw), &is) != nil {
		return Done{}, errors.New("the row of once in skein_done does not hold the result of a task")
	}
	return Done{Affected: is.Affected, Rows: is.Rows, Earlier: true}, tx.Rollback(ctx)
}

// execute runs the statement. Values are read as texts, as the server writes them.
func (s *Statement) execute(ctx context.Context, tx pgx.Tx, args pgx.StrictNamedArgs) (done Done, err error) {
	rows, err := tx.Query(ctx, s.Text, pgx.QueryExecModeCacheDescribe, pgx.QueryResultFormats{pgx.TextFormatCode}, args)
	if err != nil {
		return done, err
	}
	defer rows.Close()
	list := []byte{'['}
	n := 0
	for rows.Next() {
		if n++; s.Result == ResultNone || s.Result == ResultFirst && n > 1 {
			continue
		}
		one, err := object(rows.FieldDescriptions(), rows.RawValues())
		if err != nil {
			return done, err
		}
		if n > 1 {
			list = append(list, ',')
		}
		if list = append(list, one...); len(list) > s.Max {
			return done, fmt.Errorf("the result is larger than %d bytes: select less, or write it into a table", s.Max)
		}
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		return done, err
	}
	done.Affected = rows.CommandTag().RowsAffected()
	switch {
	case s.Result == ResultRows:
		done.Rows = append(list, ']')
	case s.Result == ResultFirst && n == 0:
		done.Rows = json.RawMessage("null")
	case s.Result == ResultFirst:
		done.Rows = list[1:]
	}
	return done, nil
}

// The types whose values become numbers, booleans and JSON. All others become texts.
const (
	oidBool, oidInt8, oidInt2, oidInt4        = 16, 20, 21, 23
	oidFloat4, oidFloat8, oidNumeric          = 700, 701, 1700
	oidJSON, oidJSONB                  uint32 = 114, 3802
)

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

// valueOf makes JSON of a value. nil is NULL.
func valueOf(oid uint32, value []byte) ([]byte, error) {
	if value == nil {
		return []byte("null"), nil
	}
	switch oid {
	case oidBool:
		return strconv.AppendBool(nil, string(value) == "t"), nil
	case oidInt2, oidInt4, oidInt8, oidFloat4, oidFloat8, oidNumeric:
		if json.Valid(value) { // NaN and Infinity are not valid JSON
			return bytes.Clone(value), nil
		}
	case oidJSON, oidJSONB:
		if !json.Valid(value) {
			return nil, errors.New("its JSON is not valid")
		}
		return bytes.Clone(value), nil
	}
	if !utf8.Valid(value) {
		return nil, errors.New("its text is not UTF-8")
	}
	return json.Marshal(string(value))
}
