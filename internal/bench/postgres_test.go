package bench

import (
	"context"
	"errors"
	"strings"
	"testing"

	"skein.dev/skein/internal/store/postgres"
	"skein.dev/skein/internal/store/postgres/pgtest"
)

// TestPostgres checks that a PostgreSQL database gives the same JSON object, and that the database is
// unchanged afterwards.
func TestPostgres(t *testing.T) {
	server, err := pgtest.Start(pgtest.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	mine, err := postgres.Open(t.Context(), postgres.Options{URL: server.URL("postgres"), Schema: "mine", Shards: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer mine.Close()
	at, err := InSchema(t.Context(), server.URL("postgres")+"&schema=mine")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := at.rawRows(t.Context(), 3)
	if err != nil || raw <= 0 {
		t.Errorf("%v rows/s, %v", raw, err)
	}
	shape, err := ParseShape("dag9")
	if err != nil {
		t.Fatal(err)
	}
	r, err := load(t.Context(), Config{Shape: shape, Runs: 6, Workflows: 4, At: at})
	if err != nil || r.Store != "postgres" || r.Tasks != 54 || r.TasksPerS <= 0 || r.HopP50US <= 0 || r.RowsPerTask < 2 {
		t.Errorf("%+v, %v", r, err)
	}
	r, err = load(t.Context(), Config{Shape: shape, Runs: 6, Workflows: 4, Nodes: 2, At: at})
	if err != nil || r.Nodes != 2 || r.Tasks != 54 || r.HopP50US <= 0 {
		t.Errorf("%+v, %v", r, err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := load(gone, Config{Shape: shape, At: at}); err == nil || !errors.Is(err, context.Canceled) && !strings.Contains(err.Error(), "canceled") {
		t.Errorf("an interrupted one: %v", err)
	}
	if err := at.Close(); err != nil {
		t.Error(err)
	}
	if err := server.SQL("postgres", "DO $$ BEGIN ASSERT (SELECT count(*) = 0 FROM pg_namespace WHERE nspname LIKE 'skein_bench%'); END $$"); err != nil {
		t.Error(err)
	}
	if info, err := mine.Info(t.Context()); err != nil || info.Shards != 2 {
		t.Errorf("%+v, %v", info, err)
	}
}
