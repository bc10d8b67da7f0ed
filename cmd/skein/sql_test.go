//go:build linux

package main

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"skein.dev/skein/internal/store/postgres/pgtest"
)

// TestSQL runs tasks that execute statements in a real database: with bound parameters, with rows as outputs,
// with a key that makes them take effect once, with a wrong password, and with a stop in the middle.
func TestSQL(t *testing.T) {
	t.Parallel()
	pg, err := pgtest.Start(pgtest.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pg.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := pg.SQL("postgres", `CREATE TABLE sale (day date, n int); GRANT ALL ON sale TO locked;
		CREATE TABLE skein_done (key text PRIMARY KEY, at timestamptz NOT NULL DEFAULT now(), result json); GRANT ALL ON skein_done TO locked`); err != nil {
		t.Fatal(err)
	}
	ask := func(query string) string {
		is, err := pg.Ask("postgres", query)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(is)
	}
	host, port, err := net.SplitHostPort(pg.Addr())
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	w.server()
	ok := func(o outcome) outcome {
		t.Helper()
		if o.code != exitOK {
			t.Fatal(o)
		}
		return o
	}
	secret := func(value string) {
		cmd := w.command("secret", "set", "WAREHOUSE")
		cmd.Stdin = strings.NewReader(value)
		ok(w.call(cmd))
	}
	secret("right!")
	if err := pg.SQL("postgres", `ALTER USER locked PASSWORD 'right!'`); err != nil {
		t.Fatal(err)
	}
	ok(w.skein("connection", "set", "warehouse", "postgres", "--host", host, "--port", port, "--user", pgtest.Locked, "--password-secret", "WAREHOUSE",
		"--database", "postgres", "--tls", "disable"))
	if o := ok(w.skein("connection", "test", "warehouse")); !strings.Contains(o.err, "user locked, database postgres") {
		t.Error(o)
	}
	file := w.write("sales.yaml", `name: sales
params: {day: {type: string, default: "2026-11-26"}}
tasks:
  load: {sql: {connection: warehouse, query: "INSERT INTO sale SELECT @day::date, g FROM generate_series(1, @n::int) AS g", params: {day: "${{ params.day }}", n: 3}, once: true}}
  check: {needs: load, sql: {connection: warehouse, query: "SELECT day, count(*) AS n FROM sale GROUP BY day", result: first}}
  all: {needs: load, sql: {connection: warehouse, query: "SELECT n FROM sale ORDER BY n", result: rows}}
  show: {needs: [load, check, all], run: 'echo "$A $N $D $R"', env: {A: "${{ tasks.load.outputs.rows_affected }}", N: "${{ tasks.check.outputs.row.n }}", D: "${{ tasks.check.outputs.row.day }}", R: "${{ tasks.all.outputs.rows[2].n }}"}}
`)
	ok(w.skein("run", file))
	if o := ok(w.skein("logs", "sales@latest/show")); strings.TrimSpace(o.out) != "3 3 2026-11-26 3" {
		t.Error(o)
	}
	if o := ok(w.skein("logs", "sales@latest/load")); !strings.Contains(o.out, "committed, 3 rows") || strings.Contains(o.out, "INSERT") {
		t.Error(o)
	}
	if is := ask("SELECT count(*) FROM skein_done"); is != "1" {
		t.Errorf("%s rows of once", is)
	}
	slow := w.write("slow.yaml", `name: slow
tasks: {wait: {sql: {connection: warehouse, query: "SELECT 1 FROM pg_sleep(600) AS slow_test"}, timeout: 1h}}
`)
	const active = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT 1 FROM pg_sleep(600)%' AND state = 'active'"
	ok(w.skein("run", slow, "--detach"))
	w.eventually("the statement runs", func() bool { return ask(active) == "1" })
	ok(w.skein("run", "stop", "slow@latest"))
	w.eventually("the statement has ended in the server", func() bool { return ask(active) == "0" })
	w.eventually("the run has stopped", func() bool {
		return strings.Contains(w.skein("run", "get", "slow@latest", "-o", "json").out, "stopped")
	})

	if err := pg.SQL("postgres", `CREATE TABLE late (v int); CREATE TABLE refused (v int); GRANT ALL ON late, refused TO locked;
		CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(600); RETURN NULL;
			EXCEPTION WHEN query_canceled THEN RETURN NULL; END $$;
		CREATE CONSTRAINT TRIGGER hold AFTER INSERT ON late DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION hold()`); err != nil {
		t.Fatal(err)
	}
	late := w.write("late.yaml", `name: late
tasks: {a: {sql: {connection: warehouse, query: "INSERT INTO late VALUES (1)"}, timeout: 3s, retry: {max: 2, delay: 1s}}}
`)
	if o := w.skein("run", late); o.code != exitOK || ask("SELECT count(*) FROM late") != "1" {
		t.Error("a timeout during the commit: ", o)
	}
	refused := w.write("refused.yaml", `name: refused
tasks: {a: {sql: {connection: warehouse, query: "INSERT INTO refused VALUES (1) RETURNING repeat('x', 65510) AS a", result: first}, retry: {max: 1, delay: 1s}}}
`)
	w.expectFailed(t, refused, "refused@latest/a", `"permanent"`, "larger than")
	if is := ask("SELECT count(*) FROM refused"); is != "0" {
		t.Errorf("%s effects of a refused result", is)
	}

	secret("wrong-password")
	w.expectFailed(t, file, "sales@latest/load", `"permanent"`, "password authentication failed")
	bad := w.write("bad.yaml", `name: bad
tasks: {a: {sql: {connection: none, query: "SELECT 1"}}}
`)
	w.expectFailed(t, bad, "bad@latest/a", `"connection"`, "skein connection set default/none")
	w.refused(exitInvalid, []string{"would paste values into it"}, "validate", w.write("paste.yaml", "name: paste\ntasks: {a: {sql: {connection: c, query: \"SELECT ${{ run.id }}\"}}}\n"))
	w.refused(exitInvalid, []string{"no parameter :x"}, "validate", w.write("param.yaml", "name: param\ntasks: {a: {sql: {connection: c, query: \"SELECT 1\", params: {x: 1}}}}\n"))
}

// expectFailed runs a file whose task must fail with a cause and a message.
func (w *world) expectFailed(t *testing.T, file, task string, says ...string) {
	t.Helper()
	if o := w.skein("run", file); o.code != exitRunFailed {
		t.Error(o)
	}
	o := w.skein("task", "get", task, "-o", "json")
	for _, part := range says {
		if !strings.Contains(o.out, part) {
			t.Error(fmt.Sprintf("no %q in: ", part), o)
		}
	}
}
