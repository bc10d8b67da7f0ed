package source

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"skein.dev/skein/internal/connection"
	"skein.dev/skein/internal/store/postgres/pgtest"
	"skein.dev/skein/internal/workflow"
)

func database(t *testing.T) *connection.Postgres {
	t.Helper()
	host, port, err := net.SplitHostPort(server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	return &connection.Postgres{Host: host, Port: n, User: pgtest.Superuser, Database: "postgres", TLS: connection.TLSDisable}
}

func sql(t *testing.T, text string) {
	t.Helper()
	if err := server.SQL("postgres", text); err != nil {
		t.Fatal(err)
	}
}

func session(t *testing.T) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), server.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// table makes a table of orders, and returns how to follow it.
func table(t *testing.T, change func(*workflow.Query)) (name string, open func() Source) {
	t.Helper()
	name = "t_" + strings.ToLower(strings.ReplaceAll(t.Name(), "/", "_"))
	sql(t, "CREATE TABLE "+name+" (id bigserial PRIMARY KEY, n int, note text)")
	t.Cleanup(func() { sql(t, "DROP TABLE "+name) })
	q := &workflow.Query{Query: "SELECT id, n FROM " + name + " WHERE id > :cursor ORDER BY id LIMIT 500", Cursor: "id", Every: workflow.Duration(10 * time.Millisecond), Settle: workflow.Duration(time.Minute)}
	if change != nil {
		change(q)
	}
	p := database(t)
	return name, func() Source {
		is := &Query{Config: q}
		is.Open = func(ctx context.Context) (Table, error) {
			f, err := p.Follow(ctx, "", plainDial(), q.Statement("$1"), q.Cursor)
			if err != nil {
				return nil, err
			}
			return f, nil
		}
		is.Listen = func(ctx context.Context, wake func()) error { return p.Listen(ctx, "", plainDial(), q.Listen, wake) }
		return is
	}
}

func numbers(from, until int) (all []string) {
	for n := from; n < until; n++ {
		all = append(all, fmt.Sprintf(`{"id":%d,"n":%d}`, n+1, n))
	}
	return all
}

// TestQueryDies lets the owner die before and after transactions, and the server end sessions. Each row must
// be one event, in order.
func TestQueryDies(t *testing.T) {
	name, open := table(t, nil)
	sql(t, "INSERT INTO "+name+" (n) SELECT g FROM generate_series(0, 9) g")
	l := newLedger()
	l.dies()
	l.running(t, func() Source { return mended{open()} })
	l.until(t, "begins", func() bool { return l.cursor != nil })
	for n := 10; n < 3010; n += 1000 {
		sql(t, fmt.Sprintf("INSERT INTO %s (n) SELECT g FROM generate_series(%d, %d) g; SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'skein'", name, n, n+999))
	}
	l.until(t, "all come", func() bool { return len(l.values) == 3000 })
	if got := l.got(); !slices.Equal(got, numbers(10, 3010)) || l.again != 0 {
		t.Errorf("%d, %d again", len(got), l.again)
	}
	if l.fired["query/3010"] != 1 {
		t.Errorf("no key of the last row")
	}
}

// mended treats each error of the database as the death of the owner, so that the source is started again.
type mended struct{ Source }

func (m mended) Run(ctx context.Context, from []byte, give func(context.Context, Batch) error) error {
	if err := m.Source.Run(ctx, from, give); err != nil && ctx.Err() == nil {
		return errDied
	}
	return ctx.Err()
}

// TestQueryLateCommit: a transaction that began first commits last. Its row is not skipped.
func TestQueryLateCommit(t *testing.T) {
	name, open := table(t, nil)
	l := newLedger()
	l.running(t, open)
	l.until(t, "begins", func() bool { return l.cursor != nil })
	first, second := session(t), session(t)
	tx, err := first.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "INSERT INTO "+name+" (n) VALUES (0)"); err != nil {
		t.Fatal(err)
	}
	if _, err := second.Exec(t.Context(), "INSERT INTO "+name+" (n) VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	waits := func() bool {
		var n int
		err := second.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'skein' AND query LIKE 'SELECT txid_current_snapshot%' AND state = 'idle'").Scan(&n)
		return err == nil && n > 0
	}
	for !waits() {
	}
	if got := l.got(); len(got) != 0 {
		t.Errorf("given although an earlier row may come: %q", got)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.until(t, "both come", func() bool { return len(l.values) == 2 })
	if got := l.got(); !slices.Equal(got, numbers(0, 2)) {
		t.Errorf("%q", got)
	}
}

// TestQuerySettle: a transaction that does not end delays rows, but not for ever, and only once.
func TestQuerySettle(t *testing.T) {
	name, open := table(t, func(q *workflow.Query) { q.Settle = workflow.Duration(50 * time.Millisecond) })
	l := newLedger()
	l.running(t, open)
	l.until(t, "begins", func() bool { return l.cursor != nil })
	tx, err := session(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "INSERT INTO "+name+" (n) VALUES (0)"); err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		sql(t, fmt.Sprintf("INSERT INTO %s (n) VALUES (%d)", name, n+1))
		l.until(t, "it comes", func() bool { return len(l.values) == n+1 })
	}
}

// TestQueryListen: a notice makes the source look at once.
func TestQueryListen(t *testing.T) {
	name, open := table(t, func(q *workflow.Query) { q.Every, q.Listen = workflow.Duration(time.Hour), "Orders" })
	l := newLedger()
	l.running(t, open)
	l.until(t, "begins", func() bool { return l.cursor != nil })
	for n := range 3 {
		sql(t, fmt.Sprintf(`INSERT INTO %s (n) VALUES (%d); NOTIFY "Orders"`, name, n))
		l.until(t, "it comes", func() bool { return len(l.values) == n+1 })
	}
}

// TestQueryBeginning: the source can begin before all rows, whatever the type of the position.
func TestQueryBeginning(t *testing.T) {
	for column, values := range map[string]string{"at timestamptz": "'2027-01-01', '2027-01-02'", "at numeric": "-5.5, 7", "at text": "'a', 'b'", "at uuid": "gen_random_uuid(), gen_random_uuid()", "at date": "'0044-03-15 BC', '2027-01-01'"} {
		sql(t, "CREATE TABLE beginning ("+column+"); INSERT INTO beginning SELECT unnest(ARRAY["+strings.ReplaceAll(values, ", ", "::"+strings.Fields(column)[1]+", ")+"::"+strings.Fields(column)[1]+"])")
		_, open := "", func() Source {
			return &Query{Config: &workflow.Query{Cursor: "at", Every: workflow.Duration(time.Hour)}, Start: Start{Beginning: true}, Open: func(ctx context.Context) (Table, error) {
				return database(t).Follow(ctx, "", plainDial(), "SELECT * FROM beginning WHERE at > $1 ORDER BY at", "at")
			}}
		}
		l := newLedger()
		stop := l.running(t, open)
		l.until(t, column, func() bool { return len(l.values) == 2 })
		_ = stop()
		sql(t, "DROP TABLE beginning")
	}
}

// TestQueryFaults: the error says what is wrong with a query, and no row is skipped because of it.
func TestQueryFaults(t *testing.T) {
	sql(t, "CREATE TABLE faults (id int, at date, big text); INSERT INTO faults SELECT g, '2027-01-01', 'x' FROM generate_series(1, 1200) g; CREATE TABLE nulls (id int)")
	t.Cleanup(func() { sql(t, "DROP TABLE faults, nulls") })
	for query, want := range map[string]any{
		"id: SELECT id FROM nothing WHERE id > :cursor":                                        "42P01",
		"no: SELECT id FROM faults WHERE id > :cursor":                                         connection.ErrColumn,
		"at: SELECT id, at FROM faults WHERE at > :cursor ORDER BY at LIMIT 700":               errTies,
		"id: SELECT id FROM faults WHERE id >= :cursor ORDER BY id":                            errStays,
		"id: SELECT id FROM faults a, faults b WHERE a.id > :cursor":                           "42702",
		"id: SELECT a.id FROM faults a, faults b WHERE a.id > :cursor":                         connection.ErrNoEnd,
		"id: SELECT NULL::int AS id FROM faults WHERE id > :cursor":                            connection.ErrNull,
		"id: DELETE FROM faults WHERE id > :cursor RETURNING id":                               "25006",
		"id: SELECT id FROM faults WHERE id > :cursor; DROP TABLE faults":                      "42601",
		"id: SELECT id FROM faults WHERE id > :cursor AND pg_sleep(100) IS NOT NULL":           errSlow,
		"id: SELECT id, repeat('x', 9000000) AS big FROM faults WHERE id > :cursor AND id = 1": nil,
	} {
		column, text, _ := strings.Cut(query, ": ")
		if lookMax = time.Minute; want == any(errSlow) {
			lookMax = 300 * time.Millisecond
		}
		q := &workflow.Query{Query: text, Cursor: column, Every: workflow.Duration(time.Hour)}
		l := newLedger()
		is := &Query{Config: q, Start: Start{Beginning: true}, Open: func(ctx context.Context) (Table, error) {
			f, err := database(t).Follow(ctx, "", plainDial(), q.Statement("$1"), q.Cursor)
			if err != nil {
				return nil, err
			}
			return f, nil
		}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		err := is.Run(ctx, nil, l.give)
		cancel()
		var of *pgconn.PgError
		code, named := want.(string)
		kind, ok := want.(error)
		if err == nil || named && (!errors.As(err, &of) || of.Code != code) || ok && !errors.Is(err, kind) || want == nil && errors.Is(err, errSlow) {
			t.Errorf("%s: %v", query, err)
		}
	}
	lookMax = time.Minute
}

// TestQueryTies: rows with equal positions are passed on together, even if they are in the middle of a page.
func TestQueryTies(t *testing.T) {
	sql(t, "CREATE TABLE ties (id int, n int); INSERT INTO ties SELECT g / 7, g FROM generate_series(7, 1406) g")
	t.Cleanup(func() { sql(t, "DROP TABLE ties") })
	l := newLedger()
	l.running(t, func() Source {
		return &Query{Config: &workflow.Query{Cursor: "id", Every: workflow.Duration(time.Hour)}, Start: Start{Beginning: true}, Open: func(ctx context.Context) (Table, error) {
			return database(t).Follow(ctx, "", plainDial(), "SELECT * FROM ties WHERE id > $1 ORDER BY id, n", "id")
		}}
	})
	l.until(t, "all come", func() bool { return len(l.values) == 1400 })
	if l.again != 0 || l.fired["query/200#6"] != 1 {
		t.Errorf("%d again", l.again)
	}
}
