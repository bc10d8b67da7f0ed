package sim

import (
	"fmt"

	"skein.dev/skein/internal/dag"
)

// naive computes the state of every task only from the text of the graph and the attempts. It states the
// rules a second time, in the simplest form.
func (p *plan) naive(attempts []dag.AttemptRow) []dag.TaskState {
	states := make([]dag.TaskState, len(p.needs))
	last := make([]*dag.AttemptRow, len(p.needs))
	for i := range attempts {
		if a := &attempts[i]; a.Task >= 0 && int(a.Task) < len(last) && (last[a.Task] == nil || last[a.Task].Token < a.Token) {
			last[a.Task] = a
		}
	}
	for t := range p.needs { // in this order, tasks come after the tasks that they need
		if last[t] != nil {
			states[t] = afterAttempt(last[t])
			if states[t] != dag.Ready {
				continue
			}
		}
		states[t] = p.judged(t, states)
	}
	return states
}

// afterAttempt returns the state of a task after its newest attempt. Ready means that this attempt does not
// affect the state.
func afterAttempt(a *dag.AttemptRow) dag.TaskState {
	switch a.State {
	case dag.AttemptAssigned:
		return dag.Assigned
	case dag.AttemptRunning:
		return dag.Running
	case dag.AttemptSucceeded:
		return dag.Succeeded
	case dag.AttemptStopped:
		return dag.Stopped
	case dag.AttemptLost:
		if a.Cause == dag.CausePoison {
			return dag.Failed
		}
		if a.RetryAt == 0 {
			return dag.Ready
		}
	}
	if a.RetryAt != 0 {
		return dag.RetryWait
	}
	return dag.Failed
}

func (p *plan) judged(t int, states []dag.TaskState) dag.TaskState {
	failed, succeeded, settled := false, len(p.needs[t]) == 0, true
	for _, n := range p.needs[t] {
		switch states[n] {
		case dag.Failed, dag.UpstreamFailed:
			failed = true
		case dag.Succeeded:
			succeeded = true
		case dag.Skipped:
		default:
			settled = false
		}
	}
	c := p.ifs[t]
	waits := c == "always" || c == "failure"
	switch {
	case failed && !waits:
		return dag.UpstreamFailed
	case !settled:
		return dag.Pending
	case c == "always", c == "failure" && failed:
		return dag.Ready
	case c == "failure", c == "never", !succeeded:
		return dag.Skipped
	}
	return dag.Ready
}

func ends(s dag.TaskState) bool {
	switch s {
	case dag.Succeeded, dag.Failed, dag.UpstreamFailed, dag.Stopped, dag.Skipped:
		return true
	}
	return false
}

// ended checks the end of a run.
func (p *plan) ended(r *dag.RunRow, attempts []dag.AttemptRow) error {
	states := p.naive(attempts)
	failures, open := 0, 0
	for t, s := range states {
		switch {
		case s == dag.Assigned || s == dag.Running:
			return fmt.Errorf("task %d is still %s", t, s)
		case s == dag.Failed || s == dag.UpstreamFailed:
			failures++
		case !ends(s) || s == dag.Stopped:
			open++
		}
	}
	switch {
	case open > 0 && r.Intent < dag.IntentStop:
		return fmt.Errorf("%d tasks are not done, and nobody stopped it: %v", open, states)
	case r.State == dag.RunSucceeded && (open > 0 || failures > 0):
		return fmt.Errorf("%d tasks failed, %d did not run: %v", failures, open, states)
	case r.State == dag.RunFailed && failures == 0 && r.Intent < dag.IntentStop:
		return fmt.Errorf("no task failed: %v", states)
	case r.State == dag.RunStopped && r.Intent < dag.IntentStop:
		return fmt.Errorf("nobody stopped it")
	}
	return nil
}
