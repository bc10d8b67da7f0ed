package dag

import "time"

// EventKind is the kind of an event.
type EventKind uint8

// The events of a run.
const (
	EvSubmit    EventKind = iota + 1 // the first: the run is accepted
	EvSplit                          // Leader work ended: Graph or Err
	EvAssign                         // a slot was booked: Task goes to Handler
	EvStarted                        // the attempt is known to run, since At
	EvReport                         // the attempt ended: Result
	EvLost                           // the attempt's handler is gone, or has not got it (Here)
	EvTimer                          // a timer that Step asked for is due
	EvIntent                         // an operator wants Intent
	EvRecover                        // an operator wants what failed to be tried again
	EvCheck                          // check everything again; repairs a run that stands still
	EvAdmit                          // what a waiting run waited for is there: like EvSubmit
	EvMark                           // an operator decides about one task: Mark
	EvArm                            // a deferred task is prepared: Due, Child
	EvSettle                         // what a deferred task waited for is there: Result
	EvDeny                           // a waiting run does not get what it claims: it ends with Cause and Reason
	EvRefuse                         // tasks that wait for a place in Queue do not get one: they fail with Reason
	EvEvaluated                      // conditions were evaluated: Evaluated, of Generation
)

var eventNames = [...]string{"", "submitted", "split", "assigned", "started", "ended", "lost", "timer", "intent", "recovered", "checked", "admitted", "marked", "armed", "settled", "denied", "refused", "evaluated"}

func (k EventKind) String() string { return eventNames[k] }

// Event is one thing that happened to a run; which fields count depends on Kind.
type Event struct {
	Kind    EventKind
	Task    TaskID
	Token   Token
	Handler HandlerID
	At      Micros // EvStarted: when the process began
	Result  Result
	Timer   TimerKind
	Intent  Intent
	Graph   *Graph // EvSubmit, EvAdmit (nil: Leader work splits), EvSplit
	Wait    string // EvSubmit, EvAdmit, EvRecover, EvMark: what the run must wait for; "": nothing
	Cause   Cause  // EvDeny
	Queue   string // EvRefuse
	Skip    bool   // EvDeny: the run ends skipped, not failed
	Own     bool   // EvSubmit, EvSplit: Graph is not the version's; it is stored with the run
	Err     string // EvSplit: why it cannot be split
	Params  []byte // EvSplit of a run whose parameters were raw: the completed ones
	Scope   Scope  // EvRecover: what of the run; with any but the failed tasks, from Task
	Mark    Mark
	Outputs []byte // EvMark with MarkSucceeded: a JSON object, or nil
	Actor   string // EvIntent, EvRecover, EvMark, EvSettle: who
	Reason  string // EvIntent, EvRecover, EvMark, EvLost, EvSettle, EvDeny, EvRefuse, EvCheck with Fault: why
	Here    bool   // EvLost: whose attempt it was is there, and has not got it: no node is gone
	Of      Kind   // EvArm, EvSettle: what the task must be
	Due     Micros // EvArm: the instant that it waits for; 0: none
	Child   Child  // EvArm, EvSettle of a call: the run that it started; EvSettle of a foreach: the generation that was read
	Items   *Items // EvArm of a foreach
	Fault   string // EvCheck: what recovery found and repairs with this; "": it only looks

	Generation int32       // EvEvaluated
	Evaluated  []Evaluated // EvEvaluated
}

// Result is the end of an attempt, as its holder reports it.
type Result struct {
	State    AttemptState // AttemptSucceeded, AttemptFailed or AttemptStopped
	Cause    Cause
	Exited   bool // ExitCode counts
	ExitCode int32
	Signal   string // the signal's name, if one ended it
	Message  string // one sentence for a person
	Outputs  []byte // a JSON object, or nil
	TimedOut bool   // ran past its cap although it was let go on (on_timeout: warn)
	Started  Micros // 0: never started
	Finished Micros
}

// LostNoRoom is the reason if an attempt is lost before it began, because the disk of its holder is full.
const LostNoRoom = "its node has no room on its disk"

// Cause says why a task or a run ended as it did. "" is the ordinary end.
type Cause string

// The causes that the domain knows; workers add their own (signal, start).
const (
	CauseExit      Cause = "exit"      // exit code other than 0
	CauseOutput    Cause = "output"    // what it left behind cannot be taken
	CauseTimeout   Cause = "timeout"   // execution cap
	CausePermanent Cause = "permanent" // its handler says that another try would be in vain
	CauseOverdue   Cause = "overdue"   // execution cap, and its holder did not report
	CauseCondition Cause = "condition" // its if could not be evaluated
	CauseLost      Cause = "lost"      // its handler is gone
	CauseNodeGone  Cause = "node_gone" // its handler is gone, and the task may run nowhere else
	CausePoison    Cause = "poison"    // lost too often
	CauseNoRetake  Cause = "if_lost"   // lost, and its trigger says: fail
	CauseOnLost    Cause = "on_lost"   // lost, and the task says: fail
	CauseAsk       Cause = "ask"       // lost, and the task says: ask an operator
	CauseDeadline  Cause = "start_deadline"
	CauseMarked    Cause = "marked"       // an operator says how it ended
	CauseSkip      Cause = "skipped"      // an operator says that it is not to run
	CauseRetry     Cause = "retry"        // an operator says that it is to run now
	CauseFrom      Cause = "start_from"   // its run begins at it
	CauseHalted    Cause = "task_stopped" // an operator stopped it, not its run
	CauseMissed    Cause = "missed"       // of a run: it did not begin in time
	CauseStopped   Cause = "stopped"
	CauseKilled    Cause = "killed"
	CauseTask      Cause = "task_failed" // of a run: some task failed
	CauseSplit     Cause = "split"       // of a run: the Leader could not make tasks of it
	CauseCorrupt   Cause = "corrupt"     // of a run: quarantined
	CauseChild     Cause = "child"       // of a call: its run did not succeed
	CauseRejected  Cause = "rejected"    // of an approval
	CausePrepare   Cause = "prepare"     // of a logical task: what it is to wait for cannot be
	CauseInstances Cause = "instances"   // of a foreach: some of its instances failed
	CauseQueue     Cause = "queue"       // of a run or a task: its queue is not there, or does not let it wait
	CauseLock      Cause = "lock"        // of a run: it cannot have its locks
	CauseCycle     Cause = "wait_cycle"  // of a run: it waited for itself, by way of others
)

// Causes lists the causes that the domain sets, and those that processes report.
func Causes() []Cause {
	return []Cause{
		"signal", "start", "memory", "artifacts", "inputs", "secret",
		CauseExit, CauseOutput, CauseTimeout, CausePermanent, CauseOverdue, CauseCondition, CauseLost,
		CauseNodeGone, CausePoison, CauseNoRetake, CauseOnLost, CauseAsk, CauseDeadline, CauseMarked, CauseSkip,
		CauseRetry, CauseFrom, CauseHalted, CauseMissed, CauseStopped, CauseKilled, CauseTask, CauseSplit,
		CauseCorrupt, CauseChild, CauseRejected, CausePrepare, CauseInstances, CauseQueue, CauseLock, CauseCycle,
	}
}

// TimerKind is the purpose of a timer.
type TimerKind uint8

// The timers of a run.
const (
	TimerRetry      TimerKind = iota + 1 // a failed task is due again
	TimerTimeout                         // an attempt's cap has passed (on_timeout: warn)
	TimerOverdue                         // its holder should have reported long ago
	TimerRunTimeout                      // the run's cap has passed
	TimerStartBy                         // the run should have begun
	TimerStart                           // a ready task should have been handed over
	TimerDeferred                        // a deferred task is due, or has waited for as long as it may
	TimerLook                            // of the owner: what a deferred task waits for is looked at again
)

// overdueAfter is how long past its cap and grace an attempt may be silent before the
// run settles it without its holder.
const overdueAfter = 10 * time.Second

// Timer asks for an event when Due (on the Mono clock) is reached. Timers are never cancelled: Step ignores
// a timer whose token is no longer the task's newest.
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
	// Handler has the attempt.
	Handler HandlerID
	Kill    bool // KILL at once instead of TERM, grace, KILL
}

// Effects collects the requests of steps to the owner, other than rows. The owner executes them after the
// commit. A crash may lose them: a reload asks again.
type Effects struct {
	Timers  []Timer
	Cancels []Cancel
	// Prepares are deferred tasks whose owner has to find out what they wait for.
	Prepares []Prepare
	// Orders are messages to child runs. Unlike all other effects they belong into the transaction, because they
	// are not asked for again.
	Orders []Order
	// Poisoned are tasks that failed because they were lost too often. The owner reports them to an operator.
	Poisoned []Poisoned
	// Evaluations are conditions that were not evaluated inside of the step: their owner answers with
	// EvEvaluated.
	Evaluations []Evaluation
	// Evaluate is set by the owner. It evaluates a condition inside a step, or returns ErrCostly. If it is nil,
	// each condition that costs at most StepCostMax is evaluated there.
	Evaluate func(Condition, View) (bool, error)
}

// Poisoned is a task that is suspected to end whatever runs it.
type Poisoned struct {
	Run  RunID
	Task string // its name; "": the splitting
}

// Reset empties it for the next transaction.
func (fx *Effects) Reset() {
	fx.Timers = fx.Timers[:0]
	fx.Cancels = fx.Cancels[:0]
	fx.Prepares = fx.Prepares[:0]
	fx.Orders = fx.Orders[:0]
	fx.Poisoned = fx.Poisoned[:0]
	clear(fx.Evaluations)
	fx.Evaluations = fx.Evaluations[:0]
}

// Verdict is the answer to an event. Everything but Accepted changed nothing; its text
// is the named rejection that the sender gets.
type Verdict uint8

// The verdicts.
const (
	Accepted  Verdict = iota
	Duplicate         // it had happened already; the sender may forget it
	Stale             // token or holder are not the task's newest
	RunEnded          // the run is over
	NoSuchTask
	WrongState // the verb does not fit the state
)

var verdictNames = [...]string{"accepted", "duplicate", "fenced", "run_ended", "no_such_task", "wrong_state"}

func (v Verdict) String() string { return verdictNames[v] }
