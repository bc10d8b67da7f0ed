package dag

import (
	"fmt"
	"slices"
)

// fact holds the facts about one task that are known from outside: the results of its attempts.
type fact struct {
	held      bool // assigned or running
	running   bool
	succeeded bool
	stopped   bool
	halted    bool // the task alone was stopped, so it fails the tasks that need it
	skipped   bool // by an operator
	waiting   bool // its last attempt failed and will be retried, and the pause has not passed
	failed    bool // finally
	out       []byte
	deferred  bool     // a logical task has begun and waits
	armed     bool     // a call whose child run exists
	overdue   bool     // a call that waited for too long
	items     []string // for a foreach: the names of its instances; nil while they are unknown
	late      bool     // for a foreach: one of its instances ended when the run was already being ended
}

// naive is the second implementation. It knows only the specification, stores nothing, and computes
// everything each time. stop is the state in which an operator or the timeout ends the run before a failure
// does. RunRunning means that neither does.
func naive(spec GraphSpec, params []byte, facts map[string]*fact, stop RunState, paused bool) (map[string]TaskState, RunState) {
	n := naiveRun{spec: &spec, params: params, facts: facts, end: stop != RunRunning, joined: map[string]bool{}}
	state, held, over, failed := n.look()
	if failed && spec.EndOnFailure && !n.end {
		n.end = true
		state, held, over, failed = n.look()
	}
	if !n.end && !paused { // logical tasks begin and may fail, which may end the run
		n.begin = true
		state, held, over, failed = n.look()
		if failed && spec.EndOnFailure {
			n.end = true
			state, held, over, failed = n.look()
		}
	}
	if held || !over && !n.end {
		return state, n.alive(state, paused)
	}
	for name, s := range state {
		if !s.Terminal() {
			state[name] = Stopped
		}
	}
	switch {
	case stop != RunRunning:
		return state, stop
	case failed:
		return state, RunFailed
	}
	return state, RunSucceeded
}

// naiveRun is one computation of all states.
type naiveRun struct {
	spec   *GraphSpec
	params []byte
	facts  map[string]*fact
	begin  bool // ready logical tasks are begun
	end    bool // the run is being ended
	state  map[string]TaskState
	outs   map[string][]byte // the outputs of switches that chose in this round
	joined map[string]bool   // foreach tasks that have succeeded by themselves, so that a later failure ends the run too late for them
}

func (n *naiveRun) look() (state map[string]TaskState, held, over, failed bool) {
	n.state, n.outs = map[string]TaskState{}, map[string][]byte{}
	for range 2 * len(n.spec.Tasks) { // enough rounds for the longest path
		for i := range n.spec.Tasks {
			t := &n.spec.Tasks[i]
			n.state[t.Name] = n.logical(t, n.task(t))
		}
	}
	over = true
	for name, s := range n.state {
		held = held || s == Assigned || s == Running || s == Deferred && n.end && !n.isForeach(name) // a call: its child ends first
		failed = failed || s == Failed || s == UpstreamFailed || halted(n.facts, name)
		over = over && s.Terminal()
	}
	return n.state, held, over, failed
}

// logical returns the state that a logical task reaches by itself.
func (n *naiveRun) logical(t *TaskSpec, s TaskState) TaskState {
	f := n.facts[t.Name]
	switch {
	case t.Logic == nil:
		return s
	case f != nil && f.items != nil:
		if end := n.foreach(t, f); s == Deferred {
			return end
		}
		return s
	case s == Deferred && n.end && !f.armed:
		return Stopped
	case s != Ready || !n.begin || n.end:
		return s
	case t.Logic.Kind != Switch:
		return Deferred
	}
	then := ""
	for i := range t.Logic.Branches {
		if b := &t.Logic.Branches[i]; b.If == nil || n.holds(t, b.If) {
			then = b.Then
			break
		}
	}
	n.outs[t.Name] = []byte(`{"branch":"` + then + `"}`)
	return Succeeded
}

func (n *naiveRun) holds(t *TaskSpec, c Condition) bool {
	failure, success := false, len(t.Needs) == 0
	for _, need := range t.Needs {
		failure = failure || n.state[need] == Failed || n.state[need] == UpstreamFailed || halted(n.facts, need)
		success = success || n.state[need] == Succeeded
	}
	holds, err := c.Holds(n.view(success, failure))
	return holds && err == nil
}

// alive returns the state of an unfinished run: running if it makes progress, and suspended if it only waits.
func (n *naiveRun) alive(state map[string]TaskState, paused bool) RunState {
	waits := false
	for i := range n.spec.Tasks {
		if t := &n.spec.Tasks[i]; t.isForeach() && state[t.Name] == Deferred && !n.calling(t) {
			return RunRunning
		}
	}
	for _, s := range state {
		if s == Assigned || s == Running || s == Ready || s == RetryWait {
			return RunRunning
		}
		waits = waits || s == Deferred
	}
	if waits && !paused && !n.end {
		return RunSuspended
	}
	return RunRunning
}

func (n *naiveRun) isForeach(name string) bool {
	i := slices.IndexFunc(n.spec.Tasks, func(t TaskSpec) bool { return t.Name == name })
	return i >= 0 && n.spec.Tasks[i].isForeach()
}

// calling reports whether an instance of a foreach task waits for its child run.
func (n *naiveRun) calling(t *TaskSpec) bool {
	f := n.facts[t.Name]
	return f != nil && slices.ContainsFunc(f.items, func(name string) bool { return n.state[name] == Deferred })
}

func (n *naiveRun) task(t *TaskSpec) TaskState {
	facts, state := n.facts, n.state
	if f := facts[t.Name]; f != nil {
		switch {
		case f.succeeded:
			return Succeeded
		case f.failed:
			return Failed
		case f.stopped, f.halted:
			return Stopped
		case f.skipped:
			return Skipped
		case f.deferred:
			return Deferred
		case f.running:
			return Running
		case f.held:
			return Assigned
		case f.waiting:
			return RetryWait
		}
	}
	settled, failure, success, left := true, false, len(t.Needs) == 0, false
	for _, need := range t.Needs {
		left = left || state[need] == Succeeded && n.chose(need, t.Name)
		settled = settled && state[need].Terminal() && (state[need] != Stopped || halted(n.facts, need))
		failure = failure || state[need] == Failed || state[need] == UpstreamFailed || halted(n.facts, need)
		success = success || state[need] == Succeeded
	}
	handles := t.If != nil && t.If.Handles()
	switch {
	case failure && !handles:
		return UpstreamFailed
	case !settled:
		return Pending
	case left, !success && !handles:
		return Skipped
	case t.If == nil:
		return Ready
	}
	for _, name := range t.If.Reads().Tasks {
		if !state[name].Terminal() {
			return Pending
		}
	}
	holds, err := t.If.Holds(n.view(success, failure))
	switch {
	case err != nil:
		return Failed
	case holds:
		return Ready
	}
	return Skipped
}

func halted(facts map[string]*fact, name string) bool {
	return facts[name] != nil && facts[name].halted
}

// chose reports whether a succeeded switch has chosen another branch than the given one.
func (n *naiveRun) chose(s, branch string) bool {
	for i := range n.spec.Tasks {
		t := &n.spec.Tasks[i]
		if t.Name != s || t.Logic == nil || t.Logic.Kind != Switch {
			continue
		}
		for _, b := range t.Logic.Branches {
			if b.Then == branch {
				return string(n.out(s)) != `{"branch":"`+branch+`"}`
			}
		}
	}
	return false
}

func (n *naiveRun) out(name string) []byte {
	if f := n.facts[name]; f != nil && f.out != nil {
		return f.out
	}
	return n.outs[name]
}

func (n *naiveRun) view(success, failure bool) View {
	state := n.state
	return View{Success: success && !failure, Failure: failure, Params: n.params,
		Task: func(name string) (TaskState, []byte) {
			if !state[name].Terminal() {
				// The condition reads a task that has not ended. This happens only in a round before the last
				// one, while states still change.
				return Skipped, nil
			}
			var out []byte
			if state[name] == Succeeded {
				out = n.out(name)
			}
			return state[name], out
		}}
}

// sameAsNaive compares a run in memory with the second implementation.
func sameAsNaive(r *Run, spec GraphSpec, params []byte, facts map[string]*fact, stop RunState) error {
	states, run := naive(spec, params, facts, stop, r.Intent == IntentPause)
	for t := range r.tasks {
		if name := r.Graph.Name(TaskID(t)); r.tasks[t].state != states[name] {
			return fmt.Errorf("task %s is %s, naively %s", name, r.tasks[t].state, states[name])
		}
	}
	if r.State != run && !(r.State == RunPaused && (run == RunRunning || run == RunSuspended)) {
		return fmt.Errorf("the run is %s, naively %s", r.State, run)
	}
	return nil
}
