//go:build linux

package connection

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"skein.dev/skein/internal/store/postgres/pgtest"
	"skein.dev/skein/sdk/shared/mask"
)

// server is a real PostgreSQL.
var server *pgtest.Server

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m, &server, pgtest.Options{NoSync: true})) }

// database is a connection to the server.
func database(t *testing.T) *Postgres {
	t.Helper()
	host, port, err := net.SplitHostPort(server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	return &Postgres{Host: host, Port: n, User: pgtest.Superuser, Database: "postgres", TLS: TLSDisable}
}

// logged keeps a log.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func run(ctx context.Context, t *testing.T, s Statement) (Done, string, error) {
	t.Helper()
	if s.Max == 0 {
		s.Max = 64 << 10
	}
	var log logged
	done, err := database(t).Run(ctx, "", new(net.Dialer).DialContext, &s, &log)
	return done, log.String(), err
}

func prepare(t *testing.T, text string) {
	t.Helper()
	if err := server.SQL("postgres", text); err != nil {
		t.Fatal(err)
	}
}

func asked(t *testing.T, query string) string {
	t.Helper()
	is, err := server.Ask("postgres", query)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(is)
}

func TestPostgresTest(t *testing.T) {
	c := &Config{Postgres: database(t)}
	found, err := c.Test(t.Context(), means(values{}))
	if err != nil || !strings.HasPrefix(found, "PostgreSQL ") || !strings.HasSuffix(found, "user skein, database postgres") {
		t.Errorf("%q, %v", found, err)
	}
	c.Postgres.User, c.Postgres.Password = pgtest.Locked, parsed(t, `{"postgres":{"host":"a","user":"b","password":{"secret":"P"}}}`).Postgres.Password
	if found, err := c.Test(t.Context(), means(values{"P": "right"})); err != nil || !strings.Contains(found, "user locked") {
		t.Errorf("%q, %v", found, err)
	}
	t.Setenv("PGPASSWORD", "right") // of the node: it must not open what the connection does not
	t.Setenv("PGHOST", "192.0.2.1")
	if _, err := c.Test(t.Context(), means(values{"P": "wrong-password"})); err == nil || !strings.Contains(err.Error(), "password authentication failed") {
		t.Error(err)
	}
	c.Postgres.Password = nil
	if _, err := c.Test(t.Context(), means(values{})); err == nil {
		t.Error("a variable of the node opened the database")
	}
	c.Postgres.TLS = TLSVerify
	if _, err := c.Test(t.Context(), means(values{})); err == nil || !strings.Contains(err.Error(), "TLS") {
		t.Errorf("without TLS: %v", err)
	}
}

func TestStatements(t *testing.T) {
	prepare(t, "DROP TABLE IF EXISTS sale; CREATE TABLE sale (day date, shop text, amount numeric, n int, paid bool, more jsonb)")
	for _, c := range []struct {
		text, params, result string
		affected             int64
		rows                 string
		err                  string
	}{
		{text: "INSERT INTO sale SELECT @day::date, @shop, @amount, @n, @paid, @more", affected: 1,
			params: `{"day":"2026-11-26","shop":"a'; DROP TABLE sale; --","amount":12345678901234567890.25,"n":7,"paid":true,"more":{"a":[1,null]}}`},
		{text: "INSERT INTO sale (shop, n) VALUES (@shop, @n), ('@shop', 2)", params: `{"shop":null,"n":1}`, affected: 2},
		{text: "SELECT day, shop, amount, n, paid, more, now() - now() AS gone FROM sale ORDER BY n DESC", result: ResultFirst, affected: 3,
			rows: `{"day":"2026-11-26","shop":"a'; DROP TABLE sale; --","amount":12345678901234567890.25,"n":7,"paid":true,"more":{"a": [1, null]},"gone":"00:00:00"}`},
		{text: "SELECT n, shop FROM sale WHERE n < 3 ORDER BY n", result: ResultRows, affected: 2, rows: `[{"n":1,"shop":null},{"n":2,"shop":"@shop"}]`},
		{text: "SELECT n FROM sale WHERE n = @n", params: `{"n":99}`, result: ResultFirst, rows: "null"},
		{text: "SELECT n FROM sale WHERE n = @n", params: `{"n":99}`, result: ResultRows, rows: "[]"},
		{text: "SELECT 'NaN'::float8 AS a, E'\\x'::text AS b, '\\xff00'::bytea AS c", result: ResultFirst, affected: 1, rows: `{"a":"NaN","b":"x","c":"\\xff00"}`},
		{text: "UPDATE sale SET n = n + 1", affected: 3},
		{text: "SELECT 1 AS a, 2 AS a", result: ResultRows, err: "two columns"},
		{text: "SELECT n FROM sale WHERE n = @n", err: "n"},
		{text: "SELECT nothing", err: `column "nothing" does not exist`},
		{text: "SELECT 1; DELETE FROM sale", err: "multiple commands"},
		{text: "SELECT repeat('x', 100000)", result: ResultRows, err: "larger than"},
		{text: "SELECT repeat('x', 20000000)", result: ResultFirst, err: "the limit is"},
		{text: "COMMIT", err: "ends the transaction"},
		{text: "/* a /* b */ */ -- c\n commit AND CHAIN", err: "ends the transaction"},
		{text: "COPY sale FROM STDIN", err: "COPY"},
		{text: "COPY sale TO STDOUT", err: "COPY"},
	} {
		done, log, err := run(t.Context(), t, Statement{Text: c.text, Params: json.RawMessage(c.params), Result: c.result})
		switch {
		case c.err != "":
			if err == nil || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(c.err)) {
				t.Errorf("%s: %v; want %q", c.text, err, c.err)
			}
		case err != nil || done.Affected != c.affected || string(done.Rows) != c.rows || done.Earlier:
			t.Errorf("%s: %d, %s, %v; want %d, %s", c.text, done.Affected, done.Rows, err, c.affected, c.rows)
		case !strings.Contains(log, "committed, "):
			t.Errorf("%s: log %q", c.text, log)
		}
	}
	if is := asked(t, "SELECT count(*) FROM sale"); is != "3" {
		t.Errorf("%s rows are left", is)
	}
	if _, log, err := run(t.Context(), t, Statement{Text: "DO $$ BEGIN RAISE NOTICE 'step one'; END $$"}); err != nil || !strings.Contains(log, "NOTICE: step one") {
		t.Errorf("%q, %v", log, err)
	}
}

// TestOnce: a key commits once, whatever is repeated, and repetitions have the result of the first one.
func TestOnce(t *testing.T) {
	s := Statement{Text: "INSERT INTO mark (v) VALUES (@v) RETURNING v, n", Params: json.RawMessage(`{"v":"first"}`), Result: ResultFirst, Once: "run/task"}
	prepare(t, "DROP TABLE IF EXISTS mark; CREATE TABLE mark (n serial, v text); DROP TABLE IF EXISTS skein_done")
	if _, _, err := run(t.Context(), t, s); err == nil || !strings.Contains(err.Error(), onceTable) {
		t.Fatalf("without the table: %v", err)
	}
	prepare(t, onceTable)
	failing := s
	failing.Text = "INSERT INTO mark (v) VALUES (@v) RETURNING v, n / 0 AS n"
	if _, _, err := run(t.Context(), t, failing); err == nil || asked(t, "SELECT count(*) FROM skein_done") != "0" {
		t.Fatalf("a failed attempt counts: %v", err)
	}
	var all sync.WaitGroup
	results := make([]string, 8)
	for i := range results {
		all.Go(func() {
			done, _, err := run(t.Context(), t, s)
			results[i] = fmt.Sprint(done.Affected, string(done.Rows), err)
		})
	}
	all.Wait()
	for _, is := range results {
		if is != results[0] || !strings.Contains(is, `"v":"first"`) {
			t.Errorf("%s and %s", is, results[0])
		}
	}
	if is := asked(t, "SELECT count(*) FROM mark"); is != "1" {
		t.Errorf("%s effects", is)
	}
	done, log, err := run(t.Context(), t, s)
	if err != nil || !done.Earlier || !strings.Contains(log, "an earlier attempt has committed") {
		t.Errorf("%+v, %q, %v", done, log, err)
	}
}

// TestResultsAreJudgedBeforeTheCommit: a refused result has no effect, and takes no row of once.
func TestResultsAreJudgedBeforeTheCommit(t *testing.T) {
	prepare(t, "DROP TABLE IF EXISTS judged; CREATE TABLE judged (v int); DROP TABLE IF EXISTS skein_done; "+onceTable)
	bad := errors.New("the result is bad")
	for _, once := range []string{"", "judged"} {
		s := Statement{Text: "INSERT INTO judged VALUES (1) RETURNING v", Result: ResultFirst, Once: once, Keep: func(d *Done) error {
			if string(d.Rows) != `{"v":1}` || d.Affected != 1 {
				t.Errorf("%+v", d)
			}
			return bad
		}}
		if _, _, err := run(t.Context(), t, s); !errors.Is(err, bad) {
			t.Error(err)
		}
		s.Keep, s.Wanted = nil, func() error { return bad }
		if _, _, err := run(t.Context(), t, s); !errors.Is(err, bad) {
			t.Error(err)
		}
	}
	if is := asked(t, "SELECT (SELECT count(*) FROM judged) + (SELECT count(*) FROM skein_done)"); is != "0" {
		t.Errorf("%s effects", is)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s := Statement{Text: "INSERT INTO judged VALUES (1)", Keep: func(*Done) error { cancel(); return nil }}
	if _, _, err := run(ctx, t, s); err == nil || errors.Is(err, ErrUnknown) {
		t.Errorf("an attempt that ended before the commit: %v", err)
	}
	if is := asked(t, "SELECT count(*) FROM judged"); is != "0" {
		t.Errorf("%s effects", is)
	}
}

// TestEndDuringCommit: a confirmed commit is a success although the attempt was ended meanwhile. If the
// session breaks, the error says that the outcome is not known.
func TestEndDuringCommit(t *testing.T) {
	prepare(t, `DROP TABLE IF EXISTS deferred; CREATE TABLE deferred (v text);
		CREATE OR REPLACE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(600);
			RETURN NULL; EXCEPTION WHEN query_canceled THEN IF NEW.v = 'kept' THEN RETURN NULL; END IF; RAISE; END $$;
		CREATE CONSTRAINT TRIGGER hold AFTER INSERT ON deferred DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION hold()`)
	const committing = "SELECT count(*) FROM pg_stat_activity WHERE query = 'commit' AND state = 'active' AND wait_event = 'PgSleep'"
	for _, v := range []string{"kept", "left", "cut"} {
		ctx, cancel := context.WithCancel(t.Context())
		conns := make(chan net.Conn, 10)
		ended := make(chan error, 1)
		s := Statement{Text: "INSERT INTO deferred VALUES (@v)", Params: json.RawMessage(fmt.Sprintf(`{"v":%q}`, v)), Max: 100}
		go func() {
			_, err := database(t).Run(ctx, "", func(ctx context.Context, network, address string) (net.Conn, error) {
				c, err := new(net.Dialer).DialContext(ctx, network, address)
				conns <- c
				return c, err
			}, &s, &logged{})
			ended <- err
		}()
		await(t, "the server commits", func() bool { return asked(t, committing) == "1" })
		if v == "cut" {
			_ = (<-conns).Close()
		} else {
			cancel()
		}
		err := <-ended
		cancel()
		if v == "kept" && err != nil || v != "kept" && err == nil || errors.Is(err, ErrUnknown) != (v == "cut") {
			t.Errorf("%s: %v", v, err)
		}
		await(t, "the session has ended", func() bool { return asked(t, committing) == "0" })
	}
	if is := asked(t, "SELECT string_agg(v, ' ') FROM deferred"); is != "kept" {
		t.Errorf("committed: %s", is)
	}
}

// TestFrozenClientCommitsNothing: the server ends a transaction whose client is gone without a word.
func TestFrozenClientCommitsNothing(t *testing.T) {
	defer func(is time.Duration) { idleMax = is }(idleMax)
	idleMax = 100 * time.Millisecond
	prepare(t, "DROP TABLE IF EXISTS frozen; CREATE TABLE frozen (v int)")
	const open = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'INSERT INTO frozen%'"
	s := Statement{Text: "INSERT INTO frozen VALUES (1)", Keep: func(*Done) error {
		await(t, "the server has ended the transaction", func() bool { return asked(t, open) == "0" })
		return nil
	}}
	if _, _, err := run(t.Context(), t, s); err == nil || errors.Is(err, ErrUnknown) {
		t.Errorf("a transaction that its client has left: %v", err)
	}
	if is := asked(t, "SELECT count(*) FROM frozen"); is != "0" {
		t.Errorf("%s effects", is)
	}
}

// TestSilentServer: a server that takes a connection and says nothing is not waited for without an end.
func TestSilentServer(t *testing.T) {
	defer func(is time.Duration) { openMax = is }(openMax)
	openMax = 100 * time.Millisecond
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	p := &Postgres{Host: "127.0.0.1", Port: ln.Addr().(*net.TCPAddr).Port, User: "u", TLS: TLSDisable}
	if _, err := p.Run(t.Context(), "", new(net.Dialer).DialContext, &Statement{Text: "SELECT 1"}, &logged{}); err == nil ||
		!strings.Contains(err.Error(), "no session within") {
		t.Error(err)
	}
}

// TestNoVariableTakesPart: sessions do not depend on the environment of the node.
func TestNoVariableTakesPart(t *testing.T) {
	for name, value := range map[string]string{"PGSERVICE": "none", "PGSERVICEFILE": "/nowhere", "PGSSLNEGOTIATION": "direct", "PGREQUIREAUTH": "none",
		"PGCHANNELBINDING": "require", "PGMINPROTOCOLVERSION": "3.2", "PGMAXPROTOCOLVERSION": "3.2", "PGSSLCERTMODE": "require"} {
		t.Setenv(name, value)
	}
	is, err := plainSettings()
	if err != nil {
		t.Fatal(err)
	}
	if is.SSLNegotiation != "postgres" || is.RequireAuth != "" || is.ChannelBinding != "prefer" || is.SSLCertMode != "allow" ||
		is.MinProtocolVersion != "3.0" || is.MaxProtocolVersion != "3.0" {
		t.Errorf("%+v", is.Config)
	}
	if os.Getenv("PGSERVICE") != "none" {
		t.Error("the variable is lost for others")
	}
}

// TestShown: a secret is masked before a text is cut, so that no part of it is left at the end.
func TestShown(t *testing.T) {
	const password = "a-password-that-nobody-reads"
	is := shown(mask.NewSet([]string{password}), strings.Repeat("x", shownMax-10)+password)
	if strings.Contains(is, password[:4]) || !strings.Contains(is, mask.Mark) {
		t.Error(is)
	}
}

// TestStopEndsTheStatement: the end of an attempt ends its statement in the server, and nothing is committed.
func TestStopEndsTheStatement(t *testing.T) {
	prepare(t, "DROP TABLE IF EXISTS slow; CREATE TABLE slow (v int)")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, _, err := run(ctx, t, Statement{Text: "INSERT INTO slow SELECT 1 FROM pg_sleep(600) AS stop_test"})
		ended <- err
	}()
	const active = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'INSERT INTO slow%' AND state = 'active'"
	await(t, "the statement runs", func() bool { return asked(t, active) == "1" })
	cancel()
	if err := <-ended; err == nil {
		t.Error("a stopped statement has succeeded")
	}
	await(t, "the statement has ended in the server", func() bool { return asked(t, active) == "0" })
	if is := asked(t, "SELECT count(*) FROM slow"); is != "0" {
		t.Errorf("%s rows were committed", is)
	}
}

// TestDeadClientEndsTheStatement: the server ends the statement of a session whose other end is gone.
func TestDeadClientEndsTheStatement(t *testing.T) {
	var conns []net.Conn
	var mu sync.Mutex
	s := Statement{Text: "SELECT 1 FROM pg_sleep(600) AS dead_test", Max: 100}
	ended := make(chan error, 1)
	go func() {
		_, err := database(t).Run(t.Context(), "", func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, address)
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			return c, err
		}, &s, &logged{})
		ended <- err
	}()
	const active = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT 1 FROM pg_sleep(600) AS dead_test%' AND state = 'active'"
	await(t, "the statement runs", func() bool { return asked(t, active) == "1" })
	mu.Lock()
	for _, c := range conns {
		_ = c.Close()
	}
	mu.Unlock()
	if err := <-ended; err == nil {
		t.Error("it has succeeded")
	}
	await(t, "the statement has ended in the server", func() bool { return asked(t, active) == "0" })
}

// TestConflictsAreRepeated: transactions that the server ends because of each other begin again.
func TestConflictsAreRepeated(t *testing.T) {
	prepare(t, "DROP TABLE IF EXISTS counter; CREATE TABLE counter (n int); INSERT INTO counter VALUES (0)")
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if _, _, err := run(t.Context(), t, Statement{Text: "UPDATE counter SET n = n + 1 FROM pg_sleep(0.01)", Isolation: "serializable"}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if is := asked(t, "SELECT n FROM counter"); is != "4" {
		t.Errorf("%s of 4", is)
	}
}

// await waits for a condition. The duration does not matter.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for began := time.Now(); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}
