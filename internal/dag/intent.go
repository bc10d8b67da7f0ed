package dag

import "time"

// intend applies an operator's verb. An intent only rises, except that resume ends a pause.
func (r *Run) intend(ev *Event, now Now, fx *Effects) Verdict {
	switch {
	case ev.Intent >= intents:
		return WrongState
	case ev.Intent == r.Intent:
		return Duplicate
	case ev.Intent == IntentRun:
		if r.Intent != IntentPause {
			return WrongState
		}
		r.resume(ev)
		r.tellChildren(fx)
	case ev.Intent < r.Intent:
		return WrongState
	case ev.Intent == IntentPause:
		r.Intent = IntentPause
		r.changed = true
		r.recordIntent(ev)
		r.tellChildren(fx)
	default:
		cause := CauseStopped
		if ev.Intent == IntentKill {
			cause = CauseKilled
		}
		if r.Intent < IntentStop && r.Message == "" {
			r.Message = ev.Reason
		}
		r.raise(ev, cause, now, fx)
	}
	r.settleRun(now, fx)
	return Accepted
}

func (r *Run) recordIntent(ev *Event) {
	r.record(Record{Kind: RecIntent, Task: LeaderTask, Actor: ev.Actor, Text: ev.Intent.String(), Reason: ev.Reason})
}

func (r *Run) resume(ev *Event) {
	r.Intent = IntentRun
	r.changed = true
	r.recordIntent(ev)
	if r.State == RunPaused {
		r.moveRun(RunRunning)
	}
}

// raise sets the intent of the verb, which is stop or kill, and orders the holders to end their attempts. The
// run keeps its first cause: if a failed run is being stopped and then killed, its cause is still the
// failure.
func (r *Run) raise(verb *Event, cause Cause, now Now, fx *Effects) {
	if r.Intent < IntentStop {
		r.Cause = cause
	}
	r.Intent = verb.Intent
	r.changed = true
	r.recordIntent(verb)
	r.cancelHeld(fx)
	r.endDeferred(now, fx)
	if r.State == RunSplitting {
		r.dropLeader(now)
	}
}

// dropLeader gives up Leader work without waiting for its holder. Leader work has no effects before its
// result arrives, and the ended run rejects that result.
func (r *Run) dropLeader(now Now) {
	if r.leader.state.Held() {
		a := r.end(&r.leader)
		a.State, a.Cause, a.Finished = AttemptStopped, r.Cause, now.Wall
		r.recordEnd(a, Stopped)
	}
	r.leader.state = Stopped
}

// cancelHeld orders every holder to end its attempt. It is called when the intent rises. Every reload calls
// it again, because the order may have been lost.
func (r *Run) cancelHeld(fx *Effects) {
	r.Held(func(a *AttemptRow) {
		fx.Cancels = append(fx.Cancels, Cancel{Run: r.ID, Task: a.Task, Token: a.Token, Handler: a.Handler, Kill: r.Intent == IntentKill})
	})
}

// runTimer sets a timer for the timeout of the run. The token of the timer is the generation of the run.
func (r *Run) runTimer(due time.Duration) Timer {
	return Timer{Due: due, Run: r.ID, Kind: TimerRunTimeout, Task: LeaderTask, Token: Token(r.Generation)}
}

// runTimeout stops a run whose timeout has passed. It ignores a timer of an earlier generation.
func (r *Run) runTimeout(ev *Event, now Now, fx *Effects) Verdict {
	if r.Intent >= IntentStop || r.Graph == nil || ev.Token != Token(r.Generation) {
		return Stale
	}
	if r.Message == "" {
		r.Message = "ran past its timeout of " + r.Graph.Timeout.String()
	}
	r.record(Record{Kind: RecTimeout, Task: LeaderTask})
	r.raise(&Event{Intent: IntentStop, Reason: "timeout"}, CauseTimeout, now, fx)
	r.settleRun(now, fx)
	return Accepted
}
