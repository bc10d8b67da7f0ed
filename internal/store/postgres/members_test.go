package postgres_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/postgres"
	"skein.dev/skein/internal/store/postgres/pgtest"
)

// join makes a member.
func join(t *testing.T, db *postgres.DB, name string) dag.HandlerID {
	t.Helper()
	h, err := db.Register(context.Background(), uuid.NewString(), name)
	if err == nil {
		err = db.Join(context.Background(), store.Member{Handler: h.ID, UUID: h.UUID, Name: name, State: store.MemberActive})
	}
	if err != nil {
		t.Fatal(err)
	}
	return h.ID
}

// TestRise: only a node that does not know the next format delays it. Then the format rises, and a node
// that knows less is refused, even if it began before.
func TestRise(t *testing.T) {
	schema := newSchema()
	db := open(t, postgres.Options{URL: server.URL("postgres"), Schema: schema, Shards: 1})
	ctx := context.Background()
	info, err := db.Info(ctx)
	if err != nil || info.Format != info.Known {
		t.Fatalf("%+v %v", info, err)
	}
	sql(t, "UPDATE "+schema+".meta SET format = format - 1")
	member := func(name string, format int, worker bool) store.Member {
		h, err := db.Register(ctx, uuid.NewString(), name)
		if err != nil {
			t.Fatal(err)
		}
		return store.Member{Handler: h.ID, UUID: h.UUID, Name: name, State: store.MemberActive, Format: format, Worker: worker}
	}
	rises := func(want int) {
		t.Helper()
		if is, err := db.Rise(ctx); err != nil || is != want {
			t.Fatalf("format %d, %v; want %d", is, err, want)
		}
	}
	older, newer, worker := member("older", info.Known-1, false), member("newer", info.Known, false), member("worker", 1, true)
	for _, m := range []store.Member{older, newer, worker} {
		if err := db.Join(ctx, m); err != nil {
			t.Fatal(err)
		}
	}
	rises(info.Known - 1)
	// A program that knows more opens the database unchanged. A program that knows no more does so again.
	second := open(t, postgres.Options{URL: server.URL("postgres"), Schema: schema})
	if is, err := second.Info(ctx); err != nil || is.Format != info.Known-1 || is.Known != info.Known {
		t.Errorf("%+v %v", is, err)
	}
	// A node that joins while the format rises waits, and is refused.
	session := raw(t, schema)
	for _, s := range []string{"BEGIN", "SELECT format FROM meta FOR UPDATE", "DELETE FROM member WHERE name = 'older'", "UPDATE meta SET format = format + 1"} {
		session(s)
	}
	refused := make(chan error, 1)
	go func() { refused <- db.Join(ctx, older) }()
	session("COMMIT")
	is(t, <-refused, store.ErrFormat, "older knows up to")
	rises(info.Known)
	if err := db.Join(ctx, worker); err != nil {
		t.Error(err)
	}
}

func claim(t *testing.T, db *postgres.DB, h dag.HandlerID, shards ...dag.ShardID) []store.Acquired {
	t.Helper()
	got, err := db.Claim(context.Background(), h, shards)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func owner(t *testing.T, db *postgres.DB, shard dag.ShardID) dag.HandlerID {
	t.Helper()
	_, shards, err := db.Members(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return shards[shard].Owner
}

// raw opens another session in a schema, and returns a function that runs statements in it.
func raw(t *testing.T, schema string) func(sql string) {
	t.Helper()
	c, err := pgconn.Connect(context.Background(), server.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	do := func(sql string) {
		t.Helper()
		if _, err := c.Exec(context.Background(), sql).ReadAll(); err != nil {
			t.Fatal(err)
		}
	}
	do("SET search_path = " + schema)
	return do
}

// untilBlocked returns once a session of an application waits for a lock.
func untilBlocked(application string) {
	text := "SELECT 1/count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = '" + application + "'"
	for server.SQL("postgres", text) != nil { // division by zero: no session waits yet
	}
}

// TestClaimWaits: if another session has changed a shard and not committed yet, a claim waits for the commit,
// and uses the rows that this session wrote.
func TestClaimWaits(t *testing.T) {
	for _, c := range []struct {
		name  string
		write string // written while the claim waits
		want  int    // the number of shards that the claim then gets
	}{
		{"for a transaction of the owner of before", "UPDATE shard SET seq = seq + 1 WHERE id = 0", 2},
		{"and leaves alone what a member got meanwhile", "UPDATE shard SET owner = 1, epoch = epoch + 1 WHERE id = 0", 1},
		{"and leaves alone what went to one who joined meanwhile", `UPDATE shard SET owner = 77 WHERE id = 0;
			INSERT INTO member SELECT 77, 1, 1, 1, uuid, 0, 1, 0, 'late', '', '', 'active' FROM member LIMIT 1`, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			schema := newSchema()
			db := open(t, postgres.Options{URL: server.URL("postgres"), Schema: schema, Shards: 2, Application: schema})
			join(t, db, "first")
			h := join(t, db, "second")
			gone := join(t, db, "gone")
			claim(t, db, gone, 0, 1)
			if err := db.Leave(context.Background(), gone); err != nil {
				t.Fatal(err)
			}
			do := raw(t, schema)
			do("BEGIN; " + c.write)
			var got []store.Acquired
			var err error
			var wg sync.WaitGroup
			wg.Go(func() { got, err = db.Claim(context.Background(), h, []dag.ShardID{0, 1}) })
			untilBlocked(schema)
			do("COMMIT")
			wg.Wait()
			if err != nil || len(got) != c.want {
				t.Fatalf("claimed %+v, %v", got, err)
			}
			if c.want == 2 && (got[0].Seq != 1 || got[0].Epoch != 2) {
				t.Errorf("claimed %+v", got)
			}
		})
	}
}

// TestTakeOverFromFrozen: a node stops in the middle of sending a transaction. It is declared dead, and
// another node takes its shards. Afterwards it can write no row.
func TestTakeOverFromFrozen(t *testing.T) {
	p := newProxy(t, server.Addr())
	schema := newSchema()
	db := open(t, postgres.Options{URL: server.URL("postgres"), Schema: schema, Shards: 2, Application: schema})
	frozen := open(t, postgres.Options{URL: through(p.addr(), pgtest.Superuser, "postgres"), Schema: schema})
	l := &load{db: frozen, owner: join(t, db, "frozen")}
	for _, a := range claim(t, frozen, l.owner, 0, 1) {
		l.fences = append(l.fences, a.Fence)
	}
	if err := l.commit(l.batch(3)); err != nil {
		t.Fatal(err)
	}
	p.arm(hold)
	var wg sync.WaitGroup
	wg.Go(func() { is(t, l.commit(l.batch(3)), store.ErrUnknown, "") })
	inFlight := "SELECT 1/count(*) FROM pg_locks l JOIN pg_class c ON c.oid = l.relation JOIN pg_namespace n ON n.oid = c.relnamespace" +
		" WHERE n.nspname = '" + schema + "' AND c.relname = 'run' AND l.mode = 'RowExclusiveLock'"
	for server.SQL("postgres", inFlight) != nil { // division by zero: no session waits yet
	}
	next := join(t, db, "next")
	members, _, err := db.Members(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	won, err := db.Depose(context.Background(), l.owner, members[0].Beat)
	if err != nil || !won {
		t.Fatalf("deposed: %v, %v", won, err)
	}
	got := claim(t, db, next, 0, 1)
	if len(got) != 2 || got[0].Seq != l.fences[0].Seq {
		t.Errorf("took %+v, the frozen owner held %+v", got, l.fences)
	}
	wg.Wait()
	is(t, l.commit(l.batch(3)), store.ErrFenced, "a shard is not as its owner believes")
	if listed, err := frozen.Renew(context.Background(), store.Member{Handler: l.owner, State: store.MemberActive}); err != nil || listed {
		t.Errorf("the frozen node is listed: %v, %v", listed, err)
	}
}

// TestMemberInDoubt: the connection is lost while a change of members ends. Repeating the change is always
// right.
func TestMemberInDoubt(t *testing.T) {
	for _, c := range []struct {
		name    string
		mode    mode
		written bool
	}{{"the answer is lost", silent, true}, {"the end is lost", cut, false}} {
		t.Run(c.name, func(t *testing.T) {
			ctx := context.Background()
			p := newProxy(t, server.Addr())
			db := open(t, postgres.Options{URL: through(p.addr(), pgtest.Superuser, "postgres"), Schema: newSchema(), Shards: 1})
			warm := join(t, db, "warm") // prepared statements need no further round trip
			claim(t, db, warm, 0)
			if won, err := db.Depose(ctx, warm, beatOf(t, db, warm)); err != nil || !won {
				t.Fatalf("deposed: %v, %v", won, err)
			}
			h := join(t, db, "a")
			p.arm(c.mode)
			_, err := db.Claim(ctx, h, []dag.ShardID{0})
			is(t, err, store.ErrUnknown, "claim")
			if is := owner(t, db, 0); (is == h) != c.written {
				t.Errorf("the shard belongs to %d", is)
			}
			if got := claim(t, db, h, 0); len(got) != 1 {
				t.Errorf("claimed once more: %+v", got)
			}
			if won, err := db.Depose(ctx, h, 1); err != nil || won { // prepares the statement on the new connection
				t.Fatalf("deposed: %v, %v", won, err)
			}
			beat := beatOf(t, db, h)
			p.arm(c.mode)
			_, err = db.Depose(ctx, h, beat)
			is(t, err, store.ErrUnknown, "depose")
			if won, err := db.Depose(ctx, h, beat); err != nil || won == c.written {
				t.Errorf("deposed once more: %v, %v", won, err)
			}
			if is := owner(t, db, 0); is != 0 {
				t.Errorf("the shard belongs to %d", is)
			}
		})
	}
}

// beatOf returns the counter of a member, as other members see it.
func beatOf(t *testing.T, db *postgres.DB, h dag.HandlerID) int64 {
	t.Helper()
	members, _, err := db.Members(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for i := range members {
		if members[i].Handler == h {
			return members[i].Beat
		}
	}
	t.Fatalf("%d is no member", h)
	return 0
}

// TestMigrateFromFormat1: the new columns and lists are filled from the existing rows.
func TestMigrateFromFormat1(t *testing.T) {
	schema := newSchema()
	script, err := os.ReadFile("migrations/0001_init.sql")
	if err != nil {
		t.Fatal(err)
	}
	do := raw(t, schema)
	do("CREATE SCHEMA " + schema)
	do(string(script))
	do(`INSERT INTO meta VALUES (1, 1, gen_random_uuid(), 2, 5); INSERT INTO shard (id) VALUES (0), (1);
		INSERT INTO workflow SELECT n, 1, 1, 1, 1, 1, 1, 0, 'default', 'w' || n, CASE n WHEN 3 THEN 'deleted' ELSE 'active' END FROM generate_series(1, 3) n`)
	id := dag.RunID{1, 6: 0x70, 8: 0x80}
	do(fmt.Sprintf(`INSERT INTO run (id, shard, workflow, version, priority, origin, username, created, first_seq, first_at, state, intent,
		generation, cause, message, split, started, finished, leader, leader_at)
		VALUES ('%s', 1, 1, 1, 'medium', 'api', '', 5, 0, 0, 'submitted', 'run', 1, '', '', 0, 0, 0, 0, 0);
		INSERT INTO active (run, shard) VALUES ('%[1]s', 1)`, id))
	db := open(t, postgres.Options{URL: server.URL("postgres"), Schema: schema})
	if bad, err := db.Check(context.Background()); err != nil || len(bad) != 0 {
		t.Errorf("check: %q, %v", bad, err)
	}
	_, shards, err := db.Members(context.Background())
	if err != nil || shards[0].Workflows != 0 || shards[1].Workflows != 2 {
		t.Errorf("shards %+v, %v", shards, err)
	}
	found, err := db.Submitted(context.Background(), []dag.ShardID{0, 1}, 10)
	if err != nil || len(found) != 1 || found[0] != id {
		t.Errorf("submitted %v, %v", found, err)
	}
}

// TestCheckFindsWrongMembers: Check reports wrong counts of workflows, so it does not always succeed.
func TestCheckFindsWrongMembers(t *testing.T) {
	schema := newSchema()
	db := open(t, postgres.Options{URL: server.URL("postgres"), Schema: schema, Shards: 2})
	guest := &store.Batch{}
	guest.RunInserts = []dag.RunRow{{Header: dag.Header{ID: dag.RunID{1, 6: 0x70, 8: 0x80}, Workflow: 1}, Generation: 1}}
	if _, err := db.Commit(context.Background(), guest); err != nil {
		t.Fatal(err)
	}
	check := func(want int) {
		t.Helper()
		if bad, err := db.Check(context.Background()); err != nil || len(bad) != want {
			t.Errorf("check: %q, %v", bad, err)
		}
	}
	check(0)
	sql(t, "UPDATE "+schema+".submitted SET shard = 1")
	check(2)
	sql(t, "UPDATE "+schema+".submitted SET shard = 0; UPDATE "+schema+".shard SET workflows = 7 WHERE id = 1")
	check(1)
}
