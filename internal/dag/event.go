package dag

import "time"

// EventKind is the kind of an event.
type EventKind uint8

// The events of a run.
const (
	EvSubmit    EventKind = iota + 1 // the first event: the run is accepted
	EvSplit                          // the split ended: its result is Graph or Err
	EvAssign                         // a slot was booked: Task is assigned to Handler
	EvStarted                        // the attempt has been running since At
	EvReport                         // the attempt ended: Result
	EvLost                           // the handler of the attempt is gone or, with Here, no longer has the attempt
	EvTimer                          // a timer that Step requested is due
	EvIntent                         // an operator sets Intent
	EvRecover                        // an operator recovers the run
	EvCheck                          // the run is checked, and repaired if no event would move it
	EvAdmit                          // the condition of a waiting run is met; the run then begins as with EvSubmit
	EvMark                           // an operator decides about one task, with Mark
	EvArm                            // the owner has prepared a deferred task: Due, Child
	EvSettle                         // the event that a deferred task waits for has happened: Result
	EvDeny                           // a waiting run is denied its claim: it ends with Cause and Reason
	EvRefuse                         // the tasks that wait for a slot of Queue fail with Reason, because they cannot get one
	EvEvaluated                      // the owner evaluated conditions: Evaluated, of Generation
	EvReleased                       // the errand for a handle has ended; Reason says why it failed, or is ""; Actor has dismissed an orphan
)

var eventNames = [...]string{"", "submitted", "split", "assigned", "started", "ended", "lost", "timer", "intent", "recovered", "checked", "admitted", "marked", "armed", "settled", "denied", "refused", "evaluated", "released"}

func (k EventKind) String() string { return eventNames[k] }

// Event is one event of a run. Its Kind decides which fields are used.
type Event struct {
	Kind    EventKind
	Task    TaskID
	Token   Token
	Handler HandlerID
	At      Micros // EvStarted: when the process began
	Handle  string // EvStarted: the handle that names work outside of the process; "" if there is none
	Adopts  bool   // EvStarted: see Result
	Result  Result
	Timer   TimerKind
	Intent  Intent
	Graph   *Graph // EvSubmit, EvSplit, EvAdmit: the graph; with EvAdmit, nil means that the run must still be split
	Wait    string // EvSubmit, EvAdmit, EvRecover, EvMark: why the run must wait; "" if it need not wait
	Cause   Cause  // EvDeny: the cause of the run's end
	Queue   string // EvRefuse: the name of the queue
	Skip    bool   // EvDeny: the run ends skipped, not failed
	Own     bool   // EvSubmit, EvSplit: Graph is not the version's; it is stored with the run
	Err     string // EvSplit: the reason why the run cannot be split
	Params  []byte // EvSplit with raw parameters: the completed parameters or, with Err, those that the row may keep
	Scope   Scope  // EvRecover: the part of the run to repeat; each scope except ScopeFailed begins at Task
	Mark    Mark
	Outputs []byte // EvMark with MarkSucceeded: a JSON object, or nil
	Actor   string // EvIntent, EvRecover, EvMark, EvSettle: the person or service
	Reason  string // EvIntent, EvRecover, EvMark, EvLost, EvSettle, EvDeny, EvRefuse, EvCheck with Fault: the reason
	Here    bool   // EvLost: the handler is alive but does not have the attempt, so no node has failed
	Of      Kind   // EvArm, EvSettle: the expected kind of the task
	Due     Micros // EvArm: the instant for which the task waits; 0 if there is none
	Child   Child  // EvArm, EvSettle of a call: the started run; EvSettle of a foreach: the generation whose outputs were read
	Items   *Items // EvArm of a foreach: its items
	// Fault belongs to EvCheck: the fault that recovery found and that the step repairs; "" if the step only
	// checks.
	Fault string

	Generation int32       // EvEvaluated: the generation of the results
	Evaluated  []Evaluated // EvEvaluated: the results
}

// Result is the end of an attempt, as its holder reports it.
type Result struct {
	State    AttemptState // AttemptSucceeded, AttemptFailed or AttemptStopped
	Cause    Cause
	Exited   bool // ExitCode is valid
	ExitCode int32
	Signal   string // the signal's name, if one ended it
	Message  string // a sentence for people about the end of the attempt
	Outputs  []byte // a JSON object, or nil
	Handle   string // the name of the work that the attempt started outside of its process; "" if there is none
	Adopts   bool   // if there is a handle: the next attempt may continue that work, as with Policy.Adopts
	Logged   int64  // the number of bytes in its log
	Left     int64  // the number of bytes in its artifacts
	TimedOut bool   // the attempt exceeded its timeout and continued (on_timeout: warn)
	Started  Micros // 0 means never started
	Finished Micros
}

// LostNoRoom is the reason why an attempt was lost before it began: the disk of its holder is full.
const LostNoRoom = "its node has no room on its disk"

// Cause is the reason why a task or a run ended as it did. "" means the ordinary end.
type Cause string

// The causes that this package sets. Workers add causes of their own, such as "signal" and "start".
const (
	CauseExit      Cause = "exit"      // exit code other than 0
	CauseOutput    Cause = "output"    // the outputs or artifacts of the attempt cannot be accepted
	CauseTimeout   Cause = "timeout"   // the timeout of the attempt, the task or the run has passed
	CausePermanent Cause = "permanent" // the task function says that a retry cannot succeed
	CauseOverdue   Cause = "overdue"   // the timeout and the grace period have passed without a report of the holder
	CauseCondition Cause = "condition" // the condition (if) of the task could not be evaluated
	CauseLost      Cause = "lost"      // the handler is gone
	CauseNodeGone  Cause = "node_gone" // the handler of the attempt is gone, and the task may not run on another handler
	CausePoison    Cause = "poison"    // the task lost its handler too often
	CauseNoRetake  Cause = "if_lost"   // lost, and the trigger has if_lost: fail
	CauseOnLost    Cause = "on_lost"   // lost, and the task has on_lost: fail
	CauseAsk       Cause = "ask"       // lost, and the task has on_lost: ask
	CauseDeadline  Cause = "start_deadline"
	CauseMarked    Cause = "marked"       // an operator decided how the task ended
	CauseSkip      Cause = "skipped"      // an operator decided that the task does not run
	CauseRetry     Cause = "retry"        // an operator decided that the task runs now
	CauseFrom      Cause = "start_from"   // the run begins at this task
	CauseHalted    Cause = "task_stopped" // an operator stopped the task, not its run
	CauseMissed    Cause = "missed"       // the run did not begin in time
	CauseStopped   Cause = "stopped"
	CauseKilled    Cause = "killed"
	CauseTask      Cause = "task_failed" // run: a task failed
	CauseSplit     Cause = "split"       // run: the Leader could not make its tasks
	CauseCorrupt   Cause = "corrupt"     // run: it was quarantined
	CauseChild     Cause = "child"       // call: the called run did not succeed
	CauseRejected  Cause = "rejected"    // approval: a person rejected it
	CausePrepare   Cause = "prepare"     // logical task: its definition or its target cannot be resolved
	CauseInstances Cause = "instances"   // foreach: some of its instances failed
	CauseQueue     Cause = "queue"       // run or task: its queue does not exist, or accepts no waiting runs
	CauseLock      Cause = "lock"        // run: it cannot get its locks
	CauseCycle     Cause = "wait_cycle"  // run: it waited for itself through other runs
	CauseQuota     Cause = "quota"       // run or call: the namespace may not start another run
)

// Causes lists the causes that the domain sets, and those that processes report.
func Causes() []Cause {
	return []Cause{
		"signal", "start", "memory", "artifacts", "inputs", "secret", "connection", "away",
		CauseExit, CauseOutput, CauseTimeout, CausePermanent, CauseOverdue, CauseCondition, CauseLost,
		CauseNodeGone, CausePoison, CauseNoRetake, CauseOnLost, CauseAsk, CauseDeadline, CauseMarked, CauseSkip,
		CauseRetry, CauseFrom, CauseHalted, CauseMissed, CauseStopped, CauseKilled, CauseTask, CauseSplit,
		CauseCorrupt, CauseChild, CauseRejected, CausePrepare, CauseInstances, CauseQueue, CauseLock, CauseCycle,
		CauseQuota,
	}
}

// TimerKind is the purpose of a timer.
type TimerKind uint8

// The timers of a run.
const (
	TimerRetry      TimerKind = iota + 1 // the pause before a retry has passed
	TimerTimeout                         // the timeout of an attempt has passed, and on_timeout is warn
	TimerOverdue                         // the holder should have reported the end of an attempt by now
	TimerRunTimeout                      // the timeout of the run has passed
	TimerStartBy                         // the run ends if it has not begun by now
	TimerStart                           // the start deadline of a ready task has passed
	TimerDeferred                        // a deferred task is due, or has reached its timeout
	TimerLook                            // the owner checks the condition of a deferred task again
	TimerRelease                         // the run stops waiting for the release of a handle
)

// overdueAfter is how long a run waits for the report of a holder after the timeout and grace of an attempt
// have passed. Then the run settles the attempt without a report.
const overdueAfter = 10 * time.Second

// Timer requests an event at the time Due (of the Mono clock). A timer is never cancelled. Instead, Step
// ignores a timer whose token is no longer the newest token of the task.
type Timer struct {
	Due   time.Duration
	Run   RunID
	Kind  TimerKind
	Task  TaskID
	Token Token
}

// Cancel asks an attempt's holder to end it.
type Cancel struct {
	Run   RunID
	Task  TaskID
	Token Token
	// Handler is the holder of the attempt.
	Handler HandlerID
	Kill    bool // send KILL at once, instead of TERM, then grace, then KILL
}

// Effects collects what steps request from the owner, apart from rows. The owner executes the requests after
// the commit. A crash may lose them, and a reload makes them again.
type Effects struct {
	Timers  []Timer
	Cancels []Cancel
	// Prepares lists deferred tasks. The owner must find out for which event each of them waits.
	Prepares []Prepare
	// Orders are messages to child runs. Unlike the other effects they are written in the transaction,
	// because a reload does not make them again.
	Orders []Order
	// Errands are handles to be released. Like Orders, they are written in the transaction.
	Errands []Errand
	// Orphans are handles whose release the run no longer waits for. The owner reports them to an operator.
	Orphans []Orphan
	// Poisoned are tasks that failed because they were lost too often. The owner reports them to an operator.
	Poisoned []Poisoned
	// Notes are for alert rules, which the owner applies in the transaction.
	Notes []Note
	// Evaluations are conditions that were not evaluated inside the step. The owner evaluates them and
	// answers with EvEvaluated.
	Evaluations []Evaluation
	// Evaluate evaluates a condition inside a step, or returns ErrCostly. The owner sets it. If it is nil, each
	// condition that costs at most StepCostMax is evaluated inside the step.
	Evaluate func(Condition, View) (bool, error)
}

// Poisoned is a task that failed because it was lost too often. It probably crashes every worker that runs
// it.
type Poisoned struct {
	Run  RunID
	Task string // the name of the task; "" means the split of the run
}

// Reset empties the Effects for the next transaction.
func (fx *Effects) Reset() {
	fx.Timers = fx.Timers[:0]
	fx.Cancels = fx.Cancels[:0]
	fx.Prepares = fx.Prepares[:0]
	fx.Orders = fx.Orders[:0]
	fx.Poisoned = fx.Poisoned[:0]
	clear(fx.Notes)
	fx.Notes = fx.Notes[:0]
	fx.Errands, fx.Orphans = fx.Errands[:0], fx.Orphans[:0]
	clear(fx.Evaluations)
	fx.Evaluations = fx.Evaluations[:0]
}

// Verdict is the answer to an event. Only Accepted means that the event changed something. The text of any
// other verdict is the rejection that the sender gets.
type Verdict uint8

// The verdicts.
const (
	Accepted  Verdict = iota
	Duplicate         // the event had already happened; the sender may forget it
	Stale             // the token or the holder is not the newest of the task
	RunEnded          // the run has ended
	NoSuchTask
	WrongState // the state does not allow the verb
)

var verdictNames = [...]string{"accepted", "duplicate", "fenced", "run_ended", "no_such_task", "wrong_state"}

func (v Verdict) String() string { return verdictNames[v] }
