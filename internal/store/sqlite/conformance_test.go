package sqlite_test

import (
	"path/filepath"
	"sync"
	"testing"

	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/sqlite"
	"skein.dev/skein/internal/store/storetest"
)

func TestConformance(t *testing.T) {
	var paths sync.Map // of open stores
	open := func(t *testing.T, path string) store.Store {
		t.Helper()
		db, err := sqlite.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		paths.Store(db, path)
		return db
	}
	storetest.Run(t, storetest.Engine{
		Open: func(t *testing.T) store.Store { return open(t, filepath.Join(t.TempDir(), "skein.db")) },
		Reopen: func(t *testing.T, s store.Store) store.Store {
			path, _ := paths.Load(s)
			return open(t, path.(string))
		},
	})
}
