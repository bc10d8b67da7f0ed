package postgres_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"skein.dev/skein/internal/store/postgres"
)

// TestPoolerByTransaction: a pooler that shares sessions between clients is refused at once with an error
// that names it, and Open does not wait.
func TestPoolerByTransaction(t *testing.T) {
	url := server.Pooler(t, "transaction")
	for range 3 { // the second client finds statements that the first one has prepared
		db, err := postgres.Open(t.Context(), postgres.Options{URL: url, Schema: newSchema(), Patience: time.Hour})
		if err == nil {
			_ = db.Close()
			t.Fatal("a pooler in transaction mode was accepted")
		}
		if !strings.Contains(err.Error(), "pool_mode = session") || postgres.Passes(err) {
			t.Errorf("the error names no remedy, or passes: %v", err)
		}
	}
}

// TestPoolerBySession: a store works behind a pooler in session mode, and reports that there is a pooler.
func TestPoolerBySession(t *testing.T) {
	db := open(t, postgres.Options{URL: server.Pooler(t, "session"), Schema: newSchema()})
	f, err := db.Facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !f.Pooler {
		t.Error("the pooler was not found")
	}
	direct := open(t, postgres.Options{URL: server.URL("postgres"), Schema: newSchema()})
	if f, err = direct.Facts(t.Context()); err != nil || f.Pooler {
		t.Errorf("a pooler was found where none is: %+v, %v", f, err)
	}
}

// TestFacts: doctor shows the real values of a server.
func TestFacts(t *testing.T) {
	db := open(t, postgres.Options{URL: server.URL("postgres"), Schema: newSchema()})
	other, err := pgx.Connect(t.Context(), server.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close(context.Background())
	var version string
	if err := other.QueryRow(t.Context(), "SHOW server_version").Scan(&version); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{"BEGIN", "SELECT pg_sleep(0.05)"} {
		if _, err := other.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	f, err := db.Facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if f.Version != version || version == "" {
		t.Errorf("version %q, the server says %q", f.Version, version)
	}
	if f.OldestTransaction < 50*time.Millisecond {
		t.Errorf("a transaction has been open for 50 ms, the oldest one for %v", f.OldestTransaction)
	}
	if f.Fsync || f.Recovering || !f.Autovacuum || f.SynchronousCommit != "on" || f.Standbys != 0 {
		t.Errorf("settings of the test's server: %+v", f)
	}
	if f.Connections < 1 || f.Connections >= f.ConnectionsMax || f.ConnectionsMax != 57 {
		t.Errorf("%d of %d connections, want some of 57", f.Connections, f.ConnectionsMax)
	}
	if f.Ahead.Abs() > time.Minute {
		t.Errorf("one machine's clock is %v ahead of itself", f.Ahead)
	}
}
