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

// schemas numbers the schemas of this binary's tests.
var schemas atomic.Int64

func newSchema() string { return "test_" + itoa(schemas.Add(1)) }

func itoa(n int64) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + itoa(n%10)
}

func TestConformance(t *testing.T) {
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
	storetest.Run(t, storetest.Engine{
		Open: func(t *testing.T) store.Store {
			return open(t, postgres.Options{URL: server.URL("postgres"), Schema: newSchema(), Shards: 3})
		},
		Reopen: func(t *testing.T, s store.Store) store.Store {
			o, _ := opened.Load(s)
			return open(t, o.(postgres.Options))
		},
	})
}
