package postgres_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/postgres"
)

// TestMigrationHoldsUpNoNode upgrades a database of format 15 while another node has written to request in an
// open transaction and a vacuum of run is under way. The migration waits for neither. Upgrade builds the
// index afterwards, in place of one whose build has failed, and requests are deleted only with the index. It
// also counts the stocks of namespaces: rows that existed before, and rows that a node of an earlier version
// has written.
func TestMigrationHoldsUpNoNode(t *testing.T) {
	ctx, schema := t.Context(), newSchema()
	o := postgres.Options{URL: server.URL("postgres"), Schema: schema, Shards: 1}
	db, err := postgres.Open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	got, err := db.Acquire(ctx, 1, []dag.ShardID{0})
	if err != nil {
		t.Fatal(err)
	}
	b := store.Batch{Fences: []store.Fence{got[0].Fence}}
	for i := range 5 {
		b.Requests = append(b.Requests, store.Request{Scope: "s", Key: fmt.Sprint("k", i), Hash: []byte{1}, Answer: []byte{2}, Created: 100})
	}
	b.WorkflowInserts = []store.Workflow{{ID: 1, Namespace: "shop", Name: "w", State: store.WorkflowActive, Version: 1, Latest: 1}}
	b.Versions = []store.Version{{Workflow: 1, Version: 1, Source: []byte("source"), Def: []byte("def"), Graph: []byte("graph"), Files: []store.File{{Name: "f", Data: []byte("data")}}}}
	for i := range 3 {
		b.RunInserts = append(b.RunInserts, dag.RunRow{Header: dag.Header{ID: dag.RunID{0, 1, byte(i)}, Workflow: 1, Version: 1, Origin: dag.OriginAPI,
			User: "ada", Created: 1, Params: bytes.Repeat([]byte("x"), 1000*(i+1))}, State: dag.RunSucceeded, Generation: 1, FinishedAt: 9})
	}
	if _, err := db.Commit(ctx, &b); err != nil {
		t.Fatal(err)
	}
	if info, err := db.Info(ctx); err != nil || info.Isolation != store.IsolationNew {
		t.Errorf("the level of a new database is %q, %v", info.Isolation, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	conns := [2]*pgx.Conn{}
	for i := range conns {
		if conns[i], err = pgx.Connect(ctx, server.URL("postgres")); err != nil {
			t.Fatal(err)
		}
		defer conns[i].Close(context.Background())
		if _, err := conns[i].Exec(ctx, "SET search_path = "+schema); err != nil {
			t.Fatal(err)
		}
	}
	exec := func(conn int, sql string) {
		t.Helper()
		if _, err := conns[conn].Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(sql string) (n int) {
		t.Helper()
		if err := conns[0].QueryRow(ctx, sql).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	const built = "SELECT count(*) FROM pg_index WHERE indexrelid = to_regclass('request_created') AND indisvalid"
	const tuned = "SELECT count(*) FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND array_to_string(reloptions, ' ') LIKE '%autovacuum_vacuum_insert%'"
	indexIs := func(want postgres.IndexState) {
		t.Helper()
		if f, err := db.Facts(ctx); err != nil || f.RequestIndex != want {
			t.Errorf("the state of the index is %d, not %d: %v", f.RequestIndex, want, err)
		}
	}
	if n := ask(built); n != 1 {
		t.Error("a new database has no index of requests")
	}
	exec(0, noStates+"; ALTER TABLE meta DROP node_key; UPDATE meta SET format = 15, applied = 15")
	exec(1, "BEGIN; INSERT INTO request (created, scope, key, hash, answer) VALUES (200, 's', 'young', 'x', 'y'); LOCK TABLE run IN SHARE UPDATE EXCLUSIVE MODE")
	if db, err = postgres.Open(ctx, o); err != nil {
		t.Fatal("the migration waits for a transaction of another node:", err)
	}
	defer db.Close()
	if info, err := db.Info(ctx); err != nil || info.Isolation != "" {
		t.Errorf("the level after an upgrade is %q, %v", info.Isolation, err)
	}
	indexIs(postgres.IndexMissing)
	expire := func() int {
		t.Helper()
		n, err := db.ExpireRecords(ctx, 1, store.RecordExpiry{Requests: 150, RequestsKeep: 100, RecordsKeep: 100, Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	exec(0, "SET statement_timeout = 50")
	if _, err := conns[0].Exec(ctx, "CREATE INDEX CONCURRENTLY request_created ON request (created)"); err == nil {
		t.Fatal("an index was built beside an open transaction")
	}
	exec(0, "SET statement_timeout = 0")
	indexIs(postgres.IndexInvalid)
	if n := expire(); n != 0 || ask(built) != 0 {
		t.Errorf("%d requests were deleted without an index", n)
	}
	exec(1, "COMMIT")
	exec(0, "ALTER TABLE fire SET (autovacuum_enabled = off)")
	upgrade := func() {
		t.Helper()
		for steps := 0; ; steps++ {
			more, err := db.Upgrade(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if !more || steps > 100 {
				return
			}
		}
	}
	exec(1, fmt.Sprintf("SELECT pg_advisory_lock(%d)", postgres.BuildKey(schema)))
	upgrade()
	if ask(built) != 0 {
		t.Error("two nodes build the index at once")
	}
	exec(1, fmt.Sprintf("SELECT pg_advisory_unlock(%d)", postgres.BuildKey(schema)))
	upgrade()
	indexIs(postgres.IndexValid)
	if ask(built) != 1 || ask(tuned) != 4 {
		t.Errorf("after the upgrade: the index is built %d times, %d tables are set up", ask(built), ask(tuned))
	}
	for range 2 {
		want := []store.NamespaceStock{{Namespace: "shop", Versions: 1, Bytes: int64(len("source"+"def"+"graph"+"data")) + 2000 + 3000}}
		if all, err := db.NamespaceStocks(ctx, ""); err != nil || !slices.Equal(all, want) {
			t.Errorf("namespaces keep %+v, want %+v: %v", all, want, err)
		}
		exec(0, "SELECT restock()") // counting again adds nothing
	}
	if n := expire(); n != 5 || ask("SELECT count(*) FROM request") != 1 {
		t.Errorf("%d requests were deleted with the index", n)
	}
}

// TestImportListsStates: after an import, the list of states is complete, whatever part of it the empty
// database had.
func TestImportListsStates(t *testing.T) {
	ctx, schema := t.Context(), newSchema()
	db, err := postgres.Open(ctx, postgres.Options{URL: server.URL("postgres"), Schema: schema, Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	conn, err := pgx.Connect(ctx, server.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(ctx, "SET search_path = "+schema+"; UPDATE meta SET listed = 'ffffffff-ffff-ffff-ffff-ffffffffffff'"); err != nil {
		t.Fatal(err)
	}
	info, err := db.Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Import(ctx, func(to store.Rows) error {
		return to.Head(store.Head{Cluster: info.Cluster, Shards: make([]store.ShardHead, 1)})
	})
	if err != nil {
		t.Fatal(err)
	}
	complete := false
	if err := conn.QueryRow(ctx, "SELECT listed IS NULL FROM meta").Scan(&complete); err != nil || !complete {
		t.Errorf("the list of states is complete: %v, %v", complete, err)
	}
}
