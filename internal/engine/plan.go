package engine

import (
	"context"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// Planner knows the rules of triggers: package trigger implements it. The engine writes the decisions of the
// Planner in its transactions. Plan, Begin and Heard are pure functions of their arguments; all methods may
// be called from any goroutine.
type Planner interface {
	// Declared reads the triggers of a version's definition. It sets Name, Kind, Spec, MaxRuns and On of each
	// trigger. Begin sets the other fields.
	Declared(namespace, name string, def []byte) (Declaration, error)
	// Begin completes the row of a trigger that is declared at now, for the first time or again. It sets Next,
	// Decided, Since, State and Reason. No instant at or before now is due.
	Begin(t *store.Trigger, now dag.Micros) error
	// Plan computes the due instants of an active trigger at now: those in (t.Decided, now].
	Plan(t *store.Trigger, now dag.Micros) (Plan, error)
	// Passed decides the instants in (t.Decided, now] of a trigger that was paused in that time. Plan.Starts is
	// empty.
	Passed(t *store.Trigger, now dag.Micros, reason store.Reason) (Plan, error)
	// Heard decides how a trigger reacts to the end of a run of a workflow that its On names. For a trigger
	// of kind start, it decides about the start of the scheduler. A Plan without Starts may still change the
	// row.
	Heard(t *store.Trigger, run *Ended, now dag.Micros) (Plan, error)
	// Hears decides how a trigger reacts to the events of a batch. The result depends on Spec and on now only.
	Hears(t *store.Trigger, b *Batch, now dag.Micros) (Hearing, error)
	// Position returns the position of a trigger that a source feeds. Placed returns the trigger's Data with
	// a new position.
	Position(t *store.Trigger) (Position, error)
	Placed(t *store.Trigger, p Position) ([]byte, error)
	// Pauses returns the planned pauses of a trigger in their order, or errkind.ErrInvalid for a trigger that
	// cannot have any. WithPauses returns the trigger's Data with other planned pauses.
	Pauses(t *store.Trigger) ([]PlannedPause, error)
	WithPauses(t *store.Trigger, pauses []PlannedPause) ([]byte, error)
	// Offered returns the reason why workflows of a namespace may not react to the ends of a workflow's runs,
	// or "" if they may. The given version of the workflow decides. It returns errkind.ErrUnavailable if the
	// definition cannot be read now.
	Offered(ctx context.Context, w dag.WorkflowID, version int32, namespace string) (refusal string, err error)
	// Policy returns the rules by which the runs of a trigger are started. BackfillPolicy returns those of a
	// backfill, of which only Priority and Params are used.
	Policy(t *store.Trigger) (Policy, error)
	BackfillPolicy(b *store.Backfill) (Policy, error)
	// Params returns the parameters of a run: the defaults of the version, overridden by the given ones. It
	// evaluates expressions of the instant or the event in the given ones. trigger may be "". With an error
	// of the kind errkind.ErrInvalid, Params returns the given parameters without the values of type secret.
	Params(ctx context.Context, p ParamsQuery) ([]byte, error)
}

// Declaration holds the triggers, limits and tags that a version declares.
type Declaration struct {
	MaxRuns  int32 // the largest number of active runs of the workflow; 0 means any number
	Tags     dag.Tags
	Triggers []store.Trigger
}

// ParamsQuery requests the parameters of a run that a trigger or a backfill starts.
type ParamsQuery struct {
	Workflow dag.WorkflowID
	Version  int32
	Given    []byte // a JSON object, or nil; its strings may contain ${{ }}
	Instant  dag.Micros
	Event    []byte // a JSON value, or nil
	Literal  bool   // the strings of Given are data: no expression in them is evaluated
}

// PlannedPause is a range in which a trigger does not fire: its instants in [From, Until) are skipped.
type PlannedPause struct {
	From   dag.Micros `json:"from"`
	Until  dag.Micros `json:"until"`
	Actor  string     `json:"actor,omitempty"`
	Reason string     `json:"reason,omitempty"`
}

// Plan holds the decisions that a trigger has to make now. Starts and Lines are in the order of their
// instants.
type Plan struct {
	Starts []Start
	// Lines are outcomes that need no run. Only At, Last, Count, Outcome and Reason are used.
	Lines []store.Fire
	// The columns of the trigger's row after the plan.
	Next, Decided dag.Micros
	State, Reason string // "" if unchanged
	Data          []byte // nil if unchanged
}

// Start is a run that a trigger has to start.
type Start struct {
	Instant dag.Micros   // the logical instant: trigger.time
	Key     string       // an event's id; "" means an instant of the schedule
	Late    bool         // the outcome is late, not fired
	Reason  store.Reason // the reason of the lateness, or a description of the event
	Refused store.Reason // the reason why no run may start, for the ledger; "" if a run may start
	StartBy dag.Micros   // 0 means no limit
	Event   []byte       // a JSON value for trigger.event, or nil
	Trace   string       // the trace context of the caller or event that started the run; "" if there is none
}

// Occurrence is an event of a sensor, or a person's request that a trigger fires now.
type Occurrence struct {
	Key    string       // the id of the event: an event that is delivered twice fires once
	Event  []byte       // a JSON value for trigger.event, or nil
	Reason store.Reason // the event in a few words
	Actor  string       // the person who fires the trigger, even if it is paused; "" if a sensor fires the trigger
	Trace  string       // the trace context of the caller, as dag.ParseTrace returns it; "" if there is none
	// Seen names the event across all triggers: an event with a known Key fires only one trigger. Key may be
	// empty.
	Seen struct{ Scope, Key string }
	// Filtered is the reason why the trigger rejects the event, or "". A rejected event starts nothing, now
	// or later. Only Seen is stored.
	Filtered string
}

// OutcomeFiltered is the outcome of an event that the trigger rejects. Such an event has no line in the
// ledger.
const OutcomeFiltered = "filtered"

// Occurred is the result of an occurrence.
type Occurred struct {
	Run      dag.RunID // zero if there is none
	Outcome  string
	Reason   store.Reason
	Existing bool // the same occurrence was recorded before
}

// The overlap policies: what a trigger does with its next run while earlier runs are active.
const (
	OverlapSkip   = "skip"  // start no further run while MaxRuns runs of the trigger are active
	OverlapQueue  = "queue" // while MaxRuns runs are active, let up to QueueMax further runs wait
	OverlapCancel = "cancel_running"
	OverlapAllow  = "allow" // make the run; it waits while MaxRuns runs are active
	OverlapWait   = "wait"  // take no batch of events while MaxRuns runs are active
)

// Policy holds the rules for the runs of a trigger.
type Policy struct {
	Overlap  string
	MaxRuns  int32 // 0 means any number
	QueueMax int32 // only for overlap: queue
	Priority dag.Priority
	FailLost bool
	Params   []byte // a JSON object, or nil; its strings may contain ${{ }}
}

// Ended is a run that has just ended, as triggers see it.
type Ended struct {
	// Start, if not empty, is the id of the event that the scheduler has started. In this case there is no
	// run, and only Finished of the other fields is used.
	Start     string
	Run       dag.RunID
	Workflow  string // namespace/name
	State     dag.RunState
	Instant   dag.Micros // instant of the run
	Finished  dag.Micros
	Successor bool   // the trigger that gets this value has itself started the run
	Refused   string `json:",omitempty"` // the reason why the trigger may not react to this end; "" if it may
	// Trace is the trace context for a run of another workflow that the end of this run starts. It is "" if
	// there is none.
	Trace string `json:",omitempty"`
}
