package postgres_test

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/postgres"
	"skein.dev/skein/internal/store/postgres/pgtest"
	"skein.dev/skein/internal/store/storetest"
)

// server is shared by the tests of this binary that do not end it.
var server *pgtest.Server

func TestMain(m *testing.M) {
	os.Exit(pgtest.Main(m, &server, pgtest.Options{NoSync: true}))
}

// schemas counts the schemas that the tests of this binary have made.
var schemas atomic.Int64

func newSchema() string { return "test_" + itoa(schemas.Add(1)) }

func itoa(n int64) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + itoa(n%10)
}

func TestConformance(t *testing.T) { conformance(t, false) }

// TestConformanceOfWaves: every start of one run makes a wave. Groups of tests that write no run are left
// out.
func TestConformanceOfWaves(t *testing.T) {
	was := postgres.SetWaveMin(1)
	defer postgres.SetWaveMin(was)
	conformance(t, true)
}

func conformance(t *testing.T, runsOnly bool) {
	t.Helper()
	var opened sync.Map // options of open stores
	open := func(t *testing.T, o postgres.Options) store.Store {
		t.Helper()
		db, err := postgres.Open(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		opened.Store(db, o)
		return db
	}
	used := newShelf(t, 3)
	storetest.Run(t, storetest.Engine{
		RunsOnly: runsOnly,
		Open: func(t *testing.T) store.Store {
			schema := used.take(t)
			return open(t, postgres.Options{URL: server.URL("postgres"), Schema: schema, Shards: used.shards, Application: schema})
		},
		Reopen: func(t *testing.T, s store.Store) store.Store {
			o, _ := opened.Load(s)
			return open(t, o.(postgres.Options))
		},
	})
}

// shelf keeps schemas for the next check, because making a schema takes ten times as long as emptying it.
type shelf struct {
	shards int
	blank  string // the content of an unused schema
	free   []string
}

func newShelf(t *testing.T, shards int) *shelf {
	s := &shelf{shards: shards, blank: newSchema()}
	s.make(t, s.blank)
	return s
}

func (s *shelf) make(t *testing.T, schema string) {
	t.Helper()
	db, err := postgres.Open(context.Background(), postgres.Options{URL: server.URL("postgres"), Schema: schema, Shards: s.shards})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// take returns an empty schema for one test.
func (s *shelf) take(t *testing.T) string {
	t.Helper()
	if len(s.free) == 0 {
		schema := newSchema()
		s.make(t, schema)
		s.free = append(s.free, schema)
	} else {
		s.empty(t, s.free[len(s.free)-1])
	}
	schema := s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	t.Cleanup(func() { s.free = append(s.free, schema) })
	return schema
}

// empty sets the rows and sequences of a schema to those of an unused schema, once the sessions of its last
// user have ended.
func (s *shelf) empty(t *testing.T, schema string) {
	t.Helper()
	raw(t, schema)(`DO $$ DECLARE
		schema text := '` + schema + `';
		name text;
	BEGIN
		PERFORM pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = schema;
		SET LOCAL session_replication_role = replica; -- no triggers
		FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = schema LOOP
			EXECUTE format('DELETE FROM %I.%I', schema, name);
			EXECUTE format('INSERT INTO %I.%I OVERRIDING SYSTEM VALUE SELECT * FROM ` + s.blank + `.%I', schema, name, name);
		END LOOP;
		EXECUTE format('UPDATE %1$I.era SET made = %1$I.made_of(%2$L)', schema, schema || '.shard'); -- of this schema
		FOR name IN SELECT sequencename FROM pg_sequences WHERE schemaname = schema LOOP
			PERFORM setval(format('%I.%I', schema, name)::regclass, 1, false);
		END LOOP;
	END $$`)
}
