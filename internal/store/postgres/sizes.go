package postgres

import (
	"context"
	"sync/atomic"
)

// Connections counts the connections of a DB.
type Connections struct {
	Waiting int64 // calls that wait for one now
	Failed  int64 // connections that failed; each is replaced when the next call needs it
}

// load counts the waiting and the failed calls of a pool.
type load struct{ waiting, failed atomic.Int64 }

// ConnectionsOf returns the counts of a DB.
func ConnectionsOf(d *DB) (c Connections) {
	for _, p := range []*pool{d.writers, d.readers, d.logs} {
		c.Waiting += p.load.waiting.Load()
		c.Failed += p.load.failed.Load()
	}
	return c
}

// Sizes returns the bytes of each table with its indexes.
func Sizes(ctx context.Context, d *DB) (map[string]int64, error) {
	all := map[string]int64{}
	err := d.query(ctx, "sizes", nil, func(r *row) error {
		table := r.text()
		all[table] = r.int()
		return r.damaged("the size of table %s", table)
	})
	return all, err
}
