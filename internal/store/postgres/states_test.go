package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/postgres"
)

// noStates undoes the migrations from format 16 on.
const noStates = "DROP TABLE unsuccessful; ALTER TABLE meta DROP listed, DROP isolation; DROP TABLE fire_day; " +
	"ALTER TABLE workflow DROP tags; DROP INDEX request_created; DROP INDEX backfill_workflow; DROP INDEX workflow_deleted; DROP TRIGGER version_stocked ON version; DROP TRIGGER version_unstocked ON version; DROP TRIGGER file_stocked ON version_file; DROP TRIGGER file_unstocked ON version_file; DROP TRIGGER trigger_stocked ON trigger; DROP TRIGGER trigger_unstocked ON trigger; ALTER TABLE meta DROP stocked; " +
	"DROP TRIGGER session_ended ON session; DROP FUNCTION session_ended(), run_tags(bytea), run_kept(bytea), restock(), stock_version(), stock_file(), stock_trigger(), within_stock(text, int), within_tokens(text); DROP TABLE run_tag, trace_mark, shift, namespace_stock, tally, tally_mark, era, namespace, namespace_use, connection, git_source, sent_event, sent_head, alert_silence, alert_rules, member_lost, alert_channel, incident, notice, audit, audit_tree, secret, secret_key, identity, session, password, rights, principal, role, binding; " +
	"DROP INDEX token_name; CREATE UNIQUE INDEX token_name ON token (name) WHERE revoked = 0; " +
	"ALTER TABLE token DROP worker_groups, DROP worker_slots, DROP uses, DROP used, DROP invite, DROP parent, DROP replaces, DROP replaced, DROP principal, DROP maker, DROP verbs, DROP namespaces"

// TestOlderRunsAreListedByState: a database does not list its runs by state yet. Lists are right before,
// during and after the steps that list the runs, also if a run begins again meanwhile. If a row is being
// changed during a step, the next step lists it.
func TestOlderRunsAreListedByState(t *testing.T) {
	ctx, schema := t.Context(), newSchema()
	o := postgres.Options{URL: server.URL("postgres"), Schema: schema, Shards: 1}
	db, err := postgres.Open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	got, err := db.Acquire(ctx, 1, []dag.ShardID{0})
	if err != nil {
		t.Fatal(err)
	}
	const runs, every = 12_000, 1000
	b := store.Batch{Fences: []store.Fence{got[0].Fence}}
	for n := range runs {
		r := dag.RunRow{Header: dag.Header{ID: dag.RunID{0, 1, byte(n >> 8), byte(n)}, Workflow: 1, Version: 1, Origin: dag.OriginAPI, User: "ada", Created: 1},
			State: dag.RunSucceeded, Generation: 1, FinishedAt: 9}
		if n%every == 7 {
			r.State = dag.RunFailed
		}
		b.RunInserts = append(b.RunInserts, r)
	}
	commit := func() {
		t.Helper()
		if _, err := db.Commit(ctx, &b); err != nil {
			t.Fatal(err)
		}
		b.Fences[0].Seq++
		b.Reset()
	}
	commit()
	conn, err := pgx.Connect(ctx, server.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	exec := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	exec(fmt.Sprintf("SET search_path = %s; DELETE FROM unsuccessful WHERE run > (SELECT min(run::text) FROM unsuccessful)::uuid; UPDATE unsuccessful SET state = 'stopped'; UPDATE meta SET listed = 'ffffffff-ffff-ffff-ffff-ffffffffffff'", schema))
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if db, err = postgres.Open(ctx, o); err != nil {
		t.Fatal(err)
	}
	failed := func(want int) {
		t.Helper()
		for _, w := range []dag.WorkflowID{0, 1} {
			n, q := 0, store.RunQuery{States: []string{"failed"}, Workflow: w}
			for {
				page, err := db.Runs(ctx, q)
				if err != nil {
					t.Fatal(err)
				}
				if n, q.Before = n+len(page.Runs), page.Next; q.Before.IsZero() {
					break
				}
			}
			if n != want {
				t.Errorf("%d failed runs of workflow %d, want %d", n, w, want)
			}
		}
	}
	check := func() {
		t.Helper()
		if bad, err := db.Check(ctx); err != nil || len(bad) > 0 {
			t.Errorf("check: %v %v", bad, err)
		}
	}
	const all = runs / every
	failed(all)
	check()                                                // an older program has left rows of runs that have begun again
	if more, err := db.Upgrade(ctx); err != nil || !more { // the listing begins
		t.Errorf("the first step: %v %v", more, err)
	}
	check()
	exec("BEGIN; SELECT FROM run WHERE state = 'failed' ORDER BY id DESC LIMIT 1 FOR UPDATE")
	if _, err := db.Upgrade(ctx); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a step that meets a row that is being changed: %v", err)
	}
	exec("ROLLBACK")
	again := dag.RunRow{Header: dag.Header{ID: dag.RunID{0, 1, 0, 7}}, State: dag.RunRunning, Generation: 2}
	for step := 0; ; step++ {
		more, err := db.Upgrade(ctx)
		if err != nil {
			t.Fatal(err)
		}
		switch step {
		case 0:
			b.RunUpdates = []dag.RunUpdate{{RunRow: again, Was: dag.RunFailed}}
			commit()
			failed(all - 1)
		case 1:
			again.State, again.FinishedAt = dag.RunFailed, 10
			b.RunUpdates = []dag.RunUpdate{{RunRow: again, Was: dag.RunRunning}}
			commit()
			failed(all)
		}
		if !more {
			break
		}
	}
	failed(all)
	check()
	page, err := db.Runs(ctx, store.RunQuery{States: []string{"failed"}, Count: true, Limit: 1})
	if err != nil || page.Total != (store.Total{N: all, Exact: true}) || len(page.Runs) != 1 {
		t.Errorf("the list: %d runs, %+v, %v", len(page.Runs), page.Total, err)
	}
	if more, err := db.Upgrade(ctx); err != nil || more {
		t.Errorf("there is more: %v %v", more, err)
	}
}
