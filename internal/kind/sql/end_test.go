//go:build linux

package sql

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"skein.dev/skein/internal/connection"
	"skein.dev/skein/internal/egress"
	"skein.dev/skein/internal/kind"
	"skein.dev/skein/internal/kind/sql/sqltest"
	"skein.dev/skein/internal/store/postgres/pgtest"
)

// slow holds statements that run for ten minutes. Each contains a name by which running finds it.
var slow = map[string]string{
	"postgres": "INSERT INTO %[1]s SELECT 1 FROM pg_sleep(600) AS %[1]s",
	"mysql":    "INSERT INTO %[1]s SELECT SLEEP(600) /* %[1]s */",
}

// running holds statements that count the running statements with that name.
var running = map[string]string{
	"postgres": "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'INSERT INTO %[1]s SELECT%%' AND state = 'active'",
	"mysql":    "SELECT count(*) FROM information_schema.processlist WHERE info LIKE 'INSERT INTO %[1]s SELECT%%' AND id <> connection_id()",
}

// ends checks what happens on a server when an attempt ends early.
func ends(t *testing.T, s server) {
	s.ask(s.done)
	t.Run("stop", func(t *testing.T) { stop(t, s) })
	t.Run("kill once", func(t *testing.T) { killedOnce(t, s) })
	t.Run("release", func(t *testing.T) { released(t, s) })
}

// released freezes the process of an attempt, so that the server still executes its statement. A release ends
// the session that the attempt's handle names, and no other one. A second release finds nothing to do.
func released(t *testing.T, s server) {
	for _, name := range []string{"frozen", "spared"} {
		s.ask("DROP TABLE IF EXISTS " + name)
		s.ask("CREATE TABLE " + name + " (n int)")
	}
	handle := filepath.Join(t.TempDir(), "handle")
	in := inputOf(t, s, With{Query: fmt.Sprintf(slow[s.name], "frozen")})
	cmd, _ := spawn(t, in, "SKEIN_HANDLE="+handle)
	other := in
	other.Token, other.With = in.Token+1, inputOf(t, s, With{Query: fmt.Sprintf(slow[s.name], "spared")}).With
	spawn(t, other, "SKEIN_HANDLE="+handle+"2")
	runs := func(name string) bool { return s.ask(fmt.Sprintf(running[s.name], name)) == "1" }
	await(t, "both statements run", func() bool { return runs("frozen") && runs("spared") })
	var text []byte
	await(t, "the attempt has a handle", func() bool { text, _ = os.ReadFile(handle); return len(text) > 0 })
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		var log locked
		e := &kind.Env{Input: in, Stdout: &log, Stderr: &log, Dir: t.TempDir()}
		e.Input.Handle = strings.TrimSpace(string(text))
		if code := (Kind{}).Release(t.Context(), e); code != kind.Done {
			t.Fatalf("code %d: %s", code, log.text.String())
		}
		if runs("frozen") || !runs("spared") {
			t.Fatal("the released statement still runs, or another one was ended")
		}
	}
	for _, bad := range []string{"job-17", ""} {
		e := &kind.Env{Input: in, Stdout: io.Discard, Stderr: io.Discard}
		if e.Input.Handle = bad; (Kind{}).Release(t.Context(), e) == kind.Done {
			t.Errorf("the handle %q was released", bad)
		}
	}
}

// stop checks that the end of an attempt ends its statement on the server, and that nothing is committed.
func stop(t *testing.T, s server) {
	s.ask("DROP TABLE IF EXISTS stopped")
	s.ask("CREATE TABLE stopped (n int)")
	active := fmt.Sprintf(running[s.name], "stopped")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan result, 1)
	go func() { ended <- run(ctx, t, s, With{Query: fmt.Sprintf(slow[s.name], "stopped")}) }()
	await(t, "the statement runs", func() bool { return s.ask(active) == "1" })
	cancel()
	if got := <-ended; got.code != kind.Failed || !strings.Contains(got.log, "told to end") {
		t.Errorf("%+v", got)
	}
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	go func() {
		ended <- run(ctx, t, s, With{Query: "INSERT INTO stopped VALUES (1);" + fmt.Sprintf(slow[s.name], "stopped"), Transaction: new(bool)})
	}()
	await(t, "the second statement runs", func() bool { return s.ask(active) == "1" })
	cancel()
	if got := <-ended; got.code != kind.Failed || strings.Contains(got.log, "nothing was committed") || !strings.Contains(got.log, "the 1 earlier statements took effect") {
		t.Errorf("%+v", got)
	}
	s.ask("DELETE FROM stopped")
	if is := s.ask(active); is != "0" {
		await(t, "the statement has ended in the server", func() bool { return s.ask(active) == "0" })
	}
	if is := s.ask("SELECT count(*) FROM stopped"); is != "0" {
		t.Errorf("%s rows were committed", is)
	}
}

// spawn executes an attempt in a process of its own.
func spawn(t *testing.T, in kind.Input, env ...string) (*exec.Cmd, io.Reader) {
	t.Helper()
	raw, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), childVar+"="+string(raw)), env...)
	cmd.Stderr = &locked{}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd, out
}

// killedOnce checks that an attempt that is killed at any step, together with the next attempt, has the
// effect exactly once.
func killedOnce(t *testing.T, s server) {
	s.ask("DROP TABLE IF EXISTS effect")
	s.ask("CREATE TABLE effect (n int)")
	n := 0
	for step, alive := 1, false; !alive; step++ {
		for _, forwarded := range []bool{false, true} {
			n++
			w := With{Connection: "warehouse", Query: fmt.Sprintf("INSERT INTO effect VALUES (%d)", n), Once: true}
			id := key(fmt.Sprint("killed/", n))
			alive = killedAt(t, s, w, id, step, forwarded)
			if got := attempt(t, s, w, id); got.code != kind.Done {
				t.Errorf("step %d: %+v", step, got)
			}
		}
	}
	if is := s.ask("SELECT count(*) FROM effect") + "/" + s.ask("SELECT count(DISTINCT n) FROM effect"); is != fmt.Sprintf("%d/%d", n, n) {
		t.Errorf("%s effects of %d", is, n)
	}
	if n < 16 {
		t.Errorf("%d steps only", n)
	}
}

// killedAt executes an attempt in a process and kills the process at the given message to the server. If
// forwarded is set, the server gets the message first. It returns true if the attempt sends fewer messages.
func killedAt(t *testing.T, s server, w With, id option, step int, forwarded bool) (alive bool) {
	t.Helper()
	var of struct{ Port int }
	if err := json.Unmarshal([]byte(s.connection), &of); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	through := s
	through.connection = strings.Replace(s.connection, fmt.Sprintf(`"port":%d`, of.Port), fmt.Sprintf(`"port":%d`, portOf(t, l.Addr().String())), 1)
	e := &kind.Env{Input: inputOf(t, through, w)}
	id(e)
	cmd, out := spawn(t, e.Input)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		far, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", of.Port))
		if err != nil {
			return
		}
		defer far.Close()
		go func() { _, _ = io.Copy(c, far) }()
		buf := make([]byte, 64<<10)
		for i := 1; ; i++ {
			n, err := c.Read(buf)
			if err != nil {
				return
			}
			if i == step && !forwarded {
				_ = cmd.Process.Kill()
				return
			}
			if _, err := far.Write(buf[:n]); err != nil {
				return
			}
			if i == step {
				_ = cmd.Process.Kill()
				return
			}
		}
	}()
	_, _ = io.ReadAll(out)
	_ = cmd.Wait()
	return cmd.ProcessState.Exited()
}

// TestStopSQLite checks that the end of an attempt interrupts a statement of SQLite.
func TestStopSQLite(t *testing.T) {
	s := sqliteServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	began := make(chan struct{})
	ended := make(chan result, 1)
	go func() {
		close(began)
		ended <- run(ctx, t, s, With{Query: "CREATE TABLE x (n); WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) INSERT INTO x SELECT max(n) FROM c"})
	}()
	<-began
	time.AfterFunc(100*time.Millisecond, cancel)
	if got := <-ended; got.code != kind.Failed {
		t.Errorf("%+v", got)
	}
	if is := s.ask("SELECT count(*) FROM sqlite_master WHERE name = 'x'"); is != "0" {
		t.Errorf("%s tables", is)
	}
}

// TestSQLiteFiles checks that a task can use no file but that of its connection.
func TestSQLiteFiles(t *testing.T) {
	s := sqliteServer(t)
	s.ask("CREATE TABLE t (n int)")
	works(t, s, "1 tables")
	if got := attempt(t, s, With{Query: "ATTACH '/tmp/other.db' AS o", Transaction: new(bool)}); got.code != kind.Permanent {
		t.Errorf("%+v", got)
	}
	if got := attempt(t, s, With{Query: "VACUUM INTO '/tmp/skein-other.db'", Transaction: new(bool)}); got.code == kind.Done {
		t.Errorf("%+v", got)
	}
	guards(t, s)
	s.connection = `{"type":"sqlite","path":"/nowhere/a.db"}`
	if got := attempt(t, s, With{Query: "SELECT 1"}); got.code != kind.Permanent || !strings.Contains(got.log, "--create") {
		t.Errorf("%+v", got)
	}
}

// guards checks that neither a task nor a test of a connection reaches a file in a protected folder, also not
// through a link.
func guards(t *testing.T, s server) {
	data := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(data, link); err != nil {
		t.Fatal(err)
	}
	settings, err := json.Marshal(Settings{Protected: []string{data}})
	if err != nil {
		t.Fatal(err)
	}
	guarded := func(e *kind.Env) { e.Input.Settings = settings }
	for _, path := range []string{filepath.Join(data, "skein.db"), filepath.Join(link, "skein.db"), filepath.Join(link, "..", filepath.Base(link), "x")} {
		s.connection = fmt.Sprintf(`{"type":"sqlite","create":true,"path":%q}`, path)
		if got := attempt(t, s, With{Query: "SELECT 1"}, guarded); got.code != kind.Permanent || !strings.Contains(got.log, "belongs to Skein") {
			t.Errorf("%s: %+v", path, got)
		}
		c := connection.Config{SQLite: &connection.SQLite{Path: path}}
		if _, err := c.Test(t.Context(), &connection.Means{Protected: []string{data}}); err == nil || !strings.Contains(err.Error(), "belongs to Skein") {
			t.Errorf("%s: %v", path, err)
		}
	}
	if all, err := os.ReadDir(data); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
	s.connection = fmt.Sprintf(`{"type":"sqlite","create":true,"path":%q}`, data+".db")
	if got := attempt(t, s, With{Query: "SELECT 1"}, guarded); got.code != kind.Done {
		t.Errorf("%+v", got)
	}
}

// noServer checks the outcome if a server cannot be reached or refuses the session.
func noServer(t *testing.T, maria *sqltest.Server) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := portOf(t, l.Addr().String())
	_ = l.Close()
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	const secret = `"password":"the-wrong-password"`
	for _, c := range []struct {
		connection string
		code       int
		says       string
	}{
		{fmt.Sprintf(`{"type":"postgres","host":"127.0.0.1","port":%d,"user":"u",%s,"tls":"disable"}`, port, secret), kind.Away, "cannot be reached"},
		{fmt.Sprintf(`{"type":"mysql","host":"127.0.0.1","port":%d,"user":"u",%s,"tls":"disable"}`, port, secret), kind.Away, "cannot be reached"},
		{fmt.Sprintf(`{"type":"clickhouse","url":"http://127.0.0.1:%d","user":"u",%s}`, port, secret), kind.Away, "cannot be reached"},
		{fmt.Sprintf(`{"type":"postgres","host":"127.0.0.1","port":%d,"user":%q,%s,"database":"postgres","tls":"disable"}`, portOf(t, pg.Addr()), pgtest.Locked, secret), kind.Permanent, "skein connection test"},
		{fmt.Sprintf(`{"type":"mysql","host":"127.0.0.1","port":%d,"user":%q,%s,"tls":"disable"}`, maria.Port, sqltest.User, secret), kind.Permanent, "Access denied"},
		{fmt.Sprintf(`{"type":"postgres","host":"127.0.0.1","port":%d,"user":"u",%s}`, portOf(t, pg.Addr()), secret), kind.Permanent, "TLS"},
		{fmt.Sprintf(`{"type":"mysql","host":"127.0.0.1","port":%d,"user":"u",%s}`, maria.Port, secret), kind.Permanent, "TLS"},
		{fmt.Sprintf(`{"type":"clickhouse","url":%q,"user":"u",%s}`, web.URL, secret), kind.Failed, "404"},
		{`{"type":"http","url":"http://x"}`, kind.Permanent, "sql needs"},
		{`{"type":"oracle"}`, kind.Permanent, "no connection of the type"},
		{``, kind.Permanent, "cannot be read"},
	} {
		got := attempt(t, server{connection: c.connection}, With{Query: "SELECT 1"})
		if got.code != c.code || !strings.Contains(got.log, c.says) || strings.Contains(got.log, "the-wrong") {
			t.Errorf("%s: %d %s", c.connection, got.code, got.log)
		}
	}
	// Only public addresses are allowed.
	closed := func(e *kind.Env) { e.Input.Egress, _ = json.Marshal(egress.Rules{}) }
	for _, s := range []server{postgresServer(t), {connection: fmt.Sprintf(`{"type":"mysql","host":"127.0.0.1","port":%d,"user":"u"}`, maria.Port)}, {connection: fmt.Sprintf(`{"type":"clickhouse","url":%q}`, web.URL)}} {
		if got := attempt(t, s, With{Query: "SELECT 1"}, closed); got.code != kind.Permanent || !strings.Contains(got.log, egress.CodePolicy) {
			t.Errorf("%+v", got)
		}
	}
}

// TestCertificates checks that an attempt is not retried if the certificate of the server is not trusted.
func TestCertificates(t *testing.T) {
	web := httptest.NewTLSServer(http.NotFoundHandler())
	defer web.Close()
	if got := attempt(t, server{connection: fmt.Sprintf(`{"type":"clickhouse","url":%q}`, web.URL)}, With{Query: "SELECT 1"}); got.code != kind.Permanent || !strings.Contains(got.log, "certificate") {
		t.Errorf("%+v", got)
	}
}

// hostile is a MySQL server that accepts every user, and then sends what the test writes.
func hostile(t *testing.T, after func(c net.Conn, n int)) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				hello := append([]byte{10}, "5.7.1\x00"...)
				hello = append(hello, 1, 0, 0, 0)
				hello = append(hello, "12345678\x00"...)
				hello = append(hello, 0xff, 0xf7, 33, 2, 0, 0xff, 0x81, 21, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
				hello = append(hello, "123456789012\x00mysql_native_password\x00"...)
				write(c, 0, hello)
				_, _ = packet(c)
				write(c, 2, []byte{0, 0, 0, 2, 0, 0, 0})
				for n := 0; ; n++ {
					if _, err := packet(c); err != nil {
						return
					}
					after(c, n)
				}
			}()
		}
	}()
	return portOf(t, l.Addr().String())
}

func packet(c net.Conn) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return nil, err
	}
	body := make([]byte, int(head[0])|int(head[1])<<8|int(head[2])<<16)
	_, err := io.ReadFull(c, body)
	return body, err
}

func write(c net.Conn, seq byte, body []byte) {
	_, _ = c.Write(append([]byte{byte(len(body)), byte(len(body) >> 8), byte(len(body) >> 16), seq}, body...))
}

// TestHugeRow checks that memory stays bounded when a server sends a row without end. The attempt closes the
// connection.
func TestHugeRow(t *testing.T) {
	maria := hostile(t, func(c net.Conn, _ int) {
		write(c, 1, []byte{1})
		piece := bytes.Repeat([]byte{'x'}, 1<<24-1)
		for seq := byte(2); ; seq++ {
			if _, err := c.Write(append([]byte{0xff, 0xff, 0xff, seq}, piece...)); err != nil {
				return
			}
		}
	})
	endless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		if strings.Contains(string(text), "version()") {
			fmt.Fprintln(w, "25.1")
			return
		}
		fmt.Fprint(w, "a\nString\n")
		for piece := bytes.Repeat([]byte{'x'}, 1<<20); ; {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	}))
	defer endless.Close()
	postgres, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer postgres.Close()
	go func() {
		c, err := postgres.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = c.Read(make([]byte, 4096))
		head := binary.BigEndian.AppendUint32([]byte{'N'}, 1<<30)
		_, _ = c.Write(head)
		piece := bytes.Repeat([]byte{'x'}, 1<<20)
		for {
			if _, err := c.Write(piece); err != nil {
				return
			}
		}
	}()
	for _, connection := range []string{
		fmt.Sprintf(`{"type":"mysql","host":"127.0.0.1","port":%d,"user":"u","tls":"disable"}`, maria),
		fmt.Sprintf(`{"type":"clickhouse","url":%q}`, endless.URL),
		fmt.Sprintf(`{"type":"postgres","host":"127.0.0.1","port":%d,"user":"u","tls":"disable"}`, portOf(t, postgres.Addr().String())),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got := attempt(t, server{connection: connection}, With{Query: "SELECT 1", Result: Result{Use: ResultFirst}})
		runtime.ReadMemStats(&after)
		if got.code == kind.Done || after.TotalAlloc-before.TotalAlloc > 200<<20 {
			t.Errorf("%d MB, %+v", (after.TotalAlloc-before.TotalAlloc)>>20, got)
		}
	}
}

// TestSilent checks that a server that sends nothing delays a stop only briefly.
func TestSilent(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, connection := range []string{
		`{"type":"postgres","host":"127.0.0.1","port":%d,"user":"u","tls":"disable"}`, `{"type":"mysql","host":"127.0.0.1","port":%d,"user":"u","tls":"disable"}`,
		`{"type":"clickhouse","url":"http://127.0.0.1:%d"}`,
	} {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(50*time.Millisecond, cancel)
		if got := run(ctx, t, server{connection: fmt.Sprintf(connection, portOf(t, l.Addr().String()))}, With{Query: "SELECT 1"}); got.code != kind.Failed {
			t.Errorf("%+v", got)
		}
	}
}

// mariaTransactions checks that a statement that commits by itself is refused, or noticed afterwards.
func mariaTransactions(t *testing.T, s server) {
	works(t, s, "database shop")
	s.ask(s.done)
	s.ask("CREATE TABLE t (n int)")
	s.ask("CREATE PROCEDURE sly() BEGIN INSERT INTO t VALUES (1); COMMIT; END")
	s.ask("CREATE PROCEDURE many() BEGIN SELECT 1 AS a; SELECT 2 AS b; END")
	for _, text := range []string{"TRUNCATE t", "INSERT INTO t VALUES (1); CREATE TABLE u (n int)", "/*!50000 COMMIT */", "DROP TABLE t"} {
		if got := attempt(t, s, With{Query: text}); got.code != kind.Permanent {
			t.Errorf("%s: %+v", text, got)
		}
	}
	if is := s.ask("SELECT count(*) FROM t"); is != "0" {
		t.Errorf("%s rows", is)
	}
	for range 2 { // the second try must not take the partial effect for the whole
		if got := attempt(t, s, With{Query: "CALL sly()", Once: true}, key("sly")); got.code != kind.Permanent {
			t.Errorf("%+v", got)
		}
	}
	if got := attempt(t, s, With{Query: "CALL many()", Result: Result{Use: ResultRows}}); string(got.out["rows"]) != `[{"a":1}]` {
		t.Errorf("%+v", got)
	}
	if got := attempt(t, s, With{Query: "CREATE TEMPORARY TABLE v (n int); INSERT INTO v VALUES (:n); SELECT n FROM v", Params: params(t, `{"n":7}`), Result: Result{Use: ResultRows}}); string(got.out["rows"]) != `[{"n":7}]` {
		t.Errorf("%+v", got)
	}
	s.ask("DROP TABLE skein_done")
	if got := attempt(t, s, With{Query: "SELECT 1", Once: true}); got.code != kind.Permanent || !strings.Contains(got.log, "CREATE TABLE skein_done") {
		t.Errorf("%+v", got)
	}
	s.ask(strings.Replace(s.done, "InnoDB", "MyISAM", 1))
	if got := attempt(t, s, With{Query: "SELECT 1", Once: true}); got.code != kind.Permanent || !strings.Contains(got.log, "InnoDB") {
		t.Errorf("%+v", got)
	}
}

// TestClickHouse executes statements on a real server.
func TestClickHouse(t *testing.T) {
	h := sqltest.ClickHouse(t)
	s := server{connection: fmt.Sprintf(`{"type":"clickhouse","url":"http://127.0.0.1:%d","user":%q,"password":%q}`, h.Port, sqltest.User, sqltest.Password)}
	works(t, s, "database default")
	h.Post(t, "CREATE TABLE t (n Int64, s Nullable(String)) ENGINE = Memory")
	if got := attempt(t, s, With{Query: "INSERT INTO t VALUES (1, 'a\\t\\'b'), (2, NULL)"}); got.code != kind.Done {
		t.Errorf("%+v", got)
	}
	if got := attempt(t, s, With{Query: "SELECT n, s FROM t ORDER BY n", Result: Result{Use: ResultRows}, Expect: "rows_affected == 2"}); string(got.out["rows"]) != `[{"n":1,"s":"a\t'b"},{"n":2,"s":null}]` {
		t.Errorf("%+v", got)
	}
	for text, code := range map[string]int{"SELEKT": kind.Permanent, "SELECT * FROM nowhere": kind.Failed, "SELECT 1; SELECT 2": kind.Permanent, "SELECT n FROM t FORMAT JSON": kind.Permanent} {
		if got := attempt(t, s, With{Query: text}); got.code != code {
			t.Errorf("%s: %+v", text, got)
		}
	}
	if got := attempt(t, s, With{Query: "SELECT 1", Once: true}); got.code != kind.Permanent || !strings.Contains(got.log, "no transactions") {
		t.Errorf("%+v", got)
	}
	if got := attempt(t, s, With{Query: "SELECT throwIf(number = 200000) FROM numbers(1000000)"}); got.code == kind.Done {
		t.Errorf("an exception in the middle of the rows: %+v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan result, 1)
	const long = "SELECT count() FROM system.numbers WHERE NOT ignore(sipHash64(number))"
	go func() { ended <- run(ctx, t, s, With{Query: long}) }()
	const active = "SELECT count() FROM system.processes WHERE query LIKE 'SELECT count() FROM system.numbers%'"
	await(t, "the statement runs", func() bool { return h.Post(t, active) == "1" })
	cancel()
	if got := <-ended; got.code != kind.Failed {
		t.Errorf("%+v", got)
	}
	await(t, "the statement has ended", func() bool { return h.Post(t, active) == "0" })
}

// TestClickHouseParameters checks that values are sent separately from the statement, in the form that newer
// servers accept.
func TestClickHouseParameters(t *testing.T) {
	double := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		if strings.Contains(string(text), "version()") {
			fmt.Fprintln(w, "25.1")
			return
		}
		raw, _ := json.Marshal(map[string]string{"text": string(text), "a": r.FormValue("param_a"), "n": r.FormValue("param_n"), "x": r.FormValue("param_x")})
		fmt.Fprintf(w, "v\nString\n%s\n", strings.ReplaceAll(string(raw), `\`, `\\`))
	}))
	defer double.Close()
	got := attempt(t, server{connection: fmt.Sprintf(`{"type":"clickhouse","url":%q}`, double.URL)},
		With{Query: "SELECT :a, :n, :x, ':a'", Params: params(t, `{"a":"'\\\t;","n":1.5,"x":null}`), Result: Result{Use: ResultFirst}})
	var row struct{ V string }
	_ = json.Unmarshal(got.out["row"], &row)
	if row.V != `{"a":"'\\\\\\t;","n":"1.5","text":"SELECT {a:String}, {n:Float64}, {x:Nullable(String)}, ':a'","x":"\\N"}` {
		t.Errorf("%s %+v", row.V, got)
	}
}

// works tests a connection like `skein connection test`.
func works(t *testing.T, s server, want string) {
	t.Helper()
	c, err := connection.ParseResolved([]byte(s.connection))
	if err != nil {
		t.Fatal(err)
	}
	found, err := c.Test(t.Context(), &connection.Means{Dial: new(net.Dialer).DialContext,
		Transport: func() (http.RoundTripper, error) { return http.DefaultTransport, nil }})
	if err != nil || !strings.Contains(found, want) {
		t.Errorf("%q, %v", found, err)
	}
}
