package dag

import (
	"fmt"
	"strings"
)

// Mark is an operator's decision about one task.
type Mark uint8

// The decisions.
const (
	MarkSucceeded Mark = iota + 1 // the task counts as succeeded
	MarkFailed                    // the task counts as failed
	MarkSkip                      // the task does not run
	MarkRetry                     // the task runs now, or runs again
	MarkStop                      // the task stops, although its run continues
	marks
)

var markNames = [marks]string{"", "mark succeeded", "mark failed", "skip", "retry", "stop"}

func (m Mark) String() string { return markNames[m] }

// end returns the state that the decision gives a waiting task.
func (m Mark) end() (TaskState, AttemptState, Cause) {
	switch m {
	case MarkSucceeded:
		return Succeeded, AttemptSucceeded, CauseMarked
	case MarkFailed:
		return Failed, AttemptFailed, CauseMarked
	case MarkSkip:
		return Skipped, AttemptStopped, CauseSkip
	case MarkRetry:
		return Ready, AttemptStopped, CauseRetry
	}
	return Stopped, AttemptStopped, CauseHalted
}

// mark applies an operator's decision about a task. The decision is stored as the row of an attempt without a
// holder, so that Derive and a reload compute the same state. A terminal state does not change within its
// generation. So a decision about an ended task begins a new generation. In it, all other tasks keep their
// states, and only the tasks without a result of their own are decided again.
func (r *Run) mark(ev *Event, now Now, fx *Effects) Verdict {
	v, _ := r.markable(ev)
	if v != Accepted {
		return v
	}
	t, p := ev.Task, &r.tasks[ev.Task]
	switch {
	case p.state.Held():
		r.haltHeld(ev, p, fx)
		return Accepted
	case p.state == Deferred && r.Graph.Kind(t) == Foreach && r.armed(t): // MarkStop: no other mark is allowed
		r.stopInstances(ev, now, fx)
		r.settleRun(now, fx)
		return Accepted
	}
	revised, to := p.state.Terminal(), RunRunning
	anew := r.State.Terminal() && ev.Wait != "" // the run waits for its claim again
	if anew {
		to = RunWaiting
	}
	if revised {
		rec := Record{Kind: RecRecovered, Task: t, Actor: ev.Actor, Reason: ev.Reason, Text: ev.Mark.String()}
		again := r.following(t)
		r.witherFans(r.closeFans(again, ev.named()))
		r.regenerate(again, &rec, to, now, fx)
	}
	if p.state == Deferred {
		r.decreeDeferred(ev, p, now, fx)
	} else {
		r.decree(ev, p, now)
	}
	switch {
	case revised:
		r.recount()
	case p.state.Terminal():
		if p.fails() {
			r.failed++
			if p.halted {
				r.noteHalt(t)
			} else {
				r.noteFailure(t, byOperator("marked", ev))
			}
		}
		r.settled(t)
	}
	if anew {
		return r.await(ev)
	}
	r.settleRun(now, fx)
	return Accepted
}

// haltHeld orders the holder of a task to end the attempt.
func (r *Run) haltHeld(ev *Event, p *task, fx *Effects) {
	a := &r.slots[p.slot-1]
	a.Cause, a.Message = CauseHalted, byOperator("stopped", ev)
	r.touch(p.slot - 1)
	r.record(Record{Kind: RecTaskStop, Task: ev.Task, Token: p.token, Handler: a.Handler, Actor: ev.Actor, Reason: ev.Reason})
	r.cancelTask(&a.AttemptRow, fx)
}

// decree gives a task without an open attempt the state that the operator has decided.
func (r *Run) decree(ev *Event, p *task, now Now) {
	t := ev.Task
	state, end, cause := ev.Mark.end()
	if state == Ready && p.state == Pending { // the task belongs to a new generation
		if _, ok := r.Graph.InstanceOf(t); ok {
			return // nextLogical will begin the task
		}
		if natural, _ := judge(r.Graph, r.Params, t, true, r); natural == Ready {
			r.makeReady(t) // the task would be ready without the mark, so it needs no row
			return
		}
	}
	if p.state == Ready {
		r.unlist(t)
	}
	row := AttemptRow{Run: r.ID, Task: t, State: end, Cause: cause, Message: byOperator(ev.Mark.past(), ev)}
	if state == Succeeded {
		row.Outputs = ev.Outputs
	}
	r.put(&row, p, now)
	r.record(Record{Kind: RecMarked, Task: t, Token: p.token, State: state, Actor: ev.Actor, Text: string(cause), Reason: ev.Reason})
	switch state {
	case Ready:
		r.makeReady(t)
		return
	case Succeeded:
		r.keepOutputs(t, ev.Outputs)
	}
	r.moveTask(t, state)
	p.halted = state == Stopped
	if f := r.Graph.fans[t]; f != nil { // the instances of the task end with it, even if the run waits
		if of := ending(state, p.halted); of.Terminal() {
			r.endInstances(f, r.recountSpread(t), of)
		}
	}
}

func (m Mark) past() string {
	switch m {
	case MarkSkip:
		return "skipped"
	case MarkRetry:
		return "retried"
	case MarkStop:
		return "stopped"
	}
	return "marked"
}

func byOperator(what string, ev *Event) string {
	if ev.Actor != "" {
		what += " by " + ev.Actor
	}
	if ev.Reason != "" {
		what += ": " + ev.Reason
	}
	return what
}

// put writes the row of a decision: an ended attempt without a holder.
func (r *Run) put(row *AttemptRow, p *task, now Now) {
	p.token = p.token.Next(now.Era)
	p.revoked, p.own = true, true
	row.Token, row.Generation, row.Assigned, row.Finished = p.token, r.Generation, now.Wall, now.Wall
	i := r.slot()
	r.slots[i] = attempt{isNew: true, AttemptRow: *row}
	r.weight += AttemptWeight
	r.touch(i)
}

// following returns the task and the tasks that depend on its end, except those that have their own result or
// have begun. If one of them is ready, it waits for its needs again and is decided again, even if an operator
// made it ready.
func (r *Run) following(t TaskID) []bool {
	again := make([]bool, len(r.tasks))
	again[t] = true
	work := []TaskID{t}
	readers := r.Graph.readers()
	for len(work) > 0 {
		t, work = work[len(work)-1], work[:len(work)-1]
		if of, ok := r.Graph.InstanceOf(t); ok && r.tasks[of].state.Terminal() {
			again[of] = true
			work = append(work, of)
		}
		if f := r.Graph.fans[t]; f != nil { // the instances that have not started
			for _, i := range f.all {
				again[i] = again[i] || !r.tasks[i].own
			}
		}
		for _, all := range [][]TaskID{r.Graph.deps.of(t), readers[t]} {
			for _, d := range all {
				if p := &r.tasks[d]; !again[d] && (!p.own || p.state == Ready) {
					again[d] = true
					work = append(work, d)
				}
			}
		}
	}
	return again
}

// readers returns, by task, the tasks whose conditions read it. A reader need not depend on the task.
func (g *Graph) readers() map[TaskID][]TaskID {
	if len(g.kept) == 0 {
		return nil
	}
	all := map[TaskID][]TaskID{}
	for t := range TaskID(g.fixed()) {
		c := g.Condition(t)
		if c == nil {
			continue
		}
		for _, name := range c.Reads().Tasks {
			if of, ok := g.Find(name); ok {
				all[of] = append(all[of], t)
			}
		}
	}
	return all
}

// markable reports whether a decision is allowed in the state of the task. If not, it returns the reason.
func (r *Run) markable(ev *Event) (Verdict, string) {
	switch {
	case ev.Mark == 0 || ev.Mark >= marks:
		return WrongState, "there is no such verb"
	case r.State == RunSkipped:
		return WrongState, "the run is skipped: it never began; start it again with rerun"
	case r.Graph == nil:
		return WrongState, fmt.Sprintf("the run is %s: it was not split into tasks", r.State)
	case ev.Task < 0 || int(ev.Task) >= len(r.tasks):
		return NoSuchTask, ""
	case !r.State.Terminal() && r.Intent >= IntentStop:
		return WrongState, "the run is being ended: wait for its end, then recover it"
	case r.State.Terminal() && r.left > 0:
		return WrongState, "the run was never split to the end; start it again with rerun"
	}
	p := &r.tasks[ev.Task]
	if why := r.unmarkableForeach(ev, p); why != "" {
		return WrongState, why
	}
	fits, same := markTable[ev.Mark][p.state], ev.Mark.already(p, ev)
	if same && (ev.Mark != MarkStop || !p.state.Held() || r.halting(p)) {
		return Duplicate, ""
	}
	if !fits {
		return WrongState, fmt.Sprintf("task %s is %s: %s does not fit; it can be told: %s",
			r.Graph.Name(ev.Task), p.state, ev.Mark, strings.Join(r.fitting(p.state), ", "))
	}
	if p.state.Held() && r.halting(p) {
		return Duplicate, ""
	}
	if ev.Mark == MarkRetry && p.state.Terminal() {
		if n, ok := r.missing(ev.Task); ok {
			return WrongState, fmt.Sprintf("task %s needs task %s, which is %s: retry or mark that one first",
				r.Graph.Name(ev.Task), r.Graph.Name(n), r.tasks[n].state)
		}
	}
	return Accepted, ""
}

// already reports whether the task is in the state that the decision would give it.
func (m Mark) already(p *task, ev *Event) bool {
	switch m {
	case MarkSucceeded:
		return p.state == Succeeded && ev.Outputs == nil
	case MarkFailed:
		return p.state == Failed
	case MarkSkip:
		return p.state == Skipped
	case MarkRetry:
		return p.state == Ready
	}
	return p.state == Stopped
}

// markTable lists the decisions that each state of a task allows.
var markTable = [marks][taskStates]bool{
	MarkSucceeded: {Pending: true, Ready: true, RetryWait: true, Deferred: true, Succeeded: true, Failed: true, UpstreamFailed: true, Stopped: true, Skipped: true},
	MarkFailed:    {Pending: true, Ready: true, RetryWait: true, Deferred: true, Succeeded: true, UpstreamFailed: true, Stopped: true, Skipped: true},
	MarkSkip:      {Pending: true, Ready: true, RetryWait: true, Deferred: true, Failed: true, UpstreamFailed: true, Stopped: true},
	MarkRetry:     {RetryWait: true, Succeeded: true, Failed: true, Stopped: true, Skipped: true},
	MarkStop:      {Pending: true, Ready: true, Assigned: true, Running: true, RetryWait: true, Deferred: true},
}

func (r *Run) fitting(s TaskState) (all []string) {
	for m := MarkSucceeded; m < marks; m++ {
		if markTable[m][s] {
			all = append(all, m.String())
		}
	}
	return all
}

// missing returns a task that prevents t from running, because t needs it and it did not succeed.
func (r *Run) missing(t TaskID) (TaskID, bool) {
	return r.Graph.missing(t, func(n TaskID) (settled, fails bool) { return r.tasks[n].settled(), r.tasks[n].fails() })
}

// Missing returns a task that prevents t from running again, according to the rows, because t needs it and it
// did not succeed.
func (g *Graph) Missing(t TaskID, views []TaskView) (TaskID, bool) {
	return g.missing(t, func(n TaskID) (settled, fails bool) {
		v := &views[n]
		return v.State.settled() || v.Halted, v.State.fails() || v.Halted
	})
}

func (g *Graph) missing(t TaskID, stands func(TaskID) (settled, fails bool)) (TaskID, bool) {
	t = g.host(t)
	for _, n := range g.needs.of(t) {
		if settled, fails := stands(n); !settled || fails && !g.handles(t) {
			return n, true
		}
	}
	return 0, false
}

// Refusal returns the reason why a verb is not allowed now, and names a verb that is allowed.
func (r *Run) Refusal(ev *Event) string {
	why := ""
	switch ev.Kind {
	case EvMark:
		_, why = r.markable(ev)
	case EvRecover:
		_, _, why = r.recoverable(ev)
	}
	return why
}

// halting reports whether the task's attempt is being stopped, but not its run.
func (r *Run) halting(p *task) bool { return p.slot != 0 && r.slots[p.slot-1].Cause == CauseHalted }

// halt ends a task whose attempt was stopped alone, without its run.
func (r *Run) halt(t TaskID, a *attempt) {
	a.Cause = CauseHalted
	r.recordEnd(a, Stopped)
	r.moveTask(t, Stopped)
	r.tasks[t].halted = true
	r.failed++
	r.noteHalt(t)
	r.settled(t)
}

// noteHalt makes the halted task the message of the run, if it has none.
func (r *Run) noteHalt(t TaskID) {
	if r.Message == "" {
		r.changed = true
		r.Message = fmt.Sprintf("task %s was stopped", r.Graph.Name(t))
	}
}

// cancelTask orders one holder to end its attempt. A reload repeats the order.
func (r *Run) cancelTask(a *AttemptRow, fx *Effects) {
	fx.Cancels = append(fx.Cancels, Cancel{Run: r.ID, Task: a.Task, Token: a.Token, Handler: a.Handler})
}

// byOperator reports whether the row has no holder: it is a decision about its task, or the attempt of a
// logical task.
func (a *AttemptRow) byOperator() bool { return a.Handler == 0 && a.Task != LeaderTask }

// halted reports whether the attempt ended because its task was stopped, but not its run.
func (a *AttemptRow) halted() bool {
	return a.Cause == CauseHalted && (a.State == AttemptStopped || a.State == AttemptLost)
}

// stoppedState returns the state of a task whose newest row has the state AttemptStopped. The row is a
// stopped attempt, or a decision of an operator that is stored in the same form.
func (a *AttemptRow) stoppedState() TaskState {
	if a.byOperator() {
		switch a.Cause {
		case CauseSkip:
			return Skipped
		case CauseRetry, CauseDeadline, CauseFrom:
			return Ready
		}
	}
	return Stopped
}
