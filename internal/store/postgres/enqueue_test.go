package postgres_test

import (
	"context"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/postgres"
)

// TestEnqueuedKeyReadsOneRun calls skein_enqueue with a known key. The statistics are from a time when the
// workflow had one run, and another workflow had many runs with long keys. So the index of workflows seems
// cheaper to the planner than the index of keys. The call must not read the other runs of its workflow.
func TestEnqueuedKeyReadsOneRun(t *testing.T) {
	const others = 300
	ctx, schema := t.Context(), newSchema()
	open(t, postgres.Options{URL: server.URL("postgres"), Schema: schema, Shards: 1})
	c, err := pgx.Connect(ctx, server.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }()
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := c.Exec(ctx, sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec("SET search_path = " + schema)
	exec("ALTER TABLE run SET (autovacuum_enabled = off)")
	exec(`INSERT INTO workflow (id, revision, created, modified, shard, version, latest, max_runs, namespace, name, state)
	  SELECT i, 1, 1, 1, 0, 1, 1, 0, 'default', 'w' || i, 'active' FROM generate_series(1, 2) i`)
	exec(`INSERT INTO version (workflow, created, version, username, digest, source, def, graph)
	  SELECT i, 1, 1, '', '', '', '{}', '' FROM generate_series(1, 2) i`)
	exec("SELECT skein_enqueue('w2', key => repeat('k', 240) || i) FROM generate_series(1, 4000) i")
	enqueue := func(key string) (id string) {
		t.Helper()
		if err := c.QueryRow(ctx, "SELECT skein_enqueue('w1', key => $1)::text", key).Scan(&id); err != nil {
			t.Fatal(err)
		}
		return id
	}
	enqueue("first")
	exec("ANALYZE run")
	exec("SELECT skein_enqueue('w1') FROM generate_series(1, $1::int)", others)
	last := enqueue("last")
	read := func() (n int) {
		t.Helper()
		if err := c.QueryRow(ctx, "SELECT seq_tup_read + coalesce(idx_tup_fetch, 0) FROM pg_stat_xact_user_tables WHERE relid = 'run'::regclass").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	exec("BEGIN")
	before := read()
	if again := enqueue("last"); again != last {
		t.Errorf("run %s of the key, want %s", again, last)
	}
	if n := read() - before; n > 10 {
		t.Errorf("a call with a known key read %d of the workflow's %d runs", n, others)
	}
	exec("COMMIT")
}

// TestEnqueuedTags: a run that skein_enqueue starts has the tags of its workflow, with and without a trace
// context. While a program may run that does not know tags, the run has none.
func TestEnqueuedTags(t *testing.T) {
	const tags, trace = "order=17\nwhere=Zürich", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	ctx, schema := t.Context(), newSchema()
	db := open(t, postgres.Options{URL: server.URL("postgres"), Schema: schema, Shards: 1})
	c, err := pgx.Connect(ctx, server.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }()
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := c.Exec(ctx, sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec("SET search_path = " + schema)
	exec(`INSERT INTO workflow (id, revision, created, modified, shard, version, latest, max_runs, namespace, name, state, tags)
	  SELECT i, 1, 1, 1, 0, 1, 1, 0, 'default', 'w' || i, 'active', CASE i WHEN 1 THEN $1::text ELSE '' END FROM generate_series(1, 2) i`, tags)
	exec(`INSERT INTO version (workflow, created, version, username, digest, source, def, graph)
	  SELECT i, 1, 1, '', '', '', '{}', '' FROM generate_series(1, 2) i`)
	check := func(workflow, wantTags, wantTrace string) {
		t.Helper()
		var text string
		if err := c.QueryRow(ctx, "SELECT skein_enqueue($1)::text", workflow).Scan(&text); err != nil {
			t.Fatal(err)
		}
		id, err := dag.ParseRunID(text)
		if err != nil {
			t.Fatal(err)
		}
		r, err := db.Run(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		if string(r.Tags()) != wantTags || r.Trace() != wantTrace {
			t.Errorf("the run of %s has tags %q and trace %q", workflow, r.Tags(), r.Trace())
		}
		page, err := db.Runs(ctx, store.RunQuery{Tags: "order=17"})
		if err != nil || slices.ContainsFunc(page.Runs, func(r dag.RunRow) bool { return r.ID == id }) != (wantTags != "") {
			t.Errorf("the runs of the tag: %v, %v", page.Runs, err)
		}
	}
	check("w1", tags, "")
	check("w2", "", "")
	exec("SELECT set_config('skein.traceparent', $1, false)", trace)
	check("w1", tags, trace)
	check("w2", "", trace)
	exec("UPDATE meta SET format = 42")
	check("w1", "", trace)
}
