package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	_ "embed"
)

//go:embed raw.sql
var rawSQL string

// Limits is what the disk and the database can do at best.
type Limits struct {
	FdatasyncP50 float64 // microseconds
	RawRowsPerS  float64
}

// Measure finds the limits in a folder.
func Measure(ctx context.Context, dir string) (Limits, error) {
	sync, err := fdatasyncs(filepath.Join(dir, "fdatasync"))
	if err != nil {
		return Limits{}, err
	}
	rows, err := rawRows(ctx, filepath.Join(dir, "raw.db"))
	return Limits{FdatasyncP50: sync, RawRowsPerS: rows}, err
}

// Complete fills in what a result is compared with. The limit is always that of one insert and one update
// per task and per run, whatever the product writes.
func (l Limits) Complete(r Result) Result {
	r.FdatasyncP50, r.RawRowsPerS = l.FdatasyncP50, l.RawRowsPerS
	rowsAtLeast := 2 * float64(r.Tasks+r.Runs) / float64(r.Tasks)
	r.LimitPerS = l.RawRowsPerS / rowsAtLeast
	r.Ratio = r.TasksPerS / r.LimitPerS
	return r
}

const (
	syncSamples = 400
	syncBytes   = 8 << 10
	syncBlocks  = 1024 // of the preallocated file: no sample changes its size
)

// fdatasyncs is the median time of writing and syncing 8 KiB into a preallocated file.
func fdatasyncs(path string) (float64, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return 0, fmt.Errorf("bench: %w", err)
	}
	defer os.Remove(path)
	defer file.Close()
	block := make([]byte, syncBytes)
	for range syncBlocks { // written, not only reserved: the first write of a reserved block changes metadata
		if _, err := file.Write(block); err != nil {
			return 0, fmt.Errorf("bench: %w", err)
		}
	}
	if err := file.Sync(); err != nil {
		return 0, fmt.Errorf("bench: %w", err)
	}
	samples := make([]time.Duration, syncSamples)
	for i := range samples {
		began := time.Now()
		if _, err := file.WriteAt(block, int64(i%syncBlocks)*syncBytes); err != nil {
			return 0, fmt.Errorf("bench: %w", err)
		}
		if err := unix.Fdatasync(int(file.Fd())); err != nil {
			return 0, fmt.Errorf("bench: fdatasync: %w", err)
		}
		samples[i] = time.Since(began)
	}
	return percentile(samples, 50), nil
}

const (
	rawRowsPerTx = 4000 // the largest transaction of the product
	rawTxs       = 100
	rawCopyEvery = 10 // transactions between two checkpoints: 40,000 rows, as in the product
)

// rawRows is how many rows per second the database writes when nothing but rows is written: half inserts,
// half updates of the rows of the transaction before, half of them runs and half attempts, in the width of
// the product's, tables by integer key, no other index, the product's pragmas.
func rawRows(ctx context.Context, path string) (float64, error) {
	defer func() {
		for _, suffix := range []string{"", "-wal", "-shm"} {
			_ = os.Remove(path + suffix)
		}
	}()
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite|sqlite.OpenCreate)
	if err != nil {
		return 0, fmt.Errorf("bench: %w", err)
	}
	defer conn.Close()
	for _, pragma := range []string{"journal_mode = WAL", "synchronous = FULL", "cache_size = -65536",
		"wal_autocheckpoint = 0", "temp_store = MEMORY"} {
		if err := sqlitex.ExecuteTransient(conn, "PRAGMA "+pragma, nil); err != nil {
			return 0, fmt.Errorf("bench: %w", err)
		}
	}
	if err := sqlitex.ExecuteScript(conn, rawSQL, nil); err != nil {
		return 0, fmt.Errorf("bench: %w", err)
	}
	raw := &rawWriter{conn: conn}
	if err := raw.prepare(); err != nil {
		return 0, fmt.Errorf("bench: %w", err)
	}
	copier, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		return 0, fmt.Errorf("bench: %w", err)
	}
	defer copier.Close()
	var copies sync.WaitGroup // on a connection and a core of its own, as in the product
	defer copies.Wait()
	if err := raw.transaction(); err != nil { // the first has nothing to update and does not count
		return 0, fmt.Errorf("bench: %w", err)
	}
	began := time.Now()
	for i := range rawTxs {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if err := raw.transaction(); err != nil {
			return 0, fmt.Errorf("bench: %w", err)
		}
		if i%rawCopyEvery == rawCopyEvery-1 {
			copies.Wait()
			copies.Go(func() { _ = sqlitex.ExecuteTransient(copier, "PRAGMA wal_checkpoint(PASSIVE)", nil) })
		}
	}
	return rawRowsPerTx * rawTxs / time.Since(began).Seconds(), nil
}
