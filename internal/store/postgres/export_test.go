package postgres

import (
	"context"
	"fmt"
	"slices"

	"skein.dev/skein/internal/store"
)

// PrepareFolded prepares folded statements: the fence with each single part, and the fence with all parts.
func (d *DB) PrepareFolded(ctx context.Context) error {
	c, err := d.writers.take(ctx)
	if err != nil {
		return err
	}
	defer d.writers.give(c)
	var names []string
	for i := range foldable {
		names = append(names, fmt.Sprint(foldOne, 1|1<<i), fmt.Sprint(foldMany, 1|1<<i))
	}
	names = append(names, fmt.Sprint(foldOne, 1<<len(foldable)-1), fmt.Sprint(foldMany, 1<<len(foldable)-1))
	return c.prepare(ctx, names...)
}

// SetWaveMin sets the least number of runs of a wave, and returns the earlier number.
func SetWaveMin(n int) (was int) {
	was, waveMin = waveMin, n
	return was
}

// WrittenAhead waits until the part of a staged batch that can be written ahead is written, and reports
// whether there is such a part.
func (d *DB) WrittenAhead(b *store.Batch) bool {
	d.flights.mu.Lock()
	i := slices.IndexFunc(d.flights.all, func(f *flight) bool { return f.batch == b })
	f := d.flights.all[i]
	d.flights.mu.Unlock()
	if !f.ahead {
		return false
	}
	<-f.ready
	return f.x != nil
}

// BuildKey returns the advisory lock under which an index is built.
func BuildKey(schema string) int64 { return buildKey(schema) }

// Statement returns the text of a statement of the audit log.
func Statement(name string) string { return statements("audit")[name] }
