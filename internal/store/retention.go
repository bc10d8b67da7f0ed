package store

import (
	"bytes"
	"context"
	"strings"

	"skein.dev/skein/internal/dag"
)

// RunPos is the position of a run in the order in which an engine deletes runs. Only the engine that
// returned it can interpret it. Later runs have greater positions, byte by byte. The zero position is before
// all runs.
type RunPos [16]byte

// IsZero reports whether a position is before all runs.
func (p RunPos) IsZero() bool { return p == RunPos{} }

// Compare compares two positions of one engine, as bytes.Compare does.
func (p RunPos) Compare(other RunPos) int { return bytes.Compare(p[:], other[:]) }

// Expiry selects the finished runs of a workflow that may be deleted: those that finished before Before, and
// those up to the position To.
//
// It never selects a run with a key if the run finished at or after Keyed (at or after Once, if the key
// begins with KeyOnce) and is after the position KeyedTo. It selects no run of a backfill while a backfill
// of the workflow is unfinished.
type Expiry struct {
	Shard    dag.ShardID
	Workflow dag.WorkflowID
	Before   dag.Micros // 0 if age does not matter
	To       RunPos     // the result of FinishedBut; zero if the number of runs is not bounded
	Keyed    dag.Micros
	Once     dag.Micros
	KeyedTo  RunPos // the result of FinishedBut for runs with keys; zero if keys protect any number of runs
	After    RunPos // only runs after this position are read
	Limit    int    // the largest number of runs to delete
	// Tallied says that the runs are counted in the tally. Expire then selects no run that ended after the
	// transaction Counted of the shard, and counts the deleted runs as TallyGone.
	Tallied bool
	Counted int64
}

// Expired is the result of Expire.
type Expired struct {
	Runs []dag.RunID
	Next RunPos // the After of the next call; zero if all runs have been examined
	// Old reports whether one of the examined runs finished before Before, or has not finished. If so, later
	// runs may also be old enough, even if no run was deleted.
	Old bool
}

// ExpireLooks bounds the runs that one call of Expire examines, as a multiple of Expiry.Limit.
const ExpireLooks = 4

// KeyOnce is the prefix of keys that a client makes for one request. The client sends the key only when it
// repeats that request.
const KeyOnce = "once:"

// KeptFrom returns the instant from which on finished runs with this key are kept.
func (x *Expiry) KeptFrom(key string) dag.Micros {
	if strings.HasPrefix(key, KeyOnce) {
		return x.Once
	}
	return x.Keyed
}

// VersionExpiry selects the versions of a workflow that may be deleted. Such a version is older than the
// versions of all runs, is neither current nor among the newest Keep, and has a successor that was made
// before Superseded.
type VersionExpiry struct {
	Shard      dag.ShardID
	Workflow   dag.WorkflowID
	Superseded dag.Micros
	Keep       int // at least 1
	Limit      int // the largest number of versions to delete at once
}

// VersionRunsMax is the largest number of runs of a workflow that ExpireVersions examines to find their
// oldest version.
const VersionRunsMax = 1_000_000

// FireExpiry selects the lines of a workflow's ledger that may be deleted: plain lines that were decided
// before Plain, other lines that were decided before Exceptions, and all but the newest Keep. A plain line
// says that a run was started in time. The newest line of an existing trigger stays.
type FireExpiry struct {
	Shard      dag.ShardID
	Workflow   dag.WorkflowID
	Plain      dag.Micros
	Exceptions dag.Micros
	Keep       int     // at least 1
	After      FireKey // a cursor: only lines that were decided after this one
	Limit      int     // the largest number of lines to read
	// Days is a number of days since 1970. Counts of earlier days are deleted, except the counts of the
	// newest day of an existing trigger. A call with an After deletes no counts, because the first call of
	// the series has already done so.
	Days int32
}

// FiresExpired is the result of ExpireFires.
type FiresExpired struct {
	Gone int
	Next FireKey // the After of the next call; zero if there are no more lines
}

// FireDay holds the counts of deleted lines of a trigger: the number of instants with each outcome, by the
// day of the first instant of each line. The ledger may lack lines that end at or before Until.
type FireDay struct {
	Workflow                             dag.WorkflowID
	Trigger                              string
	Day                                  int32 // since 1970, UTC
	Fired, Late, Skipped, Merged, Missed int64
	Until                                dag.Micros
}

// DayOf returns the number of the day of an instant, counted from 1970.
func DayOf(at dag.Micros) int32 { return int32(at / (24 * 3600 * 1e6)) }

// Add counts a deleted line.
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

// Plain reports whether a line records that a run was started in time.
func (f *Fire) Plain() bool { return f.Outcome == OutcomeFired && !f.Run.IsZero() }

// BackfillExpiry selects the backfills of a workflow that may be deleted: ended ones that were last changed
// before Before, and all ended ones except the newest Keep.
type BackfillExpiry struct {
	Shard    dag.ShardID
	Workflow dag.WorkflowID
	Before   dag.Micros
	Keep     int // at least 1
	Limit    int // the largest number of instants to delete at once
}

// WorkflowExpiry names a deleted workflow. Its rows may be deleted if the workflow was deleted before Before
// and has no run.
type WorkflowExpiry struct {
	Shard    dag.ShardID
	Workflow dag.WorkflowID
	Before   dag.Micros
	Limit    int // the largest number of rows of a table to delete at once
}

// CallScope begins the scopes of requests that are calls of webhooks.
const CallScope = "hook/"

// RecordExpiry selects rows that belong to no workflow and may be deleted:
//
//   - answers to requests with an idempotency key that were given before Requests, and all but the newest
//     RequestsKeep;
//   - calls of webhooks (requests whose scope begins with CallScope) that came before Calls. If there are
//     more than CallsKeep, the scope with the most calls loses its oldest. A scope with at most its share,
//     CallsKeep divided by the number of scopes, loses none: a busy caller makes Skein forget no other call;
//   - events of the log that came before Events, and all but the newest EventsKeep;
//   - tokens that ended before Records, and orders to nodes that were given before Records;
//   - processes that registered before Records, and processes that registered before RecordsMin and are not
//     among the newest RecordsKeep. Members and owners of shards stay.
type RecordExpiry struct {
	Shard        dag.ShardID // the shard whose owner deletes the rows
	Requests     dag.Micros
	RequestsKeep int
	Calls        dag.Micros
	CallsKeep    int
	Records      dag.Micros
	RecordsMin   dag.Micros // later processes are kept, because kept runs refer to them
	RecordsKeep  int
	Events       dag.Micros // sent events that were received before this time are deleted, and all but the newest EventsKeep
	EventsKeep   int
	Limit        int // the largest number of rows of a table to delete
}

// Retention is the part of a store that deletes old rows. Each deleting method works in one transaction, and
// returns ErrFenced if the shard does not belong to the owner.
type Retention interface {
	// FinishedBut returns the position of the newest finished run of a workflow that is not among the newest
	// keep finished runs. The zero position says that there is no such run.
	FinishedBut(ctx context.Context, w dag.WorkflowID, keep int) (RunPos, error)
	// Expire deletes the oldest of the selected runs with their attempts, their history and the part of
	// their logs that is in the database. It examines at most ExpireLooks times Limit runs. Lines of the
	// ledger and instants of backfills stay.
	Expire(ctx context.Context, owner dag.HandlerID, x Expiry) (Expired, error)
	// ExpireVersions deletes the oldest of the selected versions with their files, and returns their number. It
	// deletes none if the workflow has more than VersionRunsMax runs.
	ExpireVersions(ctx context.Context, owner dag.HandlerID, x VersionExpiry) (int, error)
	// ExpireFires deletes selected lines of the ledger, the oldest decisions first, and counts them by day.
	ExpireFires(ctx context.Context, owner dag.HandlerID, x FireExpiry) (FiresExpired, error)
	// ExpireBackfills deletes instants of the oldest selected backfill, and the backfill itself when it has
	// no instant left. It returns the number of deleted rows, or 0 if no work is left.
	ExpireBackfills(ctx context.Context, owner dag.HandlerID, x BackfillExpiry) (int, error)
	// ExpireWorkflow deletes rows of a deleted workflow, and its own row when no other is left. It returns
	// the number of deleted rows, or 0 if no work is left.
	ExpireWorkflow(ctx context.Context, owner dag.HandlerID, x WorkflowExpiry) (int, error)
	// ExpireRecords deletes selected rows that belong to no workflow. It returns their number, or 0 if no
	// work is left.
	ExpireRecords(ctx context.Context, owner dag.HandlerID, x RecordExpiry) (int, error)
	// DeletedWorkflows lists deleted workflows whose ids are greater than the parameter after, ordered by id.
	DeletedWorkflows(ctx context.Context, after dag.WorkflowID, limit int) ([]Workflow, error)
}
