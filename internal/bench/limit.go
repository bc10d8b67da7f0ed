package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Limits are the best figures of the disk and the database.
type Limits struct {
	FdatasyncP50 float64 // microseconds
	RawRowsPerS  float64
}

// Measure finds the limits of the disk under a folder, and of the database at a location.
func Measure(ctx context.Context, dir string, at Place) (Limits, error) {
	sync, err := fdatasyncs(filepath.Join(dir, "fdatasync"))
	if err != nil {
		return Limits{}, err
	}
	rows, err := at.rawRows(ctx, rawTxs)
	return Limits{FdatasyncP50: sync, RawRowsPerS: rows}, err
}

// Complete fills in the figures with which a result is compared. The limit is always that of one insert and
// one update per task and per run, whatever the product writes.
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
	syncBlocks  = 1024 // the size of the preallocated file, which no sample changes
)

// fdatasyncs returns the median time of writing and syncing 8 KiB into a preallocated file.
func fdatasyncs(path string) (float64, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return 0, fmt.Errorf("bench: %w", err)
	}
	defer os.Remove(path)
	defer file.Close()
	block := make([]byte, syncBytes)
	// The blocks are written and not only reserved, because the first write of a reserved block changes
	// metadata.
	for range syncBlocks {
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
		if err := datasync(file); err != nil {
			return 0, fmt.Errorf("bench: fdatasync: %w", err)
		}
		samples[i] = time.Since(began)
	}
	return percentile(samples, 50), nil
}

const (
	rawRowsPerTx = 4000 // the largest transaction of the product
	rawTxs       = 100  // transactions of each writer
)

// rawWriter writes transactions of rawRowsPerTx rows. Half of the rows are inserts, and half are updates of
// the rows of the previous transaction; the first transaction has no updates. Half of the rows are runs and
// half are attempts, as wide as those of the product. The tables have an integer key and no other index.
type rawWriter interface {
	transaction(ctx context.Context) error
}

// rate returns the rows per second of several concurrent writers. Each of them writes txs transactions.
func rate(ctx context.Context, writers []rawWriter, txs int) (float64, error) {
	for _, w := range writers {
		if err := w.transaction(ctx); err != nil { // the first transaction is not measured
			return 0, fmt.Errorf("bench: %w", err)
		}
	}
	errs := make([]error, len(writers))
	var wg sync.WaitGroup
	began := time.Now()
	for i, w := range writers {
		wg.Go(func() {
			for k := 0; k < txs && errs[i] == nil; k++ {
				if errs[i] = ctx.Err(); errs[i] == nil {
					errs[i] = w.transaction(ctx)
				}
			}
		})
	}
	wg.Wait()
	seconds := time.Since(began).Seconds()
	if err := errors.Join(errs...); err != nil {
		return 0, fmt.Errorf("bench: %w", err)
	}
	return float64(rawRowsPerTx*txs*len(writers)) / seconds, nil
}
