package postgres_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/postgres"
	"skein.dev/skein/internal/store/postgres/pgtest"
)

// stateOf returns the era of a database and its floor.
func stateOf(t *testing.T, db *postgres.DB) (era, floor dag.Era) {
	t.Helper()
	marks, err := db.Marks(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return store.EraOf(marks), store.FloorOf(marks)
}

// TestConnectionBeginsAnEra: a connection that belongs to another history than the present era begins an era
// before it writes. An owner of the earlier state is fenced, and nothing else happens.
func TestConnectionBeginsAnEra(t *testing.T) {
	for name, c := range map[string]struct {
		row string // the row that an earlier server has left
		era dag.Era
	}{
		"the same history":              {"timeline = timeline", 0},
		"the next timeline":             {"timeline = timeline - 1", 1},
		"a timeline whose last is lost": {"timeline = timeline - 2", 2},
		"a backup that was restored":    {"system = 'other', timeline = timeline - 7", 1},
		"a dump that was restored":      {"made = made + 1", 1},
		"a timeline that was not known": {"timeline = 0", 1},
		"a system that was not known":   {"system = ''", 0},
		"a copy of the database":        {"made = made + (1::bigint << 32)", 1},
	} {
		t.Run(name, func(t *testing.T) {
			schema := newSchema()
			db := open(t, postgres.Options{URL: server.URL("postgres"), Schema: schema, Shards: 4, Application: schema})
			l := newLoad(t, db, 0, 1, 2, 3)
			if err := l.commit(l.batch(5)); err != nil {
				t.Fatal(err)
			}
			before, err := db.Marks(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			// The rows of the earlier server come without a promotion, so its connections are ended by hand.
			sql(t, "UPDATE "+schema+".era SET "+c.row+"; SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = '"+schema+"'")
			const tries = 20 // more tries than the connections of a pool, each of which was ended
			_, err = db.Marks(t.Context())
			for i := 0; i < tries && errors.Is(err, store.ErrUnavailable); i++ {
				_, err = db.Marks(t.Context())
			}
			b := l.batch(5)
			err = l.commit(b)
			for i := 0; i < tries && (errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknown)); i++ {
				err = l.commit(b)
			}
			if fenced := errors.Is(err, store.ErrFenced); fenced != (c.era > 0) || !fenced && err != nil {
				t.Errorf("the owner of the earlier state commits: %v", err)
			}
			if era, floor := stateOf(t, db); era != c.era || floor != 0 {
				t.Errorf("the database is in era %d with floor %d, want %d with 0", era, floor, c.era)
			}
			if got := count(t, schema, "message"); got != 0 {
				t.Errorf("there are %d messages", got)
			}
			if c.era == 0 {
				return
			}
			if ended, err := db.EndOf(t.Context(), 0); err != nil || fmt.Sprint(ended) != fmt.Sprint(before) {
				t.Errorf("era 0 ended with the marks %v, %v, want %v", ended, err, before)
			}
			taken, err := db.Acquire(t.Context(), l.owner, []dag.ShardID{2})
			if err != nil || taken[0].Fence != (store.Fence{Shard: 2, Epoch: store.EpochOf(c.era, 0) + 1, Seq: before[2].Seq}) {
				t.Errorf("a shard of the new era: %+v, %v", taken, err)
			}
			another := open(t, postgres.Options{URL: server.URL("postgres"), Schema: schema})
			if _, err := another.Acquire(t.Context(), l.owner, []dag.ShardID{1}); err != nil {
				t.Error(err)
			}
			if era, _ := stateOf(t, db); era != c.era {
				t.Errorf("the next connection begins era %d", era)
			}
			floorOf(t, db, c.era)
		})
	}
}

// floorOf raises the floor of an era that began quietly, once, and then begins an era because of a loss.
func floorOf(t *testing.T, db *postgres.DB, era dag.Era) {
	t.Helper()
	for range 2 { // the second time, the floor is already there
		if is, err := db.Raise(t.Context(), era, era, []byte("lost")); err != nil || is != era {
			t.Errorf("the floor rises: era %d, %v", is, err)
		}
		if is, floor := stateOf(t, db); is != era || floor != era {
			t.Errorf("era %d has the floor %d", is, floor)
		}
	}
	if all, err := db.Messages(t.Context(), 0, 0); err != nil || len(all) != 1 {
		t.Errorf("%d messages to a shard, %v", len(all), err)
	}
	if is, err := db.Raise(t.Context(), era, era+1, nil); err != nil || is != era+1 {
		t.Errorf("era %d begins, %v", is, err)
	}
	if is, floor := stateOf(t, db); is != era+1 || floor != era+1 {
		t.Errorf("era %d has the floor %d", is, floor)
	}
}

// TestSettleTogether: after a failover, connections of several processes settle at the same time. Only one
// era begins.
func TestSettleTogether(t *testing.T) {
	schema := newSchema()
	db := open(t, postgres.Options{URL: server.URL("postgres"), Schema: schema, Shards: 4})
	sql(t, "UPDATE "+schema+".era SET timeline = timeline - 1")
	var all []*postgres.DB
	for range 4 {
		all = append(all, open(t, postgres.Options{URL: server.URL("postgres"), Schema: schema}))
	}
	var wg sync.WaitGroup
	for i, one := range all {
		wg.Go(func() {
			if _, err := one.Acquire(t.Context(), 1, []dag.ShardID{dag.ShardID(i)}); err != nil {
				t.Errorf("process %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	if era, floor := stateOf(t, db); era != 1 || floor != 0 {
		t.Errorf("the database is in era %d with floor %d", era, floor)
	}
	if got := count(t, schema, "era"); got != 1 { // the table still has no row for era 0
		t.Errorf("there are %d rows of eras", got)
	}
}

// TestDeathAfterAnEraBegan: a process dies after it has begun an era and before it takes shards. No owner of the
// earlier era writes, and the next process takes the shards without a further era.
func TestDeathAfterAnEraBegan(t *testing.T) {
	schema := newSchema()
	db := open(t, postgres.Options{URL: server.URL("postgres"), Schema: schema, Shards: 2})
	l := newLoad(t, db, 0, 1)
	sql(t, "UPDATE "+schema+".era SET timeline = timeline - 1")
	dies := open(t, postgres.Options{URL: server.URL("postgres"), Schema: schema})
	if _, err := dies.Register(t.Context(), "4cf1f1b1-97c1-4a3e-9a58-6a4b3c2d1e0f", "dies"); err != nil {
		t.Fatal(err)
	}
	if err := dies.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.commit(l.batch(3)); !errors.Is(err, store.ErrFenced) {
		t.Errorf("the owner of the earlier era commits: %v", err)
	}
	next := open(t, postgres.Options{URL: server.URL("postgres"), Schema: schema})
	got, err := next.Acquire(t.Context(), 1, []dag.ShardID{0})
	if err != nil || got[0].Epoch != store.EpochOf(1, 0)+1 {
		t.Errorf("the next process takes %+v, %v", got, err)
	}
}

// TestRowOfAnotherHistory: table era has a row of the next era or of a later one, which the epochs do not
// continue. The next era begins nevertheless, once.
func TestRowOfAnotherHistory(t *testing.T) {
	schema := newSchema()
	db := open(t, postgres.Options{URL: server.URL("postgres"), Schema: schema, Shards: 2})
	sql(t, fmt.Sprintf("INSERT INTO %[1]s.era SELECT timeline - 1, made, began, n, system, epochs, seqs FROM %[1]s.era, unnest('{1,9}'::int[]) n", schema))
	for range 2 {
		next := open(t, postgres.Options{URL: server.URL("postgres"), Schema: schema})
		if _, err := next.Acquire(t.Context(), 1, []dag.ShardID{0}); err != nil {
			t.Fatal(err)
		}
		if era, floor := stateOf(t, db); era != 1 || floor != 0 {
			t.Errorf("the database is in era %d with floor %d", era, floor)
		}
	}
}

// TestTakenTooOften: the count of takes is not carried into the floor of the era.
func TestTakenTooOften(t *testing.T) {
	schema := newSchema()
	db := open(t, postgres.Options{URL: server.URL("postgres"), Schema: schema, Shards: 1})
	sql(t, fmt.Sprintf("UPDATE %s.shard SET epoch = %d", schema, store.TakesOfEra-1))
	_, err := db.Acquire(t.Context(), 1, []dag.ShardID{0})
	is(t, err, store.ErrUnavailable, "run skein db recovered")
	if _, err := db.Raise(t.Context(), 0, 1, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Acquire(t.Context(), 1, []dag.ShardID{0}); err != nil {
		t.Error(err)
	}
}

// TestLastEra: a database that has had all of its eras takes no writes after a failover.
func TestLastEra(t *testing.T) {
	schema := newSchema()
	db := open(t, postgres.Options{URL: server.URL("postgres"), Schema: schema, Shards: 1})
	if _, err := db.Raise(t.Context(), 0, dag.EraMax, nil); err != nil {
		t.Fatal(err)
	}
	sql(t, "UPDATE "+schema+".era SET timeline = timeline - 1")
	next := open(t, postgres.Options{URL: server.URL("postgres"), Schema: schema})
	_, err := next.Acquire(t.Context(), 1, []dag.ShardID{0})
	is(t, err, store.ErrUnavailable, "era 2047 is the last")
}

// TestPromotedUnderAConnection: a connection to a standby takes no writes. After the promotion, the first
// write begins an era, also for a user that may not read the identifier of the server.
func TestPromotedUnderAConnection(t *testing.T) {
	t.Parallel()
	primary, err := pgtest.Start(pgtest.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer primary.Close()
	for _, s := range []string{"CREATE ROLE app LOGIN", "GRANT CREATE ON DATABASE postgres TO app",
		"REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC"} {
		if err := primary.SQL("postgres", s); err != nil {
			t.Fatal(err)
		}
	}
	url := func(s *pgtest.Server) string { return through(s.Addr(), "app", "postgres") }
	before := open(t, postgres.Options{URL: url(primary), Shards: 2})
	l := newLoad(t, before, 0, 1)
	if err := l.commit(l.batch(3)); err != nil {
		t.Fatal(err)
	}
	if out, err := primary.Ask("postgres", "SELECT system = '' AND timeline = 1 FROM skein.era"); err != nil || out != "t" {
		t.Errorf("a user without the right to read the identifier has written %q, %v", out, err)
	}
	standby, err := primary.Standby()
	if err != nil {
		t.Fatal(err)
	}
	defer standby.Close()
	after := open(t, postgres.Options{URL: url(standby)})
	b := l.batch(3)
	_, err = after.Commit(t.Context(), b)
	is(t, err, store.ErrUnavailable, "takes no writes")
	if err := primary.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := standby.Promote(); err != nil {
		t.Fatal(err)
	}
	_, err = after.Commit(t.Context(), b)
	is(t, err, store.ErrFenced, "")
	if era, floor := stateOf(t, after); era != 1 || floor != 0 {
		t.Errorf("the database is in era %d with floor %d", era, floor)
	}
	if out, err := standby.Ask("postgres", "SELECT string_agg(era || ':' || timeline, ' ' ORDER BY era) FROM skein.era"); err != nil || strings.TrimSpace(out) != "1:2" {
		t.Errorf("the eras and their timelines are %q, %v", out, err)
	}
}
