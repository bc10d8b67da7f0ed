//go:build linux

package sql

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"skein.dev/skein/internal/egress"
	"skein.dev/skein/internal/kind"
	"skein.dev/skein/internal/kind/sql/sqltest"
	"skein.dev/skein/internal/store/postgres/pgtest"
	"skein.dev/skein/sdk/shared/mask"
)

var pg *pgtest.Server

func TestMain(m *testing.M) {
	if input := os.Getenv(childVar); input != "" {
		os.Exit(child(input))
	}
	os.Exit(pgtest.Main(m, &pg, pgtest.Options{NoSync: true}))
}

// childVar is set in a process that executes an attempt. Its value is the input of the attempt.
const childVar = "SKEIN_SQL_TEST_CHILD"

// child executes an attempt in this process, and returns the exit code.
func child(input string) int {
	handleAfter = 0
	env := &kind.Env{Stdout: os.Stdout, Stderr: os.Stderr, Output: &bytes.Buffer{}, Dir: os.TempDir()}
	if err := json.Unmarshal([]byte(input), &env.Input); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return kind.Permanent
	}
	return Kind{}.Main(context.Background(), env)
}

// server is a database for the tests.
type server struct {
	name       string
	connection string // JSON, as in kind.Input
	ask        func(statement string) string
	done       string // statement that makes skein_done
}

func portOf(t *testing.T, addr string) int {
	t.Helper()
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func postgresServer(t *testing.T) server {
	return server{"postgres", fmt.Sprintf(`{"type":"postgres","host":"127.0.0.1","port":%d,"user":%q,"database":"postgres","tls":"disable"}`, portOf(t, pg.Addr()), pgtest.Superuser),
		func(statement string) string {
			is, err := pg.Ask("postgres", statement)
			if err != nil {
				t.Fatal(err)
			}
			return strings.TrimSpace(is)
		}, "CREATE TABLE IF NOT EXISTS skein_done (key text PRIMARY KEY, at timestamptz NOT NULL DEFAULT now(), result json)"}
}

func mariaServer(t *testing.T, s *sqltest.Server) server {
	t.Helper()
	return server{"mysql", fmt.Sprintf(`{"type":"mysql","host":"127.0.0.1","port":%d,"user":%q,"password":%q,"database":%q,"tls":"disable"}`, s.Port, sqltest.User, sqltest.Password, sqltest.Database),
		func(statement string) string { return s.MySQL(t, statement) }, strings.Replace(mysqlTable, "TABLE", "TABLE IF NOT EXISTS", 1)}
}

func sqliteServer(t *testing.T) server {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.db")
	s := server{name: "sqlite", connection: fmt.Sprintf(`{"type":"sqlite","path":%q,"create":true}`, path),
		done: "CREATE TABLE IF NOT EXISTS skein_done (key TEXT PRIMARY KEY, at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP, result TEXT)"}
	s.ask = func(statement string) string {
		got := attempt(t, s, With{Query: statement, Result: Result{Use: ResultRows}})
		if got.code != kind.Done {
			t.Fatal(got.log)
		}
		var rows []map[string]any
		if json.Unmarshal(got.out["rows"], &rows) != nil || len(rows) == 0 {
			return ""
		}
		for _, v := range rows[0] {
			return fmt.Sprint(v)
		}
		return ""
	}
	return s
}

// result is the outcome of an attempt.
type result struct {
	code int
	log  string
	out  map[string]json.RawMessage
}

// locked is a log that several goroutines may write.
type locked struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// option changes the input of an attempt.
type option func(*kind.Env)

func key(k string) option { return func(e *kind.Env) { e.Input.Key = k } }

func inputOf(t *testing.T, s server, w With) kind.Input {
	t.Helper()
	if w.Connection == "" {
		w.Connection = "warehouse"
	}
	with, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	rules, err := json.Marshal(egress.Rules{Policies: []string{egress.Any}})
	if err != nil {
		t.Fatal(err)
	}
	return kind.Input{Kind: "sql", With: with, Connection: json.RawMessage(s.connection), Egress: rules, Token: 3, Key: "run/task/0", Run: "run", Task: "task"}
}

func run(ctx context.Context, t *testing.T, s server, w With, options ...option) result {
	t.Helper()
	var out bytes.Buffer
	var log locked
	var r result
	env := &kind.Env{Input: inputOf(t, s, w), Output: &out, Stdout: &log, Stderr: &log, Dir: t.TempDir()}
	for _, o := range options {
		o(env)
	}
	r.code = Kind{}.Main(ctx, env)
	r.log, r.out = log.text.String(), map[string]json.RawMessage{}
	if r.code == kind.Done {
		d := json.NewDecoder(&out)
		for d.Decode(&r.out) == nil {
		}
	}
	if strings.Contains(r.log, sqltest.Password) {
		t.Errorf("the log has the password: %s", r.log)
	}
	return r
}

func attempt(t *testing.T, s server, w With, options ...option) result {
	t.Helper()
	return run(t.Context(), t, s, w, options...)
}

// params decodes parameters from JSON.
func params(t *testing.T, text string) map[string]json.RawMessage {
	t.Helper()
	var p map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// await waits until a condition holds. The test does not depend on the duration.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for began := time.Now(); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

func TestPostgres(t *testing.T) {
	s := postgresServer(t)
	suite(t, s)
	ends(t, s)
}

func TestMariaDB(t *testing.T) {
	maria := sqltest.MariaDB(t)
	s := mariaServer(t, maria)
	suite(t, s)
	ends(t, s)
	t.Run("transactions", func(t *testing.T) { mariaTransactions(t, s) })
	t.Run("no server", func(t *testing.T) { noServer(t, maria) })
}

func TestSQLite(t *testing.T) { suite(t, sqliteServer(t)) }

// suite checks what holds for all databases with transactions.
func suite(t *testing.T, s server) {
	s.ask("DROP TABLE IF EXISTS sale")
	s.ask("CREATE TABLE sale (day varchar(20), shop varchar(200), amount numeric(30,2), n int)")
	s.ask(s.done)
	t.Run("results", func(t *testing.T) { results(t, s) })
	t.Run("injection", func(t *testing.T) { injection(t, s) })
	t.Run("whole", func(t *testing.T) { whole(t, s) })
	t.Run("once", func(t *testing.T) { once(t, s) })
	t.Run("secrets", func(t *testing.T) { secrets(t, s) })
	t.Run("expect", func(t *testing.T) { expectations(t, s) })
	t.Run("refused", func(t *testing.T) { refused(t, s) })
	t.Run("conflicts", func(t *testing.T) { conflicts(t, s) })
	t.Run("million", func(t *testing.T) { million(t, s) })
}

func results(t *testing.T, s server) {
	s.ask("DELETE FROM sale")
	got := attempt(t, s, With{Query: "DELETE FROM sale; INSERT INTO sale VALUES (:day, :shop, 1.50, :n), (:day, NULL, 2, 2)", Params: params(t, `{"day":"2026-11-26","shop":"a:b \"c\"\n","n":7}`)})
	if got.code != kind.Done || string(got.out["rows_affected"]) != "2" {
		t.Fatalf("%+v", got)
	}
	const all = "SELECT shop, n, amount > 0 AS paid FROM sale ORDER BY n DESC"
	rows := `[{"shop":"a:b \"c\"\n","n":7,"paid":1},{"shop":null,"n":2,"paid":1}]`
	csv, lines := "shop,n,paid\n\"a:b \"\"c\"\"\n\",7,1\n,2,1\n", "{\"shop\":\"a:b \\\"c\\\"\\n\",\"n\":7,\"paid\":1}\n{\"shop\":null,\"n\":2,\"paid\":1}\n"
	if s.name == "postgres" {
		rows, lines = strings.ReplaceAll(rows, `"paid":1`, `"paid":true`), strings.ReplaceAll(lines, `"paid":1`, `"paid":true`)
		csv = strings.ReplaceAll(csv, ",1\n", ",true\n")
	}
	if got := attempt(t, s, With{Query: all, Result: Result{Use: ResultRows}}); string(got.out["rows"]) != rows || string(got.out["rows_affected"]) != "2" {
		t.Errorf("%+v", got)
	}
	if got := attempt(t, s, With{Query: all, Result: Result{Use: ResultFirst}}); string(got.out["row"]) != rows[1:strings.Index(rows, "},")+1] {
		t.Errorf("%s", got.out["row"])
	}
	if got := attempt(t, s, With{Query: "SELECT n FROM sale WHERE 1 = 0", Result: Result{Use: ResultFirst}}); string(got.out["row"]) != "null" {
		t.Errorf("%+v", got)
	}
	for kind, want := range map[string]string{ResultCSV: csv, ResultJSONL: lines} {
		dir := ""
		got := attempt(t, s, With{Query: all, Result: Result{kind, "out/all." + kind}}, func(e *kindEnv) { dir = e.Dir })
		raw, err := os.ReadFile(filepath.Join(dir, "out/all."+kind))
		if err != nil || string(raw) != want {
			t.Errorf("%+v %v\n%q, want\n%q", got, err, raw, want)
		}
		if left, _ := os.ReadDir(filepath.Join(dir, "out")); len(left) != 1 {
			t.Errorf("%v", left)
		}
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "load.sql"), []byte("SELECT :n + 1 AS n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := attempt(t, s, With{File: "load.sql", Params: params(t, `{"n":41}`), Result: Result{Use: ResultFirst}}, func(e *kindEnv) { e.Dir = dir }); string(got.out["row"]) != `{"n":42}` {
		t.Errorf("%+v", got)
	}
	if got := attempt(t, s, With{Query: "SELECT 1 AS a, 2 AS a", Result: Result{Use: ResultRows}}); got.code != kind.Permanent || !strings.Contains(got.log, "columns of the result") {
		t.Errorf("%+v", got)
	}
}

type kindEnv = kind.Env

// injection checks that values are never executed, wherever they are used.
func injection(t *testing.T, s server) {
	for _, evil := range []string{"'; DROP TABLE sale; --", `\'; DROP TABLE sale; -- `, "$$; DROP TABLE sale; $$", ":n", "?", "$1", "/*", "\\", "'", `"`, "`", "a\tb\\n", "\u2019", "*/ ; --"} {
		raw, err := json.Marshal(map[string]string{"v": evil})
		if err != nil {
			t.Fatal(err)
		}
		typed := map[string]string{"postgres": "CAST(:v AS text)"}[s.name]
		if typed == "" {
			typed = ":v"
		}
		got := attempt(t, s, With{Query: "SELECT " + typed + " AS v, '" + ":v" + "' AS w /* :v */ -- :v", Params: params(t, string(raw)), Result: Result{Use: ResultFirst}})
		var row map[string]string
		if err := json.Unmarshal(got.out["row"], &row); err != nil || row["v"] != evil || row["w"] != ":v" {
			t.Errorf("%q: %+v", evil, got)
		}
	}
}

// whole checks that all statements are one transaction, or that each is committed by itself.
func whole(t *testing.T, s server) {
	s.ask("DELETE FROM sale")
	const two = "INSERT INTO sale (n) VALUES (1); INSERT INTO sale (n) VALUES (2); INSERT INTO nowhere VALUES (3)"
	if got := attempt(t, s, With{Query: two}); got.code == kind.Done || !strings.Contains(got.log, "statement 3 of 3") {
		t.Errorf("%+v", got)
	}
	if is := s.ask("SELECT count(*) FROM sale"); is != "0" {
		t.Errorf("%s rows of a transaction that failed", is)
	}
	not := false
	if got := attempt(t, s, With{Query: two, Transaction: &not}); got.code == kind.Done || !strings.Contains(got.log, "the 2 earlier statements") {
		t.Errorf("%+v", got)
	}
	if is := s.ask("SELECT count(*) FROM sale"); is != "2" {
		t.Errorf("%s rows", is)
	}
	for _, ends := range []string{"COMMIT", "/* x */ rollback", "BEGIN", "INSERT INTO sale (n) VALUES (9); END"} {
		if got := attempt(t, s, With{Query: ends}); got.code != kind.Permanent || !strings.Contains(got.log, "transaction") {
			t.Errorf("%s: %+v", ends, got)
		}
	}
	if is := s.ask("SELECT count(*) FROM sale WHERE n = 9"); is != "0" {
		t.Errorf("%s rows", is)
	}
}

func once(t *testing.T, s server) {
	s.ask("DELETE FROM sale")
	w := With{Query: "INSERT INTO sale (n) VALUES (1); SELECT count(*) AS n FROM sale", Once: true, Result: Result{Use: ResultFirst}}
	for range 3 {
		if got := attempt(t, s, w); string(got.out["row"]) != `{"n":1}` {
			t.Errorf("%+v", got)
		}
	}
	if got := attempt(t, s, w); !strings.Contains(got.log, "attempt 3 has committed this already") {
		t.Errorf("%+v", got)
	}
	if got := attempt(t, s, w, key("run/task/1")); string(got.out["row"]) != `{"n":2}` {
		t.Errorf("%+v", got)
	}
	if got := attempt(t, s, With{Query: "INSERT INTO sale (n) VALUES (1); DELETE FROM skein_done", Once: true}, key("removed")); got.code != kind.Permanent || !strings.Contains(got.log, "removed its own row") {
		t.Errorf("%+v", got)
	}
	w.Expect = "rows_affected == 0"
	if got := attempt(t, s, w, key("run/task/2")); got.code != kind.Failed {
		t.Errorf("%+v", got)
	}
	if is := s.ask("SELECT count(*) FROM sale"); is != "2" {
		t.Errorf("%s effects", is)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if got := attempt(t, s, With{Query: "INSERT INTO sale (n) VALUES (5)", Once: true}, key("at once")); got.code != kind.Done {
				t.Errorf("%+v", got)
			}
		})
	}
	all.Wait()
	if is := s.ask("SELECT count(*) FROM sale WHERE n = 5"); is != "1" {
		t.Errorf("%s effects", is)
	}
}

// secrets checks that a result with a secret is refused before the commit, and that a message of the database
// never shows a part of one.
func secrets(t *testing.T, s server) {
	s.ask("DELETE FROM sale")
	const value = "of a parameter 4711"
	known := func(e *kind.Env) { e.Input.Secrets = []string{value} }
	w := With{Query: "INSERT INTO sale (n) VALUES (1); SELECT :p AS p", Params: params(t, `{"p":"`+value+`"}`), Result: Result{Use: ResultFirst}}
	if s.name == "postgres" {
		w.Query = "INSERT INTO sale (n) VALUES (1); SELECT :p::text AS p"
	}
	if got := attempt(t, s, w, known); got.code != kind.Permanent || !strings.Contains(got.log, "holds a secret") || strings.Contains(got.log, "4711") {
		t.Errorf("%+v", got)
	}
	if is := s.ask("SELECT count(*) FROM sale"); is != "0" {
		t.Errorf("%s effects", is)
	}
	if s.name != "postgres" {
		return
	}
	w = With{Query: "DO $$ BEGIN RAISE NOTICE '%', repeat('x', 285) || '" + value + "'; END $$"}
	if got := attempt(t, s, w, known); got.code != kind.Done || !strings.Contains(got.log, "xxx") || strings.Contains(got.log, "of a par") {
		t.Errorf("%+v", got)
	}
}

// TestShown checks that secrets are masked before a text is shortened.
func TestShown(t *testing.T) {
	var log bytes.Buffer
	const value = "secret value of a parameter"
	x := &task{env: &kind.Env{Stderr: &log}, hidden: mask.NewSet([]string{value})}
	x.say("%s%s", strings.Repeat("x", shownMax-10), value)
	if strings.Contains(log.String(), "secret") {
		t.Error(log.String())
	}
}

func expectations(t *testing.T, s server) {
	for text, holds := range map[string]bool{
		"rows_affected == 1": true, "row.n > 40 && columns == ['n']": true, "rows.all(r, r.n == 42)": true, "rows.size() == 1": true, "row.n < 40": false,
	} {
		got := attempt(t, s, With{Query: "SELECT 42 AS n", Expect: text})
		if holds != (got.code == kind.Done) || !holds && !strings.Contains(got.log, "is false") {
			t.Errorf("%s: %+v", text, got)
		}
	}
	for _, bad := range []string{"row.", "1 + 1", "tasks.a.state == 'x'"} {
		if got := attempt(t, s, With{Query: "SELECT 42 AS n", Expect: bad}); got.code != kind.Permanent {
			t.Errorf("%s: %+v", bad, got)
		}
	}
	if got := attempt(t, s, With{Query: "SELECT 42 AS n", Expect: "row.m > 1"}); got.code != kind.Failed {
		t.Errorf("%+v", got)
	}
}

// refused checks that a task that cannot work ends with the reason.
func refused(t *testing.T, s server) {
	not := false
	for _, c := range []struct {
		w    With
		code int
		says string
	}{
		{With{Query: "SELEKT 1"}, kind.Permanent, "connection warehouse: "},
		{With{Query: " -- nothing"}, kind.Permanent, "no statement"},
		{With{Query: "SELECT :a"}, kind.Permanent, "params has no a"},
		{With{File: "../x.sql"}, kind.Permanent, "not a path within"},
		{With{File: "none.sql"}, kind.Permanent, "none.sql"},
		{With{Query: "SELECT 1", Result: Result{ResultCSV, "/etc/x"}}, kind.Permanent, "not a path within"},
		{With{Query: "SELECT 1", Once: true, Transaction: &not}, kind.Permanent, "once works only in a transaction"},
		{With{Query: "SELECT 1", Once: true, Result: Result{ResultCSV, "x"}}, kind.Permanent, "once keeps"},
		{With{Query: "SELECT 1", Isolation: "chaos"}, kind.Permanent, "isolation"},
		{With{Query: "SELECT * FROM nowhere"}, kind.Failed, "nowhere"},
	} {
		if got := attempt(t, s, c.w); got.code != c.code || !strings.Contains(got.log, c.says) {
			t.Errorf("%+v: %d %s", c.w, got.code, got.log)
		}
	}
	if got := attempt(t, s, With{Query: "SELECT 1", Isolation: "serializable"}); got.code != kind.Done {
		t.Errorf("%+v", got)
	}
}

// conflicts checks that transactions that conflict with each other are repeated.
func conflicts(t *testing.T, s server) {
	s.ask("DROP TABLE IF EXISTS counter")
	s.ask("CREATE TABLE counter (id int, n int)")
	s.ask("INSERT INTO counter VALUES (1, 0), (2, 0)")
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			a, b := 1+i%2, 2-i%2
			w := With{Query: fmt.Sprintf("UPDATE counter SET n = n + 1 WHERE id = %d; UPDATE counter SET n = n + 1 WHERE id = %d", a, b), Isolation: "serializable"}
			if got := attempt(t, s, w); got.code != kind.Done {
				t.Errorf("%+v", got)
			}
		})
	}
	all.Wait()
	if is := s.ask("SELECT sum(n) AS n FROM counter"); is != "8" {
		t.Errorf("%s of 8", is)
	}
}

// numbered holds a statement that returns numbered rows, for each database.
var numbered = map[string]string{
	"postgres": "SELECT n, md5(n::text) AS text FROM generate_series(1, 100000) AS n",
	"mysql":    "SELECT seq AS n, md5(seq) AS text FROM seq_1_to_100000",
	"sqlite":   "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 100000) SELECT n, hex(n) AS text FROM c",
}

// million checks that rows are not collected in memory, and that a result that is too large for the outputs
// is refused.
func million(t *testing.T, s server) {
	dir := ""
	got := attempt(t, s, With{Query: numbered[s.name], Result: Result{ResultJSONL, "all.jsonl"}}, func(e *kindEnv) { dir = e.Dir })
	raw, err := os.ReadFile(filepath.Join(dir, "all.jsonl"))
	if n := bytes.Count(raw, []byte("\n")); err != nil || n != 100000 || string(got.out["rows_affected"]) != "100000" {
		t.Errorf("%d rows, %v, %+v", n, err, got)
	}
	if got := attempt(t, s, With{Query: numbered[s.name], Result: Result{Use: ResultRows}}); got.code != kind.Permanent || !strings.Contains(got.log, "larger than") {
		t.Errorf("%+v", got)
	}
}
