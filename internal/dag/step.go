package dag

import "fmt"

// lossesMax bounds the losses of a task. The next loss fails the task, because a task that crashes its worker
// must not run again for ever.
const lossesMax = 5

// Step applies one event. It changes only the run in memory. The changes are collected, and Flush turns them
// into rows. If the verdict is not Accepted, nothing has changed, except the run's history after a fenced
// report. A panic means a bug or a corrupt row. Then the owner drops all runs from memory, loads all but this
// one again, and quarantines this one.
func (r *Run) Step(ev *Event, now Now, fx *Effects) Verdict {
	r.fx, r.clock = fx, now.Wall
	v := r.step(ev, now, fx)
	r.watchReady(now, fx)
	r.fx = nil
	return v
}

func (r *Run) step(ev *Event, now Now, fx *Effects) Verdict {
	if r.State.Terminal() && ev.Kind != EvRecover && ev.Kind != EvMark && ev.Kind != EvReleased {
		return r.refuse(ev, RunEnded)
	}
	switch ev.Kind {
	case EvSubmit:
		return r.submit(ev, now, fx)
	case EvAdmit:
		return r.admit(ev, now, fx)
	case EvDeny:
		return r.deny(ev, now)
	case EvRefuse:
		return r.denyTasks(ev, now, fx)
	case EvSplit:
		return r.split(ev, now, fx)
	case EvAssign:
		return r.assign(ev, now)
	case EvStarted, EvReport, EvLost:
		return r.heard(ev, now, fx)
	case EvTimer:
		return r.timer(ev, now, fx)
	case EvIntent:
		return r.intend(ev, now, fx)
	case EvRecover:
		return r.recover(ev, now, fx)
	case EvMark:
		return r.mark(ev, now, fx)
	case EvArm:
		return r.arm(ev, now, fx)
	case EvSettle:
		return r.conclude(ev, now, fx)
	case EvEvaluated:
		return r.evaluated(ev, now, fx)
	case EvReleased:
		return handlesOf(r).released(ev, now, fx)
	case EvCheck:
		if ev.Fault != "" && !r.Evaluating() { // an evaluation can still move the run, so there is nothing to repair
			r.record(Record{Kind: RecRepaired, Task: LeaderTask, Actor: ev.Actor, Text: ev.Fault, Reason: ev.Reason})
		}
		r.settleRun(now, fx)
		return Accepted
	}
	return WrongState
}

// fence accepts only reports of the holder of the newest attempt. A repeated report of an ended attempt is a
// duplicate. Duplicates are normal: a sender repeats a report if the acknowledgement was lost, and the
// owner's inbox repeats it after a commit with an unknown outcome. If the attempt was ended without its
// holder, the sender learns that its report was fenced.
func (r *Run) fence(ev *Event, p *task) Verdict {
	switch {
	case ev.Token != p.token || p.token == 0:
		return Stale
	case p.state.Held() && r.slots[p.slot-1].Handler == ev.Handler:
		return Accepted
	case p.state.Held() || p.revoked && ev.Kind != EvLost:
		return Stale
	}
	return Duplicate
}

// refuse records the report of a stale holder, and changes nothing else.
func (r *Run) refuse(ev *Event, v Verdict) Verdict {
	if v == Stale && (ev.Kind == EvReport || ev.Kind == EvSplit) {
		r.record(Record{Kind: RecRejected, Task: ev.Task, Token: ev.Token, Handler: ev.Handler, Text: v.String()})
	}
	return v
}

// submit accepts the run and, if its graph is available, splits it in the same step.
func (r *Run) submit(ev *Event, now Now, fx *Effects) Verdict {
	if r.State != RunSubmitted {
		return Duplicate
	}
	r.changed = true
	r.record(Record{Kind: RecSubmitted, Task: LeaderTask, Actor: r.User, Text: string(r.Origin)})
	r.watchStart(now, fx)
	if ev.Wait != "" {
		r.moveRun(RunWaiting)
		r.record(Record{Kind: RecWaiting, Task: LeaderTask, Text: ev.Wait})
		return Accepted
	}
	return r.begin(ev, now, fx)
}

// admit continues a run that had to wait.
func (r *Run) admit(ev *Event, now Now, fx *Effects) Verdict {
	if r.State != RunWaiting {
		return Duplicate
	}
	if ev.Wait != "" {
		return r.await(ev)
	}
	r.record(Record{Kind: RecAdmitted, Task: LeaderTask, Text: ev.Reason})
	if r.SplitAt != 0 {
		return r.goOn(now, fx)
	}
	return r.begin(ev, now, fx)
}

// begin gives the run to the Leader, which splits it.
func (r *Run) begin(ev *Event, now Now, fx *Effects) Verdict {
	if ev.Graph == nil || r.Raw() {
		r.moveRun(RunSplitting)
		r.leader.state = Ready
		return Accepted
	}
	r.Leader, r.LeaderAt = ev.Handler, now.Wall
	r.instantiate(ev, now, fx)
	return Accepted
}

// split takes the result of Leader work.
func (r *Run) split(ev *Event, now Now, fx *Effects) Verdict {
	p := &r.leader
	if v := r.fence(ev, p); v != Accepted {
		return r.refuse(ev, v)
	}
	a := r.end(p)
	a.Finished = now.Wall
	a.Started = a.Assigned
	r.Leader, r.LeaderAt = a.Handler, a.Assigned
	if r.Raw() && (ev.Graph != nil || ev.Params != nil) { // if the split fails, the row keeps no secret
		r.Params, r.filled = ev.Params, true
	}
	if ev.Graph == nil {
		a.State, a.Cause, a.Message = AttemptFailed, CauseSplit, ev.Err
		p.state = Failed
		r.Cause, r.Message = CauseSplit, ev.Err
		r.recordEnd(a, Failed)
		r.finalise(RunFailed, now)
		return Accepted
	}
	a.State = AttemptSucceeded
	p.state = Succeeded
	r.instantiate(ev, now, fx)
	return Accepted
}

// instantiate makes the tasks of a graph. Tasks without needs become ready.
func (r *Run) instantiate(ev *Event, now Now, fx *Effects) {
	g := ev.Graph
	r.adopt(g)
	if ev.Own {
		r.own = appendSegment(nil, segmentWhole, g.Pack())
	}
	r.moveRun(RunRunning)
	r.SplitAt, r.StartedAt = now.Wall, now.Wall
	r.record(Record{Kind: RecSplit, Task: LeaderTask, Handler: r.Leader, Count: int32(g.Len())})
	if g.Timeout > 0 {
		fx.Timers = append(fx.Timers, r.runTimer(now.Mono+g.Timeout))
	}
	if r.Fire != nil && r.Fire.From != "" {
		r.startFrom(now)
	} else {
		for t := range r.tasks {
			if r.tasks[t].blockers == 0 && r.tasks[t].state == Pending {
				r.decide(TaskID(t))
			}
		}
	}
	r.settleRun(now, fx)
}

// adopt allocates the tasks of a graph, all pending.
func (r *Run) adopt(g *Graph) {
	r.Graph = g
	r.tasks = make([]task, g.Len())
	r.left = int32(g.Len())
	r.failed, r.retrying, r.deferred, r.fanning, r.logical, r.spreads = 0, 0, 0, 0, nil, nil
	for t := range r.tasks {
		if r.tasks[t].blockers = 1; t < g.fixed() {
			r.tasks[t].blockers = g.needs.off[t+1] - g.needs.off[t]
		}
	}
}

// assign assigns a ready task to a handler whose slot was booked. The assignment is a new attempt under a
// new token.
func (r *Run) assign(ev *Event, now Now) Verdict {
	if !r.has(ev.Task) {
		return NoSuchTask
	}
	p := r.at(ev.Task)
	if p.state != Ready || r.Intent != IntentRun || ev.Task != LeaderTask && r.Graph.Logic(ev.Task) != nil {
		return WrongState
	}
	if ev.Task == LeaderTask {
		p.state = Assigned
	} else {
		r.unlist(ev.Task)
		r.moveTask(ev.Task, Assigned)
	}
	r.hold(ev.Task, p, ev.Handler, now)
	r.record(Record{Kind: RecAssigned, Task: ev.Task, Token: p.token, Handler: ev.Handler})
	return Accepted
}

// eraOver is the reason why an attempt of an earlier era is lost, whatever its holder reports. The database
// may have lost the rows from which the attempt began.
const eraOver = "the database went back to an earlier state while it ran"

// heard applies a report of a holder. The token and the holder must be the newest ones.
func (r *Run) heard(ev *Event, now Now, fx *Effects) Verdict {
	if !r.has(ev.Task) || ev.Task == LeaderTask && ev.Kind != EvLost { // EvSplit, not a report, ends a split
		return NoSuchTask
	}
	p := r.at(ev.Task)
	if v := r.fence(ev, p); v != Accepted {
		return r.refuse(ev, v)
	}
	switch ev.Kind {
	case EvStarted:
		v := r.started(ev, p, now, fx)
		if handlesOf(r).keep(ev.Task, p, ev.Handle, ev.Adopts) {
			return Accepted
		}
		return v
	case EvReport:
		past := ev.Token.Era() < now.Floor
		if !past && (ev.Result.State != AttemptStopped || r.Intent >= IntentStop || r.halting(p)) {
			r.report(ev, p, now, fx)
			break
		}
		over := *ev // an attempt that was stopped without an order counts as lost
		if past {
			over.Reason = eraOver
		}
		weigh(r, &Result{Logged: ev.Result.Logged, Left: ev.Result.Left}) // the logs and artifacts are stored nevertheless
		r.lost(&over, p, now, fx)
	default:
		r.lost(ev, p, now, fx)
	}
	r.settleRun(now, fx)
	return Accepted
}

func (r *Run) started(ev *Event, p *task, now Now, fx *Effects) Verdict {
	if p.state == Running {
		return Duplicate
	}
	r.moveTask(ev.Task, Running)
	a := &r.slots[p.slot-1]
	r.touch(p.slot - 1)
	a.State, a.Started = AttemptRunning, onClock(ev.At, a.Assigned, now.Wall)
	r.record(Record{Kind: RecStarted, Task: ev.Task, Token: p.token, Handler: a.Handler})
	r.watch(ev.Task, p.token, now, fx)
	return Accepted
}

// onClock converts a time of a holder to the store's clock. The result is not before the assignment and not
// after now. A time of 0 (not reported) becomes now. So no attempt seems to start before its needs have
// ended, whatever the clock of its holder shows.
func onClock(told, earliest, now Micros) Micros {
	if told == 0 {
		told = now
	}
	return max(min(told, now), earliest)
}

// watch sets the timers of a running attempt. The worker enforces the timeout itself. The timers only record
// the timeout, and end the attempt if the worker does not report.
func (r *Run) watch(t TaskID, token Token, now Now, fx *Effects) {
	pol := r.Graph.Policy(t)
	if pol.Timeout == 0 {
		return
	}
	tm := Timer{Due: now.Mono + pol.Timeout, Run: r.ID, Kind: TimerTimeout, Task: t, Token: token}
	if !pol.WarnOnTimeout {
		tm.Kind = TimerOverdue
		tm.Due += pol.KillGrace + overdueAfter
	}
	fx.Timers = append(fx.Timers, tm)
}

// report settles an attempt with the result that its holder reports.
func (r *Run) report(ev *Event, p *task, now Now, fx *Effects) {
	handlesOf(r).keep(ev.Task, p, ev.Result.Handle, ev.Result.Adopts)
	a, res := r.end(p), r.bounded(ev.Task, &ev.Result)
	warned, halted, byWhom := a.Cause == CauseTimeout, a.Cause == CauseHalted, a.Message
	if a.State, a.Cause, a.Message = res.State, res.Cause, res.Message; halted && res.State == AttemptStopped && res.Message == "" {
		a.Message = byWhom
	}
	a.Exited, a.ExitCode, a.Signal = res.Exited, res.ExitCode, res.Signal
	p.revoked = a.revoked()
	weigh(r, res)
	if res.Started != 0 {
		a.Started = onClock(res.Started, a.Assigned, now.Wall)
	}
	a.Finished = onClock(res.Finished, max(a.Started, a.Assigned), now.Wall)
	if res.TimedOut && res.Cause != CauseTimeout && !warned {
		r.record(Record{Kind: RecTimeout, Task: ev.Task, Token: ev.Token})
	}
	switch res.State {
	case AttemptSucceeded:
		handlesOf(r).takeOver(a, now, fx)
		a.Outputs = res.Outputs
		r.recordEnd(a, Succeeded)
		r.succeed(ev.Task, a)
	case AttemptStopped:
		if r.Cause == CauseNoRetake { // another lost task stopped this one, and such a run ends with failed tasks only
			a.State, a.Cause = AttemptFailed, CauseNoRetake
			r.recordEnd(a, Failed)
			r.failTask(ev.Task, a.Message)
			return
		}
		if halted && r.Intent < IntentStop {
			r.halt(ev.Task, a)
			return
		}
		r.recordEnd(a, Stopped)
		r.moveTask(ev.Task, Stopped)
	default:
		a.State = AttemptFailed
		if halted { // the attempt failed before the stop reached it, and it is not retried
			r.failFinally(ev.Task, a)
			return
		}
		r.failAttempt(ev.Task, p, a, now, fx)
	}
}

func (r *Run) recordEnd(a *attempt, s TaskState) {
	r.record(Record{Kind: RecEnded, Task: a.Task, Token: a.Token, Handler: a.Handler, State: s,
		Exited: a.Exited, ExitCode: a.ExitCode, Text: string(a.Cause)})
}

// lost takes a task from a handler that is gone. A loss is not a failed attempt: losses have their own
// counter, and too many of them fail the task.
func (r *Run) lost(ev *Event, p *task, now Now, fx *Effects) {
	a := r.end(p)
	halted := a.Cause == CauseHalted
	a.State, a.Cause, a.Message, a.Finished = AttemptLost, CauseLost, ev.Reason, now.Wall
	r.record(Record{Kind: RecLost, Task: ev.Task, Token: ev.Token, Handler: ev.Handler, Text: ev.Reason})
	note(r, ev.Task, NoteLost, ev.Reason)
	if a.Generation == r.Generation {
		p.losses++
	}
	p.revoked = true
	switch poison := p.losses > lossesMax; {
	case r.Fire != nil && r.Fire.FailLost:
		r.loseRun(ev.Task, p, a, now, fx)
	case ev.Task == LeaderTask && poison:
		p.state = Failed
		a.Cause = CausePoison
		fx.Poisoned = append(fx.Poisoned, Poisoned{Run: r.ID})
		note(r, ev.Task, NotePoison, ev.Reason)
		r.Cause, r.Message = CausePoison, "splitting it killed whatever tried"
		r.finalise(RunFailed, now)
	case ev.Task == LeaderTask:
		p.state = Ready
	case halted && r.Intent < IntentStop: // the outcome is unknown, and the task was being stopped, so it is not assigned again
		r.halt(ev.Task, a)
	case poison:
		a.Cause, a.Message = CausePoison, fmt.Sprintf("lost for the %dth time", p.losses)
		fx.Poisoned = append(fx.Poisoned, Poisoned{r.ID, r.Graph.Name(ev.Task)})
		if ev.Reason != "" {
			a.Message += ": " + ev.Reason
		}
		note(r, ev.Task, NotePoison, a.Message)
		r.recordEnd(a, Failed)
		r.noteFailure(ev.Task, "lost its handler too often")
		r.failTask(ev.Task, a.Message)
	default:
		r.afterLoss(ev, p, a, now, fx)
	}
}

// timer acts on a timer that is due, unless the reason for the timer no longer exists.
func (r *Run) timer(ev *Event, now Now, fx *Effects) Verdict {
	switch ev.Timer {
	case TimerRunTimeout:
		return r.runTimeout(ev, now, fx)
	case TimerStartBy:
		return r.tooLate(now)
	case TimerStart:
		return r.startLate(ev, now, fx)
	case TimerRelease:
		return handlesOf(r).late(ev, now, fx)
	}
	if ev.Task < 0 || int(ev.Task) >= len(r.tasks) {
		return NoSuchTask
	}
	p := &r.tasks[ev.Task]
	if p.token != ev.Token {
		return Stale
	}
	switch {
	case ev.Timer == TimerRetry && p.state == RetryWait:
		r.makeReady(ev.Task)
	case ev.Timer == TimerTimeout && p.state == Running && r.warn(p):
		r.record(Record{Kind: RecTimeout, Task: ev.Task, Token: ev.Token})
	case ev.Timer == TimerOverdue && p.state == Running:
		r.overdue(ev, p, now, fx)
	case ev.Timer == TimerDeferred && p.state == Deferred:
		if !r.deferredDue(ev.Task, p, now, fx) {
			return Stale
		}
	default:
		return Stale
	}
	r.settleRun(now, fx)
	return Accepted
}

// warn records that an attempt has exceeded its timeout, if that was not recorded yet. The record is in the
// attempt's row, so that a reload does not repeat the warning.
func (r *Run) warn(p *task) bool {
	a := &r.slots[p.slot-1]
	if a.Cause != "" { // the warning was recorded before, or the attempt is being stopped
		return false
	}
	a.Cause = CauseTimeout
	r.touch(p.slot - 1)
	return true
}

// overdue settles an attempt whose holder did not report although the timeout and the grace have passed. A
// holder that is alive gets the order to kill the attempt.
func (r *Run) overdue(ev *Event, p *task, now Now, fx *Effects) {
	a := r.end(p)
	a.State, a.Cause, a.Finished = AttemptFailed, CauseOverdue, now.Wall
	p.revoked = true
	a.Message = "ran past its timeout and its worker did not report"
	fx.Cancels = append(fx.Cancels, Cancel{Run: r.ID, Task: ev.Task, Token: ev.Token, Handler: a.Handler, Kill: true})
	r.failAttempt(ev.Task, p, a, now, fx)
}
