package dag

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"time"
)

// makeReady puts a task on the run's ready list.
func (r *Run) makeReady(t TaskID) {
	r.moveTask(t, Ready)
	if r.Graph.Logic(t) != nil {
		r.logical = append(r.logical, t)
		return
	}
	if !handlesOf(r).owes(t) {
		r.list(t)
	}
	if r.Graph.Policy(t).StartDeadline > 0 {
		r.limited = append(r.limited, t)
	}
}

// succeed settles a task and releases the tasks that wait for it.
func (r *Run) succeed(t TaskID, a *attempt) {
	r.moveTask(t, Succeeded)
	r.keepOutputs(t, a.Outputs)
	r.settled(t)
}

// OutputsMax bounds the outputs that the conditions of a run read, in bytes. They stay in memory while the
// run is active.
const OutputsMax = 16 << 20

// keepOutputs keeps the outputs of a succeeded task that conditions read.
func (r *Run) keepOutputs(t TaskID, outputs []byte) {
	if !r.Graph.kept[t] || outputs == nil {
		return
	}
	if r.outputs == nil {
		r.outputs = map[TaskID][]byte{}
	}
	r.outputsSize += len(outputs) - len(r.outputs[t])
	r.outputs[t] = outputs
}

// forgetOutputs drops the outputs of a task that is repeated.
func (r *Run) forgetOutputs(t TaskID) {
	r.outputsSize -= len(r.outputs[t])
	delete(r.outputs, t)
}

// bounded returns the result of a task: res, or a failure if the run has no room for the outputs.
func (r *Run) bounded(t TaskID, res *Result) *Result {
	if res.State != AttemptSucceeded || !r.Graph.kept[t] || r.outputsSize+len(res.Outputs) <= OutputsMax {
		return res
	}
	failed := *res
	failed.State, failed.Cause, failed.Outputs = AttemptFailed, CauseOutput, nil
	failed.Message = fmt.Sprintf("conditions read outputs of %d tasks of this run, with those of this one more than %d MiB", len(r.outputs)+1, OutputsMax>>20)
	return &failed
}

// settled informs the direct dependents of a settled task. If this decides a dependent, the dependent goes
// into a list instead of a recursion. So a chain of 100,000 skips is a loop.
func (r *Run) settled(t TaskID) {
	work := []TaskID(nil)
	for {
		fails := r.tasks[t].fails()
		for _, d := range r.Graph.deps.of(t) {
			p := &r.tasks[d]
			if p.state != Pending {
				continue
			}
			// A task that needs many tasks checks all its needs once, when the last one is settled, and not
			// once for each need.
			p.blockers--
			if p.blockers > 0 && (!fails || r.Graph.handles(d)) {
				continue
			}
			if r.verdictOn(d, p) {
				work = append(work, d)
			}
		}
		if len(work) == 0 {
			return
		}
		t, work = work[len(work)-1], work[:len(work)-1]
	}
}

// decide settles or readies a pending task whose needs are all settled, and then all tasks that are decided
// as a result.
func (r *Run) decide(t TaskID) {
	if r.verdictOn(t, &r.tasks[t]) {
		r.settled(t)
	}
}

// verdictOn moves a pending task if its state can be decided. It reports whether the task is settled now, so
// that the caller must inform its dependents.
func (r *Run) verdictOn(t TaskID, p *task) bool {
	to, why := judge(r.Graph, r.Params, t, p.blockers == 0, r)
	switch to {
	case Pending:
		if p.blockers == 0 && !r.open(t) {
			r.late = append(r.late, t)
		}
		return false
	case Ready:
		r.makeReady(t)
		return false
	case Failed:
		r.noteFailure(t, why)
		r.record(Record{Kind: RecEnded, Task: t, State: Failed, Text: string(CauseCondition), Reason: why})
		note(r, t, NoteFailed, why)
	}
	r.moveTask(t, to)
	if to.fails() {
		r.failed++
	}
	return true
}

func (r *Run) stateOf(t TaskID) TaskState { return r.tasks[t].state }
func (r *Run) failedAt(t TaskID) bool     { return r.tasks[t].fails() }
func (r *Run) outputOf(t TaskID) []byte   { return r.outputs[t] }

// known is the source from which judge reads states: memory, or rows.
type known interface {
	stateOf(TaskID) TaskState
	failedAt(TaskID) bool // reports whether the task makes its dependents upstream_failed
	outputOf(TaskID) []byte
	// holds evaluates a condition of a task. It returns ErrCostly if the result is not known yet.
	holds(t TaskID, branch int32, c Condition, v View) (bool, error)
}

// judge is the whole rule for a task without a row: its state, given the states of the tasks that it needs.
// Memory and Derive both use judge, so they cannot differ.
//
//   - A failed need makes the task upstream_failed at once, unless its condition handles failures.
//   - Otherwise the task stays pending until all needs are settled.
//   - Then: if all needs were skipped, it is skipped; if its condition is false, it is skipped; else
//     it is ready.
//   - But it also stays pending until every task that its condition reads has ended. These tasks come
//     before the needs, so they have ended, unless an operator decided about a task meanwhile.
//   - It also stays pending until the result of the condition is known, if the condition is
//     evaluated outside of the step.
func judge(g *Graph, params []byte, t TaskID, settled bool, k known) (TaskState, string) {
	to, why := judgeIf(g, params, t, settled, k)
	if to == Ready && !g.choosable(t, k) {
		return Pending, ""
	}
	return to, why
}

func judgeIf(g *Graph, params []byte, t TaskID, settled bool, k known) (TaskState, string) {
	cond := g.Condition(t)
	handles := cond != nil && cond.Handles()
	if !settled && handles {
		return Pending, ""
	}
	needs := g.needs.of(t)
	failure, success := false, len(needs) == 0
	for _, n := range needs {
		switch s := k.stateOf(n); {
		case k.failedAt(n):
			failure = true
		case s == Succeeded:
			success = true
		}
	}
	if failure && !handles {
		return UpstreamFailed, ""
	}
	if !settled {
		return Pending, ""
	}
	if !g.picked(t, k) {
		return Skipped, ""
	}
	if cond == nil || !handles && !success {
		if success {
			return Ready, ""
		}
		return Skipped, ""
	}
	if !handles && !readable(g, cond, k) {
		return Pending, ""
	}
	holds, err := k.holds(t, OwnIf, cond, viewOf(g, params, success && !failure, failure, k))
	switch {
	case errors.Is(err, ErrCostly):
		return Pending, ""
	case err != nil:
		return Failed, fmt.Sprintf("the if of task %s: %v", g.Name(t), err)
	case holds:
		return Ready, ""
	}
	return Skipped, ""
}

// readable reports whether every task that a condition reads has ended.
func readable(g *Graph, cond Condition, k known) bool {
	for _, name := range cond.Reads().Tasks {
		if t, ok := g.Find(name); ok && !k.stateOf(t).Terminal() {
			return false
		}
	}
	return true
}

// revisit decides tasks that waited only for the end of a task that their condition reads.
func (r *Run) revisit() {
	for moved := true; moved && len(r.late) > 0; {
		late := r.late
		r.late, moved = nil, false
		for _, t := range late {
			if p := &r.tasks[t]; p.state == Pending && p.blockers == 0 {
				r.decide(t)
				moved = moved || p.state != Pending
			}
		}
	}
}

// viewOf returns the values that the conditions of one task can read.
func viewOf(g *Graph, params []byte, success, failure bool, k known) View {
	return View{
		Success: success, Failure: failure, Params: params,
		Task: func(name string) (TaskState, []byte) {
			id, ok := g.Find(name)
			if !ok {
				return Skipped, nil
			}
			return k.stateOf(id), k.outputOf(id)
		},
	}
}

// failAttempt decides whether the task of a failed attempt is retried.
func (r *Run) failAttempt(t TaskID, p *task, a *attempt, now Now, fx *Effects) {
	handlesOf(r).release(t, now, fx)
	pol := r.Graph.Policy(t)
	if r.Intent < IntentStop && p.retries < pol.Retry.Max && retryable(&pol.Retry, a) {
		wait := pol.Retry.wait(p.retries+1, r.ID, t, a.Token)
		if a.Generation == r.Generation { // attempts that failed in earlier generations do not use up the retries of this one
			p.retries++
		}
		r.recordEnd(a, RetryWait)
		note(r, t, NoteRetrying, a.Message)
		r.tryAgain(t, a, wait, now, fx)
		return
	}
	r.failFinally(t, a)
}

// tryAgain makes a task ready again after a pause, which is stored in the row of the ended attempt.
func (r *Run) tryAgain(t TaskID, a *attempt, wait time.Duration, now Now, fx *Effects) {
	a.RetryWait, a.RetryAt = wait, now.Wall+Micros(wait.Microseconds())
	r.moveTask(t, RetryWait)
	fx.Timers = append(fx.Timers, Timer{Due: now.Mono + wait, Run: r.ID, Kind: TimerRetry, Task: t, Token: a.Token})
}

func (r *Run) failFinally(t TaskID, a *attempt) {
	r.recordEnd(a, Failed)
	r.noteFailure(t, a.Message)
	r.failTask(t, a.Message)
}

// noteFailure keeps the first failure as the message of the run.
func (r *Run) noteFailure(t TaskID, message string) {
	if r.Message == "" {
		r.changed = true
		r.Message = fmt.Sprintf("task %s failed", r.Graph.Name(t))
		if message != "" {
			r.Message += ": " + message
		}
	}
}

// failTask fails a task finally, and settles all of its dependents, direct or not, in this step. why is for
// alert rules.
func (r *Run) failTask(t TaskID, why string) {
	note(r, t, NoteFailed, why)
	r.moveTask(t, Failed)
	r.failed++
	r.settled(t)
}

// retryable applies the exit codes of the policy, and a task function's statement that a retry cannot help.
// An attempt that cannot start, for example because there is no such program, is retried like any other
// failure: the file may exist by then.
func retryable(p *Retry, a *attempt) bool {
	if len(p.OnExit) == 0 || a.Cause == CausePermanent {
		return a.Cause != CausePermanent
	}
	for _, code := range p.OnExit {
		if a.Exited && a.ExitCode == code {
			return true
		}
	}
	return false
}

// wait returns the pause before the nth retry. The jitter is a hash, so that Step stays pure and a replay
// gets the same pause.
func (p *Retry) wait(n int32, run RunID, t TaskID, token Token) time.Duration {
	d := float64(p.Delay)
	if p.Backoff > 0 {
		d *= math.Pow(p.Backoff, float64(n-1))
	}
	most := float64(retryWaitMax)
	if p.MaxDelay > 0 {
		most = min(most, float64(p.MaxDelay))
	}
	d = min(d, most)
	if p.Jitter > 0 {
		h := fnv.New64a()
		h.Write(run[:])
		h.Write(binary.LittleEndian.AppendUint32(nil, uint32(t)))
		h.Write(binary.LittleEndian.AppendUint32(nil, uint32(token)))
		d *= 1 + p.Jitter*(float64(h.Sum64()>>11)/(1<<52)-1)
	}
	if d > most { // the jitter never makes a pause longer than the bound
		d = 2*most - d
	}
	if !(d > 0) { // d may be NaN, too, if the policy is damaged
		return 0
	}
	return time.Duration(d).Truncate(time.Microsecond) // a row stores microseconds
}

// retryWaitMax bounds the pause before a retry, whatever the backoff is.
const retryWaitMax = 30 * 24 * time.Hour

// settleRun decides whether the run ends. When no task is left to do, it sets the outcome of the run, in the
// step that settled the last task. It also applies on_failure: end, and moves the run between paused and
// running.
func (r *Run) settleRun(now Now, fx *Effects) {
	if !r.State.Terminal() {
		r.revisit()
	}
	for again := true; again; {
		if r.failedEnough() {
			r.raise(&Event{Intent: IntentStop, Reason: "on_failure: end"}, CauseTask, now, fx)
			r.revisit() // decide tasks whose conditions read the tasks that have just ended
		}
		// Foreach tasks may have ended the run. In that case no further task begins.
		if again = r.fanOut(now, fx) || r.beginLogical(now, fx) || len(r.stirred) > 0 || r.failedEnough(); again {
			r.revisit()
		}
	}
	handlesOf(r).tend(now, fx)
	switch {
	case r.State.Terminal():
	case r.active > 0:
		r.suspend(false)
	case r.Intent >= IntentStop:
		if r.deferred > r.fanning || handlesOf(r).owing() { // the child runs of calls, and errands, must end first
			r.suspend(false)
			return
		}
		r.stopFans(now)
		r.stopRest()
		if r.Cause == CauseStopped || r.Cause == CauseKilled {
			r.finalise(RunStopped, now)
		} else {
			r.finalise(RunFailed, now)
		}
	case r.State == RunSubmitted || r.State == RunWaiting || r.State == RunSplitting:
	case r.left == 0 && handlesOf(r).owing():
		r.suspend(false)
	case r.left == 0 && r.failed > 0:
		r.Cause = CauseTask
		r.finalise(RunFailed, now)
	case r.left == 0:
		r.finalise(RunSucceeded, now)
	case r.Intent == IntentPause && (r.State == RunRunning || r.State == RunSuspended):
		r.moveRun(RunPaused)
		r.record(Record{Kind: RecState, Task: LeaderTask, Text: r.State.String()})
	default:
		r.suspend(r.deferred > r.fanning && r.retrying == 0 && !r.listed() && !r.spreading() && !r.Evaluating())
	}
}

// failedEnough reports whether a failure of this generation ends the run.
func (r *Run) failedEnough() bool {
	return r.failed > r.frozen && r.Intent < IntentStop && r.Graph.EndOnFailure && !r.State.Terminal()
}

// stopRest ends the remaining tasks of a run that is being stopped, once no attempt runs and no task will
// start. If the run ends because of if_lost: fail, tasks that have not begun count as failed, not as stopped.
func (r *Run) stopRest() {
	if r.Cause == CauseNoRetake {
		r.endRest(Failed)
		return
	}
	r.endRest(Stopped)
}

// endRest gives every task that has not ended the same end.
func (r *Run) endRest(end TaskState) {
	for t := range r.tasks {
		if p := &r.tasks[t]; !p.state.Terminal() {
			r.moveTask(TaskID(t), end)
			p.listed = false
			if end.fails() {
				r.failed++
			}
		}
	}
	r.unlistAll()
	r.logical, r.stirred = nil, nil
}

func (r *Run) finalise(end RunState, now Now) {
	r.moveRun(end)
	r.FinishedAt = now.Wall
	if r.Claim != nil && r.Claim.Stage != ClaimNone {
		over := *r.Claim
		over.Stage = ClaimOver
		r.Claim = &over
	}
	r.record(Record{Kind: RecState, Task: LeaderTask, Text: end.String()})
}
