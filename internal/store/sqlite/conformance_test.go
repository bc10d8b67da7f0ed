package sqlite_test

import (
	"context"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/sqlite"
	"skein.dev/skein/internal/store/storetest"
)

func TestConformance(t *testing.T) { conform(t, func(db *sqlite.DB) store.Store { return db }) }

// TestConformanceAhead runs the suite with all transactions written ahead.
func TestConformanceAhead(t *testing.T) {
	conform(t, func(db *sqlite.DB) store.Store { return &eager{DB: db} })
}

// eager is a store whose owner writes every transaction ahead of its commit.
type eager struct {
	*sqlite.DB
	staged atomic.Pointer[store.Batch]
}

func (e *eager) Stage(b *store.Batch) {
	e.staged.Store(b)
	e.StageNow(b)
}

func (e *eager) Commit(ctx context.Context, b *store.Batch) (dag.Micros, error) {
	if e.staged.Swap(nil) != b && len(b.Fences) > 0 {
		e.StageNow(b)
	}
	return e.DB.Commit(ctx, b)
}

func conform(t *testing.T, as func(*sqlite.DB) store.Store) {
	var paths sync.Map // the paths of open stores
	open := func(t *testing.T, path string) store.Store {
		t.Helper()
		db, err := sqlite.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		s := as(db)
		paths.Store(s, path)
		return s
	}
	storetest.Run(t, storetest.Engine{
		Open: func(t *testing.T) store.Store { return open(t, filepath.Join(t.TempDir(), "skein.db")) },
		Reopen: func(t *testing.T, s store.Store) store.Store {
			path, _ := paths.Load(s)
			return open(t, path.(string))
		},
	})
}
