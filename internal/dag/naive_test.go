package dag

import "fmt"

// fact is all that is known of one task from outside: what became of its attempts.
type fact struct {
	held      bool // assigned or running
	running   bool
	succeeded bool
	stopped   bool
	halted    bool // stopped for itself: it fails what needs it
	skipped   bool // by an operator
	waiting   bool // its last failure is to be tried again, and the time is not over
	failed    bool // finally
	out       []byte
}

// naive is the second implementation: it knows nothing but the specification, keeps
// nothing, and computes everything anew each time. stop is how it ends because an operator
// or its cap wants it to, before a failure did; RunRunning: nobody does.
func naive(spec GraphSpec, params []byte, facts map[string]*fact, stop RunState) (map[string]TaskState, RunState) {
	state := map[string]TaskState{}
	for range spec.Tasks { // enough rounds for the longest path
		for i := range spec.Tasks {
			state[spec.Tasks[i].Name] = naiveTask(&spec.Tasks[i], params, facts, state)
		}
	}
	held, over, failed := false, true, false
	for name, s := range state {
		failed = failed || halted(facts, name)
		held = held || s == Assigned || s == Running
		failed = failed || s == Failed || s == UpstreamFailed
		over = over && s >= Succeeded
	}
	if held || !over && stop == RunRunning && !(failed && spec.EndOnFailure) {
		return state, RunRunning
	}
	for name, s := range state {
		if s < Succeeded {
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

func naiveTask(t *TaskSpec, params []byte, facts map[string]*fact, state map[string]TaskState) TaskState {
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
		case f.running:
			return Running
		case f.held:
			return Assigned
		case f.waiting:
			return RetryWait
		}
	}
	settled, failure, success := true, false, len(t.Needs) == 0
	for _, n := range t.Needs {
		settled = settled && state[n] >= Succeeded && (state[n] != Stopped || halted(facts, n))
		failure = failure || state[n] == Failed || state[n] == UpstreamFailed || halted(facts, n)
		success = success || state[n] == Succeeded
	}
	handles := t.If != nil && t.If.Handles()
	switch {
	case failure && !handles:
		return UpstreamFailed
	case !settled:
		return Pending
	case !success && !handles:
		return Skipped
	case t.If == nil:
		return Ready
	}
	for _, name := range t.If.Reads().Tasks {
		if state[name] < Succeeded {
			return Pending
		}
	}
	holds, err := t.If.Holds(View{Success: success && !failure, Failure: failure, Params: params,
		Task: func(name string) (TaskState, []byte) {
			var out []byte
			if f := facts[name]; f != nil && state[name] == Succeeded {
				out = f.out
			}
			return state[name], out
		}})
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

// sameAsNaive compares a run in memory with what the second implementation says.
func sameAsNaive(r *Run, spec GraphSpec, params []byte, facts map[string]*fact, stop RunState) error {
	states, run := naive(spec, params, facts, stop)
	for t := range r.tasks {
		if name := r.Graph.Name(TaskID(t)); r.tasks[t].state != states[name] {
			return fmt.Errorf("task %s is %s, naively %s", name, r.tasks[t].state, states[name])
		}
	}
	if r.State != run && !(r.State == RunPaused && run == RunRunning) {
		return fmt.Errorf("the run is %s, naively %s", r.State, run)
	}
	return nil
}
