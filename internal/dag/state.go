package dag

import "fmt"

// TaskState is the state of a task. Its text is stored and shown.
type TaskState uint8

// The states of a task. Rows contain only assigned, running and the ends of attempts. Derive computes the
// other states.
const (
	Pending        TaskState = iota // the task waits for its needs
	Ready                           // the task may run, and waits for a slot
	Assigned                        // assigned to a handler under a token
	Running                         // the attempt has reported that it runs
	RetryWait                       // failed, and will be retried
	Succeeded                       // an end
	Failed                          // an end
	UpstreamFailed                  // an end: a needed task failed
	Stopped                         // an end
	Skipped                         // an end: the condition was false, or all needed tasks were skipped
	Deferred                        // waits for something outside the run, and holds no slot
	taskStates
)

var taskStateNames = [taskStates]string{"pending", "ready", "assigned", "running", "retry_wait",
	"succeeded", "failed", "upstream_failed", "stopped", "skipped", "deferred"}

func (s TaskState) String() string { return taskStateNames[s] }

// TaskStates lists every state, in the order of a task's life.
func TaskStates() []TaskState {
	all := make([]TaskState, 0, taskStates)
	for s := range taskStates {
		switch s {
		case Deferred: // the number of Deferred is higher than its place in the life of a task
		case RetryWait:
			all = append(all, RetryWait, Deferred)
		default:
			all = append(all, s)
		}
	}
	return all
}

// Terminal reports whether s is an end within a generation.
func (s TaskState) Terminal() bool { return s >= Succeeded && s != Deferred }

// Held reports whether a handler holds the task.
func (s TaskState) Held() bool { return s == Assigned || s == Running }

// fails reports whether s makes the dependents of a task upstream_failed.
func (s TaskState) fails() bool { return s == Failed || s == UpstreamFailed }

// settled reports whether dependents count a task in state s as done. It returns false for stopped: the end
// of the run decides the dependents of a stopped task.
func (s TaskState) settled() bool { return s.Terminal() && s != Stopped }

// RunState is the state of a run.
type RunState uint8

// The states of a run.
const (
	RunSubmitted RunState = iota // accepted: the row exists
	RunWaiting                   // a limit, a lock or an instant delays the run
	RunSplitting                 // the Leader makes its tasks
	RunRunning
	RunSuspended // no task runs; the run waits for children, approvals or timers
	RunPaused    // no task runs, and none starts until the run is resumed
	RunFinalising
	RunSucceeded
	RunFailed
	RunStopped
	RunSkipped
	runStates
)

var runStateNames = [runStates]string{"submitted", "waiting", "splitting", "running", "suspended",
	"paused", "finalising", "succeeded", "failed", "stopped", "skipped"}

func (s RunState) String() string { return runStateNames[s] }

// ParseRunState reads the text form.
func ParseRunState(text string) (RunState, bool) {
	for i, n := range runStateNames {
		if n == text {
			return RunState(i), true
		}
	}
	return 0, false
}

// Terminal reports whether s is an end within a generation.
func (s RunState) Terminal() bool { return s >= RunSucceeded }

// AttemptState is the state of one attempt.
type AttemptState uint8

// The states of an attempt.
const (
	AttemptAssigned AttemptState = iota
	AttemptRunning
	AttemptSucceeded
	AttemptFailed
	AttemptStopped
	AttemptLost     // the handler is gone, so the outcome is unknown
	AttemptDeferred // an attempt of a logical task: no handler has it, and it waits for an event outside the run
	attemptStates
)

var attemptStateNames = [attemptStates]string{"assigned", "running", "succeeded", "failed", "stopped", "lost", "deferred"}

func (s AttemptState) String() string { return attemptStateNames[s] }

// ParseAttemptState reads the text form.
func ParseAttemptState(text string) (AttemptState, bool) {
	for i, n := range attemptStateNames {
		if n == text {
			return AttemptState(i), true
		}
	}
	return 0, false
}

// Ended reports whether the attempt has ended.
func (s AttemptState) Ended() bool { return s >= AttemptSucceeded && s != AttemptDeferred }

// Known reports whether s is a valid state.
func (s AttemptState) Known() bool { return s < attemptStates }

// Intent is what an operator, or a rule of the run, wants for a run. It is stored. It only rises, except that
// a pause can be taken back. Every transition obeys it, also after a recovery.
type Intent uint8

// The intents, in rising order.
const (
	IntentRun   Intent = iota
	IntentPause        // running attempts finish, no task starts
	IntentStop         // no task starts; running attempts get TERM, grace, KILL
	IntentKill         // running attempts get KILL
	intents
)

var intentNames = [intents]string{"run", "pause", "stop", "kill"}

func (i Intent) String() string { return intentNames[i] }

// ParseIntent reads the text form.
func ParseIntent(text string) (Intent, bool) {
	for i, n := range intentNames {
		if n == text {
			return Intent(i), true
		}
	}
	return 0, false
}

// taskMoves is the only table of legal moves of a task. All changes of the state of a task follow it.
var taskMoves = [taskStates][]TaskState{
	Pending:   {Ready, Skipped, UpstreamFailed, Failed, Stopped, Succeeded},
	Ready:     {Assigned, Deferred, Stopped, Skipped, Failed, Succeeded, Pending},
	Assigned:  {Running, Succeeded, Failed, RetryWait, Stopped, Ready},
	Running:   {Succeeded, Failed, RetryWait, Stopped, Ready},
	RetryWait: {Ready, Stopped, Failed, Skipped, Succeeded},
	Deferred:  {Succeeded, Failed, Stopped, Skipped},
	// A new generation takes back these ends; see regenerate.
	Failed: {Pending}, UpstreamFailed: {Pending}, Stopped: {Pending}, Skipped: {Pending}, Succeeded: {Pending},
}

// runMoves is the only table of legal moves of a run.
var runMoves = [runStates][]RunState{
	RunSubmitted:  {RunWaiting, RunSplitting, RunRunning, RunFailed, RunStopped, RunSkipped},
	RunWaiting:    {RunSplitting, RunRunning, RunFailed, RunStopped, RunSkipped},
	RunSplitting:  {RunRunning, RunFailed, RunStopped, RunSkipped},
	RunRunning:    {RunSuspended, RunPaused, RunFinalising, RunSucceeded, RunFailed, RunStopped, RunSkipped},
	RunSuspended:  {RunRunning, RunPaused, RunFinalising, RunSucceeded, RunFailed, RunStopped},
	RunPaused:     {RunRunning, RunFinalising, RunSucceeded, RunFailed, RunStopped, RunSkipped},
	RunFinalising: {RunSucceeded, RunFailed, RunStopped},
	// A new generation.
	RunFailed: {RunRunning, RunWaiting}, RunStopped: {RunRunning, RunWaiting}, RunSucceeded: {RunRunning, RunWaiting},
}

func legal[S comparable](moves []S, to S) bool {
	for _, m := range moves {
		if m == to {
			return true
		}
	}
	return false
}

// moveTask makes one legal move. An illegal move is a bug: the owner then quarantines the run and does not
// write it.
func (r *Run) moveTask(t TaskID, to TaskState) {
	s := &r.tasks[t]
	if !legal(taskMoves[s.state], to) {
		panic(fmt.Sprintf("dag: task %s of run %s cannot go from %s to %s", r.Graph.Name(t), r.ID, s.state, to))
	}
	switch {
	case to.Terminal():
		r.left--
	case s.state.Terminal():
		r.left++
	}
	r.dropQuestions(t)
	from := s.state
	r.count(t, from, -1)
	r.count(t, to, 1)
	r.tally(t, from, to)
	s.state = to
	if int(t) >= r.Graph.fixed() {
		r.moved(t, from, to)
	} else if to.Terminal() && r.spreads[t] != nil {
		r.stir(t)
	}
}

// count changes the numbers of tasks in the states that matter for a suspended run. The parameter by is 1 or
// -1.
func (r *Run) count(t TaskID, s TaskState, by int32) {
	switch s {
	case RetryWait:
		r.retrying += by
	case Deferred:
		r.deferred += by
		switch r.Graph.Kind(t) {
		case Foreach:
			r.fanning += by
		case Approval:
			r.awaits(by)
		}
	}
}

func (r *Run) moveRun(to RunState) {
	if !legal(runMoves[r.State], to) {
		panic(fmt.Sprintf("dag: run %s cannot go from %s to %s", r.ID, r.State, to))
	}
	r.State = to
	r.changed = true
}
