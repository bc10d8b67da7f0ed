package postgres

import (
	"context"
	"sync/atomic"
)

// Connections counts the connections of a DB.
type Connections struct {
	Waiting int64 // calls that are waiting for a connection now
	Failed  int64 // connections that failed; the next call replaces each of them
}

// load counts the calls that wait for a pool, and the connections that failed.
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
