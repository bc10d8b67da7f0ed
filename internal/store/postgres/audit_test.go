package postgres_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/mod/sumdb/note"

	"skein.dev/skein/internal/audit"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/postgres"
	"skein.dev/skein/internal/store/storetest"
)

// auditPost is the keeper of one node, with connections and files of its own.
type auditPost struct {
	*audit.Keeper
	db   *postgres.DB
	file string
	key  note.Verifier
}

func newAuditPost(t *testing.T, schema string) *auditPost {
	t.Helper()
	p := &auditPost{file: filepath.Join(t.TempDir(), "checkpoints"), db: open(t, postgres.Options{URL: server.URL("postgres"), Schema: schema, Shards: 1})}
	path := filepath.Join(filepath.Dir(p.file), "key")
	signer, err := audit.Key(path)
	if err == nil {
		p.key, err = audit.PublicKey(path + audit.PublicSuffix)
	}
	if err != nil {
		t.Fatal(err)
	}
	p.Keeper, err = audit.NewKeeper(audit.Config{Store: p.db, Origin: audit.NewOrigin("c"), Signer: signer, File: audit.NewFile(p.file, p.key), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *auditPost) change(t *testing.T, n int) {
	t.Helper()
	for range n {
		if err := p.db.AddAudit(t.Context(), store.Audit{Key: uuid.New(), Count: 1, Action: "stop-run", Outcome: store.AuditDone}); err != nil {
			t.Error(err)
		}
	}
}

// proves compares all rows with the checkpoints of the nodes: the checkpoints prove a number of rows, and no
// row waits for its index.
func proves(t *testing.T, rows int64, posts ...*auditPost) {
	t.Helper()
	tree, err := posts[0].db.AuditTree(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var all []audit.Checkpoint
	for _, p := range posts {
		some, invalid, err := audit.Checkpoints(p.file, note.VerifierList(p.key))
		if err != nil || invalid > 0 {
			t.Fatal(invalid, err)
		}
		all = append(all, some...)
	}
	v := audit.NewVerifier(tree, all, 0, time.Now())
	leaves, err := posts[0].db.AuditLeaves(t.Context(), 0, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	for i := range leaves {
		if err := v.Row(&leaves[i]); err != nil {
			t.Fatal(err)
		}
	}
	fresh, err := posts[0].db.AuditFresh(t.Context(), 10)
	if got := v.Report(); err != nil || !got.Good() || got.Covered != rows || got.Size != rows || len(fresh) > 0 {
		t.Fatalf("%+v, %d rows wait, %v; want %d rows that are covered", got, len(fresh), err, rows)
	}
}

// TestAuditOfSeveralNodes: the keepers of three nodes assign indexes at the same time. Each row gets one
// index.
func TestAuditOfSeveralNodes(t *testing.T) {
	schema := newSchema()
	posts := []*auditPost{newAuditPost(t, schema), newAuditPost(t, schema), newAuditPost(t, schema)}
	var wg sync.WaitGroup
	for _, p := range posts {
		wg.Go(func() {
			for range 10 {
				p.change(t, 3)
				if err := p.Step(t.Context(), true); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for _, p := range posts {
		if err := p.Step(t.Context(), true); err != nil {
			t.Fatal(err)
		}
	}
	proves(t, 90, posts...)
	proves(t, 90, posts[2])
}

// TestAuditNodeDies: the database ends the session of a node in the middle of a step, after the tree has
// moved and before the rows have their indexes. No part of the step remains. Another node makes the step, and
// the first node continues when it has a session again.
func TestAuditNodeDies(t *testing.T) {
	schema := newSchema()
	a, b := newAuditPost(t, schema), newAuditPost(t, schema)
	a.change(t, 5)
	conn, err := pgx.Connect(t.Context(), server.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	exec := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec("SET search_path = " + schema + "; BEGIN; SELECT FROM audit WHERE id = (SELECT max(id) FROM audit) FOR UPDATE")
	ended := make(chan error, 1)
	go func() { ended <- a.Step(t.Context(), true) }()
	const blocked = "SELECT coalesce(min(pid), 0) FROM pg_stat_activity WHERE pg_backend_pid() = ANY (pg_blocking_pids(pid))"
	pid := 0
	for end := time.Now().Add(20 * time.Second); pid == 0; {
		if err := conn.QueryRow(t.Context(), blocked).Scan(&pid); err != nil || time.Now().After(end) {
			t.Fatalf("the step of a node waits for no row: %v", err)
		}
	}
	exec(fmt.Sprintf("SELECT pg_terminate_backend(%d)", pid))
	if err := <-ended; err == nil {
		t.Error("the step of a node whose session was ended has succeeded")
	}
	tree, err := b.db.AuditTree(t.Context())
	if err != nil || tree.Size != 0 {
		t.Errorf("a part of the step is left: %+v, %v", tree, err)
	}
	exec("COMMIT")
	for _, p := range []*auditPost{b, a} {
		if err := p.Step(t.Context(), true); err != nil {
			t.Fatal(err)
		}
	}
	proves(t, 5, a, b)
	b.change(t, 2)
	if err := a.Step(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	proves(t, 7, a)
}

// TestAuditListIsARange: the list of rows since an instant reads the index of times, and no older row.
func TestAuditListIsARange(t *testing.T) {
	schema := newSchema()
	p := newAuditPost(t, schema)
	conn, err := pgx.Connect(t.Context(), server.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), "SET search_path = "+schema+`; INSERT INTO audit
		SELECT n, -1, n, n, 1, 0, 0, gen_random_uuid(), NULL, 'ann', 'user', '', '', 'a', '', '', 'done', '', '' FROM generate_series(1, 20000) n; ANALYZE audit`); err != nil {
		t.Fatal(err)
	}
	rows, err := p.db.AuditList(t.Context(), store.AuditQuery{Since: 19_990, Principal: "nobody", Limit: 100})
	if err != nil || len(rows) > 0 {
		t.Fatalf("%+v, %v", rows, err)
	}
	if _, err := conn.Exec(t.Context(), "SET plan_cache_mode = force_generic_plan; PREPARE listed AS "+postgres.Statement("auditRows")); err != nil {
		t.Fatal(err)
	}
	plan, err := conn.Query(t.Context(), "EXPLAIN (ANALYZE, COSTS off, TIMING off) EXECUTE listed (9223372036854775807, 9223372036854775807, 19990, 'nobody', '', '*', 100)",
		pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for plan.Next() {
		var line string
		if err := plan.Scan(&line); err != nil {
			t.Fatal(err)
		}
		text += line + "\n"
	}
	if plan.Err() != nil || !strings.Contains(text, "audit_at") || !strings.Contains(text, "Rows Removed by Filter: 11") {
		t.Errorf("%v\n%s", plan.Err(), text)
	}
}

// TestAuditIndexIsBuilt upgrades a database that has audit rows: the migration builds no index of these rows,
// and Upgrade builds it. Lists are right before that, too.
func TestAuditIndexIsBuilt(t *testing.T) {
	schema := newSchema()
	p := newAuditPost(t, schema)
	p.change(t, 3)
	sql(t, "SET search_path = "+schema+"; DROP TRIGGER version_stocked ON version; DROP TRIGGER version_unstocked ON version; "+
		"DROP TRIGGER file_stocked ON version_file; DROP TRIGGER file_unstocked ON version_file; DROP TRIGGER trigger_stocked ON trigger; "+
		"DROP TRIGGER trigger_unstocked ON trigger; ALTER TABLE meta DROP stocked, DROP isolation; "+
		"DROP TRIGGER session_ended ON session; ALTER TABLE session DROP parent, DROP origin; DROP FUNCTION session_ended(), run_tags(bytea), run_kept(bytea), restock(), stock_version(), stock_file(), stock_trigger(), within_stock(text, int), within_tokens(text); "+
		"ALTER TABLE workflow DROP tags; DROP TABLE run_tag, trace_mark, git_source, sent_event, sent_head, shift, alert_rules, member_lost, namespace_stock, tally, tally_mark, era, namespace, namespace_use; DROP INDEX audit_at; "+
		"ALTER TABLE token DROP worker_groups, DROP worker_slots, DROP uses, DROP used, DROP invite; UPDATE meta SET format = 30, applied = 30")
	db := open(t, postgres.Options{URL: server.URL("postgres"), Schema: schema, Shards: 1})
	ready := func() string {
		t.Helper()
		out, err := server.Ask("postgres", "SELECT count(*) FROM pg_index WHERE indexrelid = to_regclass('"+schema+".audit_at') AND indisvalid")
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(out)
	}
	if is := ready(); is != "0" {
		t.Error("a migration builds the index of a table with rows")
	}
	if rows, err := db.AuditList(t.Context(), store.AuditQuery{Limit: 10}); err != nil || len(rows) != 3 {
		t.Errorf("%+v, %v", rows, err)
	}
	for more := true; more; {
		var err error
		if more, err = db.Upgrade(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if is := ready(); is != "1" {
		t.Error("the index is not built")
	}
}

// BenchmarkAuditedChange measures a change of a class without an audit row, a change with one, and the step
// that later gives the row its index.
func BenchmarkAuditedChange(b *testing.B) {
	db, err := postgres.Open(b.Context(), postgres.Options{URL: server.URL("postgres"), Schema: newSchema(), Shards: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	storetest.BenchAudited(b, db)
}
