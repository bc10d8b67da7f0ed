package store

import (
	"context"
	"strings"

	"skein.dev/skein/internal/dag"
)

// Expiry says which finished runs of a workflow need not be kept: those that finished before
// Before, and all but the newest Keep. Never those with a key that finished at or after Keyed (at or after Once, if the
// key begins with KeyOnce: a client made it for one request), and none of a backfill while a backfill of the workflow goes on.
type Expiry struct {
	Shard    dag.ShardID
	Workflow dag.WorkflowID
	Keep     int        // at least 1
	Before   dag.Micros // 0: age does not matter
	Keyed    dag.Micros
	Once     dag.Micros
	Limit    int // most runs to delete at once
}

// KeyOnce begins keys that nobody but the client that made them knows: it sends one request again with it.
const KeyOnce = "once:"

// KeptFrom is the instant at or after which a run with a key must have finished to be kept for that.
func (x *Expiry) KeptFrom(key string) dag.Micros {
	if strings.HasPrefix(key, KeyOnce) {
		return x.Once
	}
	return x.Keyed
}

// VersionExpiry says which versions of a workflow need not be kept: those that no run has, nor one
// that is older than theirs, that are neither current nor the newest, and that a version follows
// which was made before Superseded.
type VersionExpiry struct {
	Shard      dag.ShardID
	Workflow   dag.WorkflowID
	Superseded dag.Micros
	Limit      int // most versions to delete at once
}

// Retention is the part of a store that forgets.
type Retention interface {
	// Expire deletes the oldest of the finished runs that need not be kept, with their attempts,
	// their history and what the database has of their logs, in one transaction, and names them.
	// Lines of the ledger and instants of backfills stay: they say what happened. It looks at a
	// bounded number of runs. ErrFenced: the shard is not the owner's.
	Expire(ctx context.Context, owner dag.HandlerID, x Expiry) ([]dag.RunID, error)
	// ExpireVersions deletes the oldest versions that need not be kept, with their files, in one
	// transaction, and says how many. It looks at a bounded number of runs, and deletes none if there are
	// more. ErrFenced: the shard is not the owner's.
	ExpireVersions(ctx context.Context, owner dag.HandlerID, x VersionExpiry) (int, error)
}
