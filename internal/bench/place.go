package bench

import (
	"context"
	"path/filepath"

	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/sqlite"
)

// Place is the location of a benchmark's database. Close removes everything that it has made.
type Place interface {
	// Engine returns the name of the engine in results.
	Engine() string
	// Database returns the location in the form of the setting db.
	Database() string
	// Open opens the database, which is empty at the first time.
	Open(ctx context.Context) (store.Store, error)
	// rawRows returns the number of rows per second that the database writes without other work, over a number of
	// transactions.
	rawRows(ctx context.Context, txs int) (float64, error)
	Close() error
}

// InFolder returns an SQLite file in a folder. The caller removes the folder.
func InFolder(dir string) Place { return folder{dir} }

type folder struct{ dir string }

func (f folder) Engine() string   { return "sqlite" }
func (f folder) Database() string { return "sqlite:" + f.path() }
func (f folder) path() string     { return filepath.Join(f.dir, "bench.db") }
func (f folder) Close() error     { return nil }

func (f folder) Open(context.Context) (store.Store, error) {
	db, err := sqlite.Open(f.path())
	if err != nil {
		return nil, err
	}
	return db, nil
}

func (f folder) rawRows(ctx context.Context, txs int) (float64, error) {
	return rawSQLite(ctx, filepath.Join(f.dir, "raw.db"), txs)
}
