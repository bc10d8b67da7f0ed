package store

import (
	"context"

	"skein.dev/skein/internal/dag"
)

// Eras is the part of a store that reads the progress of its shards and raises its era. A node that finds the
// store in an earlier state raises the era. Then no earlier owner holds a shard, and no earlier token is
// assigned again.
type Eras interface {
	// Marks reads the epoch and seq of every shard, by shard, in one snapshot.
	Marks(ctx context.Context) ([]Fence, error)
	// Raise begins the era to if the present era is from. In one transaction it sets the epochs of all shards to
	// the first epoch of that era. If letter is not empty, it also writes letter as a message from each shard to
	// itself. It returns the era of the store afterwards, which differs from to if the present era was not from.
	// It waits for open transactions of owners.
	Raise(ctx context.Context, from, to dag.Era, letter []byte) (dag.Era, error)
}

// EraOf returns the era of a store with these marks.
func EraOf(marks []Fence) (is dag.Era) {
	for _, m := range marks {
		is = max(is, m.Era())
	}
	return is
}

// Lineage identifies the server history that the rows belong to. A zero field is unknown.
type Lineage struct {
	System   string // the identifier that the server's data got when they were made
	Timeline int64  // rises with every promotion and every recovery to a point in time
	// Position is the end of the server's log at the time of the reading.
	Position int64
	// Replayed is the position up to which the server has the log of the previous timeline. It is known if
	// the server was promoted and has not restarted since.
	Replayed int64
}

// Lined is a store that can read its lineage.
type Lined interface {
	Lineage(ctx context.Context) (Lineage, error)
}
