package store

import (
	"context"

	"skein.dev/skein/internal/dag"
)

// Eras is the part of a store that tells how far its shards have come, and begins another era.
// Whoever finds that the store has gone back to an earlier state raises the era: no owner of before
// holds a shard then, and no token of before is given again.
type Eras interface {
	// Marks reads the epoch and seq of every shard, by shard, in one snapshot.
	Marks(ctx context.Context) ([]Fence, error)
	// Raise begins era to, if the era is from: it sets the epochs of all shards to its first, and
	// writes letter, if it is not empty, as a message of each shard to itself, all in one
	// transaction. It returns the era of the store, which is another one than to if the era was not
	// from. It waits for transactions of owners that are under way.
	Raise(ctx context.Context, from, to dag.Era, letter []byte) (dag.Era, error)
}

// EraOf is the era of a store with these marks.
func EraOf(marks []Fence) (is dag.Era) {
	for _, m := range marks {
		is = max(is, m.Era())
	}
	return is
}

// Lineage says of which server's history the rows are. Zero fields are not known.
type Lineage struct {
	System   string // the identifier that the server's data got when they were made
	Timeline int64  // rises with every promotion and every recovery to a point in time
	// Position is how far the server's log had been written when this was read.
	Position int64
	// Replayed is up to where the server has the log of the timeline before, if it was promoted and
	// has not been started again since.
	Replayed int64
}

// Lined is a store that knows its lineage.
type Lined interface {
	Lineage(ctx context.Context) (Lineage, error)
}
