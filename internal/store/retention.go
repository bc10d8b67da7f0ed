package store

import (
	"context"
	"strings"

	"skein.dev/skein/internal/dag"
)

// Expiry says which finished runs of a workflow need not be kept: those that finished before Before, and all
// but the newest Keep. Never those with a key that finished at or after Keyed (at or after Once, if the key
// begins with KeyOnce: a client made it for one request) and are among the newest KeyedKeep finished runs,
// and none of a backfill while a backfill of the workflow goes on.
type Expiry struct {
	Shard    dag.ShardID
	Workflow dag.WorkflowID
	Keep     int        // at least 1
	Before   dag.Micros // 0: age does not matter
	Keyed    dag.Micros
	Once     dag.Micros
	// KeyedKeep bounds the runs that a key protects; 0: no bound.
	KeyedKeep int
	Limit     int // most runs to delete at once
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
// that is older than theirs, that are neither current nor among the newest Keep, and that a version follows
// which was made before Superseded.
type VersionExpiry struct {
	Shard      dag.ShardID
	Workflow   dag.WorkflowID
	Superseded dag.Micros
	Keep       int // at least 1
	Limit      int // most versions to delete at once
}

// VersionRunsMax is how many runs of a workflow ExpireVersions looks at to find the oldest version that one
// has.
const VersionRunsMax = 1_000_000

// FireExpiry says which lines of a workflow's ledger need not be kept: plain ones (a run was started in time)
// that were decided before Plain, others that were decided before Exceptions, and all but the newest Keep.
// The newest line of a trigger that exists stays.
type FireExpiry struct {
	Shard      dag.ShardID
	Workflow   dag.WorkflowID
	Plain      dag.Micros
	Exceptions dag.Micros
	Keep       int     // at least 1
	After      FireKey // only lines that were decided after this one
	Limit      int     // most lines to look at
	// Days before this one (days since 1970) are forgotten, too, but for the newest of a trigger that exists.
	Days int32
}

// FiresExpired is what ExpireFires has done.
type FiresExpired struct {
	Gone int
	Next FireKey // the next call's After; zero: there are no more lines to look at
}

// FireDay is what is kept of the lines of a trigger that are forgotten: how many instants had which outcome,
// by the day of the first instant of each line. No line that ends at or before Until is complete in the
// ledger.
type FireDay struct {
	Workflow                             dag.WorkflowID
	Trigger                              string
	Day                                  int32 // since 1970, UTC
	Fired, Late, Skipped, Merged, Missed int64
	Until                                dag.Micros
}

// DayOf is the day of an instant.
func DayOf(at dag.Micros) int32 { return int32(at / (24 * 3600 * 1e6)) }

// Add counts a line that is forgotten.
func (d *FireDay) Add(f *Fire) {
	switch f.Outcome {
	case OutcomeFired:
		d.Fired += f.Count
	case OutcomeLate:
		d.Late += f.Count
	case OutcomeSkipped:
		d.Skipped += f.Count
	case OutcomeMerged:
		d.Merged += f.Count
	case OutcomeMissed:
		d.Missed += f.Count
	}
	d.Until = max(d.Until, f.Last)
}

// Plain reports whether a line says that a run was started in time.
func (f *Fire) Plain() bool { return f.Outcome == OutcomeFired && !f.Run.IsZero() }

// BackfillExpiry says which backfills of a workflow need not be kept: those that are over and were last
// changed before Before, and of them all but the newest Keep.
type BackfillExpiry struct {
	Shard    dag.ShardID
	Workflow dag.WorkflowID
	Before   dag.Micros
	Keep     int // at least 1
	Limit    int // most instants to delete at once
}

// WorkflowExpiry names a deleted workflow. Nothing of it is kept if it was deleted before Before and has no
// run.
type WorkflowExpiry struct {
	Shard    dag.ShardID
	Workflow dag.WorkflowID
	Before   dag.Micros
	Limit    int // most rows of a table to delete at once
}

// RecordExpiry says what need not be kept of what belongs to no workflow: answers to requests with an
// idempotency key that were given before Requests, and all but the newest RequestsKeep; tokens that ended
// before Records, processes that registered before Records or are not among the newest RecordsKeep, and
// orders to nodes that were given before Records. Nodes and workers that are members, and owners of shards,
// are kept.
type RecordExpiry struct {
	Shard        dag.ShardID // whose owner does it
	Requests     dag.Micros
	RequestsKeep int
	Records      dag.Micros
	RecordsKeep  int
	Limit        int // most rows of a table to delete at once
}

// Retention is the part of a store that forgets.
type Retention interface {
	// Expire deletes the oldest of the finished runs that need not be kept, with their attempts,
	// their history and what the database has of their logs, in one transaction, and names them.
	// Lines of the ledger and instants of backfills stay: they have bounds of their own. It looks at a
	// bounded number of runs. ErrFenced: the shard is not the owner's.
	Expire(ctx context.Context, owner dag.HandlerID, x Expiry) ([]dag.RunID, error)
	// ExpireVersions deletes the oldest versions that need not be kept, with their files, in one
	// transaction, and says how many. It looks at a bounded number of runs, and deletes none if there are
	// more. ErrFenced: the shard is not the owner's.
	ExpireVersions(ctx context.Context, owner dag.HandlerID, x VersionExpiry) (int, error)
	// ExpireFires deletes lines of the ledger, the oldest decisions first, and counts them by day in the same
	// transaction. ErrFenced as above; so for the following.
	ExpireFires(ctx context.Context, owner dag.HandlerID, x FireExpiry) (FiresExpired, error)
	// ExpireBackfills deletes instants of the oldest backfill that need not be kept, and it when it has none
	// left. It returns how many rows are gone; 0: there is no more to do.
	ExpireBackfills(ctx context.Context, owner dag.HandlerID, x BackfillExpiry) (int, error)
	// ExpireWorkflow deletes rows of a deleted workflow, and it when it has none left. It returns how many rows
	// are gone; 0: there is no more to do.
	ExpireWorkflow(ctx context.Context, owner dag.HandlerID, x WorkflowExpiry) (int, error)
	// ExpireRecords deletes what belongs to no workflow. It returns how many rows are gone; 0: there is no more
	// to do.
	ExpireRecords(ctx context.Context, owner dag.HandlerID, x RecordExpiry) (int, error)
	// DeletedWorkflows lists deleted workflows by id, after one.
	DeletedWorkflows(ctx context.Context, after dag.WorkflowID, limit int) ([]Workflow, error)
}
