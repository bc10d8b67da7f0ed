package dag

import (
	"slices"
	"time"
)

// RunRow is a run as it is stored. Header is written once (see RunUpdate.Filled). The rest is rewritten as
// a whole at each change.
type RunRow struct {
	Header
	State      RunState
	Intent     Intent
	Generation int32
	Cause      Cause
	Message    string
	Graph      []byte // packed segments that this run adds to its version's graph; nil if there is none
	Base       []byte // the packed task states that are kept from the previous generation; nil if there is none
	Final      []byte // packed task states at the end; nil while the run lives
	SplitAt    Micros
	StartedAt  Micros
	FinishedAt Micros
	Leader     HandlerID
	LeaderAt   Micros
	Claim      *Claim // the claim on a queue and locks; nil if the run names none
	// Shares are the slots in named queues that the tasks of the run have or want. Shares is nil if the tasks
	// have never needed such a slot.
	Shares []Share
	Kept   int64 // the bytes that the run adds to the stock of its namespace, computed at its last end: see Weigh
	Weight int64 // the sum of EventRow.Weight; only Store.Load and Store.Scan fill it in
}

// AttemptRow is an attempt as readers of the store get it. It is written at its assignment, at its end, and
// in between only if the attempt runs long. The SQL engines keep an attempt that is only assigned, or that
// plainly succeeded, without a row of its own (package store, Forms of rows). Invariant: Run, Task and Token
// name one attempt. Handler never changes.
type AttemptRow struct {
	Run        RunID
	Task       TaskID
	Token      Token
	Generation int32
	Handler    HandlerID
	State      AttemptState
	Cause      Cause
	Message    string
	Exited     bool // ExitCode is valid
	ExitCode   int32
	Signal     string // the signal that ended the attempt; for a call the child run, see ChildOf
	Outputs    []byte // the outputs; if the attempt has not succeeded, its handle: see HandleOf
	Assigned   Micros
	Started    Micros
	Finished   Micros
	// RetryAt is the time at which the task is due again after this failed or lost attempt. RetryWait is the
	// length of the pause, as it was decided. A RetryAt of 0 means no retry. After a reload the pause lasts
	// until RetryAt, but at most RetryWait. So a jump of a clock cannot delay the task for long. While the
	// attempt is deferred, the two fields describe its wait in the same way.
	RetryAt   Micros
	RetryWait time.Duration
}

// AttemptUpdate is a new version of an attempt's row, and the state that the row must have before. Invariant:
// a store writes it only if the attempt is in state Was and held by Handler. Otherwise the transaction
// changes nothing.
type AttemptUpdate struct {
	AttemptRow
	Was AttemptState
	// Plain says that readers read this attempt only together with its whole run, and never alone. So a store
	// may keep its end in the smallest form.
	Plain bool
}

// RunUpdate is a new version of a run's row, and the state that the row must have before. Invariant: a store
// writes it only if the row is in state Was. Otherwise the transaction changes nothing.
type RunUpdate struct {
	RunRow
	Was RunState
	// Claimed is the claim of a queued run, as the row contains it, or nil if the run is not queued. Stores
	// index the queued runs by it.
	Claimed *Claim
	// Filled says that the parameters of the header are written, too.
	Filled bool
}

// EventRow holds the events of one run in one transaction, packed.
type EventRow struct {
	Run     RunID
	Seq     int64 // the shard's transaction; the store sets it
	At      Micros
	Records []byte
	Weight  int64 // the bytes of logs, artifacts and outputs of the attempts that ended; stores need not return it
	// Workflow and Version are those of the run, for watchers of the transaction. Stores do not keep them.
	Workflow WorkflowID
	Version  int32
}

// Changes collects the rows that one transaction writes for its runs.
type Changes struct {
	RunInserts     []RunRow
	RunUpdates     []RunUpdate
	AttemptInserts []AttemptRow
	AttemptUpdates []AttemptUpdate
	Events         []EventRow
}

// Reset empties the Changes for the next transaction.
func (c *Changes) Reset() {
	clear(c.RunInserts)
	clear(c.RunUpdates)
	clear(c.AttemptInserts)
	clear(c.AttemptUpdates)
	clear(c.Events)
	c.RunInserts, c.RunUpdates = c.RunInserts[:0], c.RunUpdates[:0]
	c.AttemptInserts, c.AttemptUpdates = c.AttemptInserts[:0], c.AttemptUpdates[:0]
	c.Events = c.Events[:0]
}

// Rows returns the number of rows that c writes.
func (c *Changes) Rows() int {
	return len(c.RunInserts) + len(c.RunUpdates) + len(c.AttemptInserts) + len(c.AttemptUpdates) + len(c.Events)
}

// Pending returns the number of rows that Flush would write now.
func (r *Run) Pending() int {
	n := len(r.dirty)
	if r.changed || !r.stored {
		n++
	}
	if len(r.records) > 0 {
		n++
	}
	return n
}

// Flush moves all changes of the steps since the last Flush into c. Rows are images of memory, so a row is
// written once, however many events a transaction has. Afterwards memory counts as stored. If the transaction
// may not have committed, the owner must forget the run and load it again.
func (r *Run) Flush(c *Changes, now Micros) {
	switch {
	case !r.stored:
		c.RunInserts = append(c.RunInserts, r.row())
	case r.changed:
		c.RunUpdates = append(c.RunUpdates, RunUpdate{RunRow: r.row(), Was: r.was, Claimed: r.claimed, Filled: r.filled})
	}
	r.stored, r.changed, r.filled, r.was, r.claimed = true, false, false, r.State, r.Claim.place()
	for _, i := range r.dirty {
		a := &r.slots[i]
		if a.isNew {
			c.AttemptInserts = append(c.AttemptInserts, a.AttemptRow)
		} else {
			c.AttemptUpdates = append(c.AttemptUpdates, AttemptUpdate{AttemptRow: a.AttemptRow, Was: a.was, Plain: r.plain(&a.AttemptRow)})
		}
		a.isNew, a.dirty, a.was = false, false, a.State
		if a.State.Ended() && (r.handles == nil || !slices.Contains(r.handles, i)) {
			*a = attempt{}
			r.free = append(r.free, i)
		}
	}
	r.dirty = r.dirty[:0]
	if len(r.free) == len(r.slots) { // many tasks, or the whole run, have ended, so the memory is released
		r.slots, r.free, r.dirty = nil, nil, nil
	}
	if len(r.records) > 0 {
		c.Events = append(c.Events, EventRow{Run: r.ID, At: now, Records: r.records, Weight: r.gained, Workflow: r.Workflow, Version: r.Version})
		r.records, r.gained = nil, 0
	}
	if r.Graph != nil && !r.Graph.params {
		r.Params = nil // conditions do not read the parameters, and a dispatch reads them from the row
	}
}

// plain reports whether a store may leave out the row of the attempt. The attempt must be the first attempt
// of an ordinary task, and must have succeeded without outputs. If an ended task has no row, readers assume
// such an end. Instances and logical tasks are not ordinary, because their foreach task or their owner reads
// every row.
func (r *Run) plain(a *AttemptRow) bool {
	if a.State != AttemptSucceeded || a.Outputs != nil || a.Token.Number() != 1 || a.Task == LeaderTask || r.Graph == nil {
		return false
	}
	_, instance := r.Graph.InstanceOf(a.Task)
	return !instance && r.Graph.Kind(a.Task) == Work
}

func (r *Run) row() RunRow {
	row := RunRow{
		Header: r.Header, State: r.State, Intent: r.Intent, Generation: r.Generation, Cause: r.Cause, Message: r.Message,
		Graph: r.own, Base: r.base, SplitAt: r.SplitAt, StartedAt: r.StartedAt, FinishedAt: r.FinishedAt, Leader: r.Leader, LeaderAt: r.LeaderAt, Claim: r.Claim,
		Shares: r.Shares(), Kept: r.Kept,
	}
	if r.State.Terminal() && r.Graph != nil {
		row.Final = packStates(len(r.tasks), func(t TaskID) TaskState { return r.tasks[t].state })
	}
	return row
}

// Counts counts the tasks by their states. Before the run is split there are no tasks.
func (r *Run) Counts() map[TaskState]int {
	n := map[TaskState]int{}
	for i := range r.tasks {
		n[r.tasks[i].state]++
	}
	return n
}
