package store

import (
	"context"

	"skein.dev/skein/internal/dag"
)

// TraceMark says how far the ended runs of a shard are exported as traces: those that ended in transactions
// of the shard up to Seq.
type TraceMark struct {
	Shard dag.ShardID
	Epoch int64 // the epoch of the shard when the runs were exported. Reads leave it 0
	Seq   int64
	At    dag.Micros // the store's clock when Seq was the shard's newest transaction, or an earlier time
}

// Traces is the part of a store that keeps the position of the export of traces: one row per shard.
type Traces interface {
	// TraceMark returns the position of a shard. It returns ErrNotFound if nothing was exported yet.
	TraceMark(ctx context.Context, shard dag.ShardID) (TraceMark, error)
	// PutTraceMark writes the position of a shard. It returns ErrFenced if the shard has another owner or
	// epoch, or has not reached Seq.
	PutTraceMark(ctx context.Context, owner dag.HandlerID, m TraceMark) error
}
