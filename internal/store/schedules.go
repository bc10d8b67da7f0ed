package store

import (
	"context"
	"fmt"

	"skein.dev/skein/internal/dag"
)

// Bounds of the data that a trigger or a backfill keeps.
const (
	SpecBytesMax = 2 << 20
	DataBytesMax = 64 << 10
)

// Trigger states.
const (
	TriggerActive = "active"
	// the trigger does not fire; when it is resumed, the instants that have passed are recorded as skipped
	TriggerPaused = "paused"
	TriggerEnded  = "ended" // the trigger has ended for ever: its end has passed, or its count is used up
)

// Trigger is a schedule or sensor of a workflow. Its key is (Workflow, Name). The owner of the workflow's
// shard keeps exactly the triggers that the workflow's current version declares. The ledger of a trigger that
// is no longer declared stays. An update does not change Shard and Created.
type Trigger struct {
	Workflow dag.WorkflowID
	Name     string
	Shard    dag.ShardID
	Version  int32  // the version of the workflow that last changed the declaration
	Kind     string // the key of the declaration: cron, every, webhook, …
	Spec     []byte // the declaration in the canonical form of package workflow
	State    string
	Actor    string // the person who paused the trigger
	Reason   string // why it is paused or ended
	// Next is the first undecided instant. It is 0 for a sensor, and if the trigger is paused or has ended. A
	// fire changes it in the fire's own transaction.
	Next dag.Micros
	// Decided is the end of the decided time: every instant of the schedule in (Since, Decided] has its
	// outcome in the ledger. Decided never goes back. Invariant: an instant up to Decided has exactly one
	// outcome. To keep it, a fire writes Next, Decided, the ledger and the run in one transaction.
	Decided dag.Micros
	Since   dag.Micros // the time from which Spec applies
	Fired   int64      // the number of runs that the trigger has started, for the key count
	MaxRuns int32      // the largest number of active runs of the trigger; 0 means any number
	On      []string   // "namespace/name" of the workflows to whose ended runs the trigger reacts
	Data    []byte     // the state of a sensor
	// Revision guards every update, which raises it by one.
	Revision int64
	Created  dag.Micros
	Modified dag.Micros
}

// Outcomes of a fire.
const (
	OutcomeFired   = "fired"   // a run was started in time
	OutcomeLate    = "late"    // a run was started, later than it should have been
	OutcomeSkipped = "skipped" // a rule of the trigger allowed no run
	OutcomeMerged  = "merged"  // the run of a later instant covers this one, too
	OutcomeMissed  = "missed"  // no node could start the run in time
)

// Outcomes lists every outcome of a fire.
func Outcomes() []string {
	return []string{OutcomeFired, OutcomeLate, OutcomeSkipped, OutcomeMerged, OutcomeMissed}
}

// Fire is one line of a trigger's ledger. (Workflow, Trigger, At, Key) is unique. Consecutive instants with
// the same outcome and without a run share one line: Count instants, from At to Last.
type Fire struct {
	Workflow dag.WorkflowID
	Trigger  string
	At       dag.Micros // the instant; for an event, the time at which it arrived
	Key      string     // the id of the event; "" if the line is about an instant of a schedule
	Last     dag.Micros
	Count    int64
	Outcome  string
	Reason   Reason
	Run      dag.RunID // zero if there is none
	Decided  dag.Micros
}

// FireUpdate rewrites all of a line but its key, if the line still has the given state.
type FireUpdate struct {
	Fire
	WasOutcome string
	WasCount   int64
}

// Backfill states.
const (
	BackfillRunning   = "running"
	BackfillPaused    = "paused"
	BackfillCancelled = "cancelled"
	BackfillDone      = "done" // every instant has its run, and all of these runs have ended
)

// Backfill starts runs of a workflow for a list of instants, up to a bounded number at a time. An update
// rewrites its progress (State, Started, Ended, Failed, Parallel, Modified) and leaves the request unchanged.
type Backfill struct {
	ID       int64 // chosen by the owner of the shard
	Workflow dag.WorkflowID
	Shard    dag.ShardID
	Trigger  string // the trigger that gives the instants; "" if the caller gave a list
	State    string
	Spec     []byte // the request, in the canonical form of the trigger package
	Instants []byte // the instants to start, packed in their order
	Total    int64  // number of Instants
	// Started is the cursor: the number of Instants that already have a run. Invariant: it rises in the
	// transaction that inserts the run and the pair (Backfill, Instant). This pair is unique.
	Started  int64
	Ended    int64
	Failed   int64 // how many of Ended did not succeed
	Parallel int32 // the largest number of active runs of the backfill
	User     string
	Revision int64 // guards every update, which raises it by 1
	Created  dag.Micros
	Modified dag.Micros
}

// BackfillRun is one instant of a backfill with its run, written with the run's row.
// (Backfill, Instant) is unique.
type BackfillRun struct {
	Backfill int64
	Workflow dag.WorkflowID
	Instant  dag.Micros
	Run      dag.RunID
}

// ScheduleChanges are the writes of a transaction to triggers. Only the owner of a shard makes them.
type ScheduleChanges struct {
	TriggerInserts  []Trigger
	TriggerUpdates  []Trigger // guarded by Revision, which the update raises by 1
	TriggerDeletes  []Trigger // Workflow, Name and Revision of the present row
	Fires           []Fire
	FireUpdates     []FireUpdate
	BackfillInserts []Backfill
	BackfillUpdates []Backfill // guarded by Revision
	BackfillRuns    []BackfillRun
	// Watermark, if not 0, is the instant up to which due triggers were searched. The watermark of the fenced
	// shards rises to it.
	Watermark dag.Micros
}

// Rows returns the number of rows that c writes.
func (c *ScheduleChanges) Rows() int {
	return len(c.TriggerInserts) + len(c.TriggerUpdates) + len(c.TriggerDeletes) + len(c.Fires) + len(c.FireUpdates) +
		len(c.BackfillInserts) + len(c.BackfillUpdates) + len(c.BackfillRuns)
}

// Reset empties the changes for the next transaction.
func (c *ScheduleChanges) Reset() {
	clear(c.TriggerInserts)
	clear(c.TriggerUpdates)
	clear(c.TriggerDeletes)
	clear(c.Fires)
	clear(c.FireUpdates)
	clear(c.BackfillInserts)
	clear(c.BackfillUpdates)
	c.TriggerInserts, c.TriggerUpdates, c.TriggerDeletes = c.TriggerInserts[:0], c.TriggerUpdates[:0], c.TriggerDeletes[:0]
	c.Fires, c.FireUpdates = c.Fires[:0], c.FireUpdates[:0]
	c.BackfillInserts, c.BackfillUpdates, c.BackfillRuns = c.BackfillInserts[:0], c.BackfillUpdates[:0], c.BackfillRuns[:0]
	c.Watermark = 0
}

// TriggerQuery selects triggers by namespace, workflow and name. After is a cursor from a TriggerPage.
type TriggerQuery struct {
	Workflow dag.WorkflowID // 0 selects the triggers of every workflow that is not deleted
	State    string         // "" means any
	After    TriggerKey
	Limit    int // at most 1,000
}

// TriggerKey names a trigger. Lists are in its order.
type TriggerKey struct {
	Workflow dag.WorkflowID
	Name     string
}

// FireQuery selects lines of the ledger, newest first.
type FireQuery struct {
	Workflow dag.WorkflowID // 0 means every workflow; the lines are then in the order of their decisions
	Trigger  string         // used only with Workflow; "" means every trigger
	Outcome  string         // one outcome; "unfired" means every outcome without a run; "" means any
	From     dag.Micros     // only lines with Last ≥ From; 0 means no bound
	Until    dag.Micros     // only lines with At ≤ Until; 0 means no bound
	Before   FireKey        // the cursor: only lines after it, in the order of the list
	Limit    int            // at most 1,000
}

// FireUnfired selects the lines without a run.
const FireUnfired = "unfired"

// FireKey is a position in a list of fires: by Decided, then by the line's key, all descending.
type FireKey struct {
	Decided  dag.Micros
	Workflow dag.WorkflowID
	Trigger  string
	At       dag.Micros
	Key      string
}

// Check returns ErrRefused for values that no engine accepts: unknown states and outcomes, and values
// beyond their bounds.
func (c *ScheduleChanges) Check() error {
	for _, list := range [][]Trigger{c.TriggerInserts, c.TriggerUpdates} {
		for i := range list {
			if err := list[i].check(); err != nil {
				return err
			}
		}
	}
	for i := range c.Fires {
		if err := c.Fires[i].check(); err != nil {
			return err
		}
	}
	for i := range c.FireUpdates {
		if err := c.FireUpdates[i].check(); err != nil {
			return err
		}
	}
	for _, list := range [][]Backfill{c.BackfillInserts, c.BackfillUpdates} {
		for i := range list {
			if err := list[i].check(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *Trigger) check() error {
	switch t.State {
	case TriggerActive, TriggerPaused, TriggerEnded:
	default:
		return fmt.Errorf("trigger %.40q of workflow %d: unknown state %.40q: %w", t.Name, t.Workflow, t.State, ErrRefused)
	}
	if len(t.Spec) > SpecBytesMax || len(t.Data) > DataBytesMax {
		return fmt.Errorf("trigger %.40q of workflow %d: a declaration of %d bytes (at most %d), data of %d bytes (at most %d): %w",
			t.Name, t.Workflow, len(t.Spec), SpecBytesMax, len(t.Data), DataBytesMax, ErrRefused)
	}
	return nil
}

func (f *Fire) check() error {
	switch f.Outcome {
	case OutcomeFired, OutcomeLate, OutcomeSkipped, OutcomeMerged, OutcomeMissed:
		return nil
	}
	return fmt.Errorf("fire of trigger %.40q of workflow %d: unknown outcome %.40q: %w", f.Trigger, f.Workflow, f.Outcome, ErrRefused)
}

func (b *Backfill) check() error {
	switch b.State {
	case BackfillRunning, BackfillPaused, BackfillCancelled, BackfillDone:
	default:
		return fmt.Errorf("backfill %d: unknown state %.40q: %w", b.ID, b.State, ErrRefused)
	}
	if len(b.Spec) > SpecBytesMax {
		return fmt.Errorf("backfill %d: a request of %d bytes, at most %d: %w", b.ID, len(b.Spec), SpecBytesMax, ErrRefused)
	}
	return nil
}

// Schedules is the part of a store that keeps triggers. Lists return at most 1,000 rows, except Due and
// Listening, whose limit the caller sets. Unknown shards are ignored.
type Schedules interface {
	SentEvents
	// Clock reads the clock of the store.
	Clock(ctx context.Context) (dag.Micros, error)
	Trigger(ctx context.Context, w dag.WorkflowID, name string) (Trigger, error)
	Triggers(ctx context.Context, q TriggerQuery) ([]Trigger, error)
	// Due reads triggers with 0 < Next ≤ until, the earliest first. Triggers with the same Next come in any
	// order. It reads an index, so its cost depends only on the number of due triggers.
	Due(ctx context.Context, shards []dag.ShardID, until dag.Micros, limit int) ([]Trigger, error)
	// NextDue returns the earliest Next of the shards. It returns 0 if there is none.
	NextDue(ctx context.Context, shards []dag.ShardID) (dag.Micros, error)
	// Listening reads the active triggers that start on the end of runs of "namespace/name".
	Listening(ctx context.Context, workflow string, limit int) ([]TriggerKey, error)
	// Sensors lists the active triggers of some kinds in the shards. The number of schedules does not affect
	// its cost.
	Sensors(ctx context.Context, shards []dag.ShardID, kinds []string, after TriggerKey, limit int) ([]Trigger, error)

	// LastFire returns the newest line (by At, then Key) of a trigger. LastFire and FireByKey return
	// ErrNotFound if there is no such line.
	LastFire(ctx context.Context, w dag.WorkflowID, trigger string) (Fire, error)
	// FireByKey finds the line of an event by the event's id. It returns the newest one, and does not use the
	// parameter at. With an empty key, it finds the line without a key that covers the instant at: At ≤ at ≤
	// Last.
	FireByKey(ctx context.Context, k TriggerKey, at dag.Micros, key string) (Fire, error)
	Fires(ctx context.Context, q FireQuery) ([]Fire, error)
	// FireDays lists the counts of deleted lines of a trigger, the newest days first. It begins with the last
	// day that is earlier than the parameter before or, if before is 0, with the newest day.
	FireDays(ctx context.Context, k TriggerKey, before int32, limit int) ([]FireDay, error)

	Backfill(ctx context.Context, id int64) (Backfill, error)
	// Backfills lists backfills, the newest (greatest id) first. before is a cursor (an id). 0 means from the
	// newest. Workflow 0 and state "" select all.
	Backfills(ctx context.Context, w dag.WorkflowID, state string, before int64, limit int) ([]Backfill, error)
	// BackfillRuns lists the runs of a backfill in the order of their instants, after the given instant.
	BackfillRuns(ctx context.Context, id int64, after dag.Micros, limit int) ([]BackfillRun, error)
	// RunsAt finds the runs that backfills have made for an instant of a workflow.
	RunsAt(ctx context.Context, w dag.WorkflowID, instant dag.Micros) ([]dag.RunID, error)
}
