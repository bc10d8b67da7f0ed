package dag

import "fmt"

// This file holds the rules for runs that no person started: such a run may have to begin by an instant, and
// its tasks may have to fail instead of being assigned again.

// watchStart sets a timer for the instant by which the run must have begun. The instant is a calendar time.
// So the timer is computed from the wall clock, however long the run has waited.
func (r *Run) watchStart(now Now, fx *Effects) {
	if r.Fire == nil || r.Fire.StartBy == 0 || r.begun() {
		return
	}
	left := max(r.Fire.StartBy-now.Wall, 0)
	fx.Timers = append(fx.Timers, Timer{Due: now.Mono + micros(left), Run: r.ID, Kind: TimerStartBy, Task: LeaderTask})
}

// begun reports whether the run has begun: a handler got one of its tasks, or a task ended without a handler.
// A run that has begun cannot end as skipped.
func (r *Run) begun() bool {
	if r.State.Terminal() || r.Generation > 1 {
		return true
	}
	for t := range r.tasks {
		if p := &r.tasks[t]; p.token > 0 || p.state.Terminal() {
			return true
		}
	}
	return false
}

// AwaitsStart reports whether the run has a latest start and has not begun yet.
func (r *Run) AwaitsStart() bool { return r.Fire != nil && r.Fire.StartBy != 0 && !r.begun() }

// tooLate ends a run that did not begin in time. None of its tasks has started, and none will start.
func (r *Run) tooLate(now Now) Verdict {
	if !r.AwaitsStart() || r.Intent >= IntentStop {
		return Stale
	}
	r.Cause = CauseMissed
	r.Message = fmt.Sprintf("did not begin by %s", r.Fire.StartBy.Time().Format("2006-01-02T15:04:05Z07:00"))
	if r.State == RunSplitting {
		r.dropLeader(now)
	}
	r.endRest(Skipped)
	r.finalise(RunSkipped, now)
	return Accepted
}

// unbegun returns the end that the end of its run gives to a task that had not begun, or that waited for a
// retry.
func (r *RunRow) unbegun() TaskState {
	switch {
	case r.State == RunSkipped:
		return Skipped
	case r.Cause == CauseNoRetake, r.Denied():
		return Failed
	}
	return Stopped
}

// Denied reports whether a run failed because its claim was denied or because it exceeded a quota. The states
// of its tasks do not show this: while a recovered run was queued, an operator may have marked all of its
// tasks as succeeded.
func (r *RunRow) Denied() bool {
	return r.Cause == CauseQueue || r.Cause == CauseLock || r.Cause == CauseCycle || r.Cause == CauseQuota
}

// loseRun applies "if_lost: fail" after the handler of one task is gone. No task of the run may be assigned
// to another handler, so it also stops the attempts on other handlers.
func (r *Run) loseRun(t TaskID, p *task, a *attempt, now Now, fx *Effects) {
	const why = "its handler is gone, and its trigger says if_lost: fail"
	a.Cause = CauseNoRetake
	if t == LeaderTask {
		p.state = Failed
		r.Cause, r.Message = CauseNoRetake, "splitting it: "+why
		r.finalise(RunFailed, now)
		return
	}
	r.recordEnd(a, Failed)
	r.noteFailure(t, why)
	r.failTask(t, why)
	if r.Intent < IntentStop {
		r.raise(&Event{Intent: IntentStop, Reason: "if_lost: fail"}, CauseNoRetake, now, fx)
	}
}
