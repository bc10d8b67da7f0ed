package store

import (
	"context"

	"skein.dev/skein/internal/dag"
)

// TallySpan is the kind of period that a row of the tally counts.
type TallySpan int32

// The spans. Their numbers are stored.
const (
	TallyDay  TallySpan = 0 // At is a day since 1970, UTC. Only these rows have tasks
	TallyHour TallySpan = 1 // At is an hour since 1970, UTC
	// TallyGone marks rows about deleted runs. In such a row, N is the number of deleted runs that ended on
	// the day At in the state Task. Data is empty.
	TallyGone TallySpan = 2
)

// TallyAgain is the Task of a TallyGone row that counts the deleted runs that had ended more than once.
const TallyAgain = "again"

// TallyRemade is the Task of a TallyGone row that records that the counts were made again from the kept
// runs. Runs may have been deleted meanwhile that the new counts contain and the other TallyGone rows do
// not.
const TallyRemade = "remade"

// TallyRest is the Task of a TallyDay row that sums the attempts of tasks without a row of their own.
const TallyRest = "…"

// TallyKey names a row of the tally.
type TallyKey struct {
	Workflow dag.WorkflowID
	Span     TallySpan
	At       int32
	Task     string // name of the task; "" means the runs of the workflow
}

// TallyRow counts the ended runs of a workflow, or the attempts of a task in them, in one period.
type TallyRow struct {
	TallyKey
	N    int64  // the number of ends
	Data []byte // the counts, packed by package tally
}

// TallyMark is the position up to which the ends of runs are counted: all ends in transactions of the shard
// up to Seq. The mark of a workflow applies to its runs. If a workflow has no mark, the mark of Workflow 0
// applies.
type TallyMark struct {
	Shard    dag.ShardID
	Workflow dag.WorkflowID // 0 means all workflows that have no mark of their own
	Rev      int64          // the number of steps if Workflow is 0, otherwise 0
	Seq      int64
	At       dag.Micros // the store's clock when Seq was the shard's newest transaction
}

// TallyStep is one transaction of the tally: counts, and the new marks. Invariant: every step of a shard
// raises Rev of the mark of Workflow 0. Of two steps that begin from one Rev, only one is written, so no
// end is counted twice.
type TallyStep struct {
	Shard dag.ShardID
	Epoch int64 // the epoch of the shard when the ends were counted
	Rev   int64 // the Rev of the mark of Workflow 0; 0 if there is no mark yet
	Seq   int64 // the new Seq of that mark; a negative value leaves the mark unchanged
	At    dag.Micros
	// Marks are new or changed marks of workflows. If Whole is set, existing ones are deleted first.
	Marks []TallyMark
	Whole bool
	Drop  []dag.WorkflowID // workflows whose rows are all deleted before Rows are written
	Rows  []TallyRow       // inserted, or they replace the row with the same key
}

// TallyQuery selects rows of a workflow by Task and At.
type TallyQuery struct {
	Workflow dag.WorkflowID
	Span     TallySpan
	From, To int32  // both included
	Tasks    bool   // rows of all tasks and of the runs; else only those of Task
	Task     string // used only if Tasks is not set
	// After is the last row of the previous page; its At and Task are used. If it is zero, the first page is
	// read.
	After TallyKey
	Limit int
}

// TallyExpiry selects old rows of a workflow.
type TallyExpiry struct {
	Shard    dag.ShardID
	Workflow dag.WorkflowID
	Days     int32 // rows of earlier days are deleted
	Hours    int32 // rows of earlier hours are deleted
	Limit    int
}

// Tallies is the part of a store that counts ended runs. Package tally decides what is counted.
type Tallies interface {
	// TallyStands reports whether all programs that use the database know the tally. Until then nothing is
	// counted.
	TallyStands() bool
	// TallyMarks lists the marks of a shard, ordered by workflow.
	TallyMarks(ctx context.Context, shard dag.ShardID) ([]TallyMark, error)
	// PutTally writes a step. It returns ErrFenced if the shard has another owner or epoch, has not reached
	// Seq, or if its mark has another Rev.
	PutTally(ctx context.Context, owner dag.HandlerID, s TallyStep) error
	// Tally reads rows of a workflow.
	Tally(ctx context.Context, q TallyQuery) ([]TallyRow, error)
	// ExpireTally deletes old rows, and returns their number. It returns ErrFenced if the shard belongs to
	// another owner.
	ExpireTally(ctx context.Context, owner dag.HandlerID, x TallyExpiry) (int, error)
}

// Counted returns the position up to which the ends of a workflow's runs are counted. It returns false if
// there is no mark.
func Counted(marks []TallyMark, w dag.WorkflowID) (m TallyMark, ok bool) {
	for _, is := range marks {
		if is.Workflow == 0 || is.Workflow == w {
			m, ok = is, true
		}
	}
	return m, ok
}

// HourOf returns the hour of an instant since 1970.
func HourOf(at dag.Micros) int32 { return int32(at / (3600 * 1e6)) }

// Ended is the end of a run in a committed transaction. Seq of Fence is the number of that transaction.
type Ended struct {
	Fence
	ID                       dag.RunID
	Workflow                 dag.WorkflowID
	Version, Generation      int32
	State                    dag.RunState
	Created, Split, Finished dag.Micros
	Root                     dag.RunID // see Header.Root
	Trace                    string    // the trace context of the caller; "" if there is none
	// Fresh says that the transaction that inserted the run also ended it, and none of its attempts has
	// started.
	Fresh bool
}
