package dag

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"time"
)

// makeReady puts a task on the run's ready list.
func (r *Run) makeReady(t TaskID) {
	r.moveTask(t, Ready)
	r.ready.push(t, r.Graph.Policy(t).Priority)
}

// succeed settles a task and frees what waits for it.
func (r *Run) succeed(t TaskID, a *attempt) {
	r.moveTask(t, Succeeded)
	if r.Graph.kept[t] && a.Outputs != nil {
		if r.outputs == nil {
			r.outputs = map[TaskID][]byte{}
		}
		r.outputs[t] = a.Outputs
	}
	r.settled(t)
}

// settled tells the direct dependents of a settled task; what gets decided by it is
// followed with a list instead of recursion, so a chain of 100,000 skips is a loop.
func (r *Run) settled(t TaskID) {
	work := []TaskID(nil)
	for {
		for _, d := range r.Graph.deps.of(t) {
			if p := &r.tasks[d]; p.state == Pending {
				if p.blockers--; r.verdictOn(d, p) {
					work = append(work, d)
				}
			}
		}
		if len(work) == 0 {
			return
		}
		t, work = work[len(work)-1], work[:len(work)-1]
	}
}

// decide settles or readies one pending task whose needs are all settled, and whatever
// follows from that.
func (r *Run) decide(t TaskID) {
	if r.verdictOn(t, &r.tasks[t]) {
		r.settled(t)
	}
}

// verdictOn moves a pending task if something can be said of it already, and reports
// whether it is settled now, so that its dependents must be told.
func (r *Run) verdictOn(t TaskID, p *task) bool {
	to, why := r.judge(t, p.blockers == 0, r.stateOf, r.outputOf)
	switch to {
	case Pending:
		return false
	case Ready:
		r.makeReady(t)
		return false
	case Failed:
		r.noteFailure(t, why)
		r.record(Record{Kind: RecEnded, Task: t, State: Failed, Text: string(CauseCondition)})
	}
	r.moveTask(t, to)
	if to.fails() {
		r.failed++
	}
	return true
}

func (r *Run) stateOf(t TaskID) TaskState { return r.tasks[t].state }
func (r *Run) outputOf(t TaskID) []byte   { return r.outputs[t] }

// judge is the whole rule for a task without a row: what it is, given the states of what
// it needs. Memory and Derive both use it, so they cannot differ.
//
//   - a failed need makes it upstream_failed at once, unless its condition handles
//     failures;
//   - otherwise it stays pending until all needs are settled;
//   - then: all needs skipped → skipped; its condition false → skipped; else ready.
func (r *Run) judge(t TaskID, settled bool, state func(TaskID) TaskState, output func(TaskID) []byte) (TaskState, string) {
	g := r.Graph
	cond := g.Condition(t)
	handles := cond != nil && cond.Handles()
	if !settled && handles {
		return Pending, ""
	}
	needs := g.needs.of(t)
	failure, success := false, len(needs) == 0
	for _, n := range needs {
		switch s := state(n); {
		case s.fails():
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
	if cond == nil || !handles && !success {
		if success {
			return Ready, ""
		}
		return Skipped, ""
	}
	holds, err := cond.Holds(View{
		Success: success && !failure, Failure: failure, Params: r.Params,
		Task: func(name string) (TaskState, []byte) {
			id, ok := g.Find(name)
			if !ok {
				return Skipped, nil
			}
			return state(id), output(id)
		},
	})
	switch {
	case err != nil:
		return Failed, fmt.Sprintf("the if of task %s: %v", g.Name(t), err)
	case holds:
		return Ready, ""
	}
	return Skipped, ""
}

// failAttempt decides whether a failed attempt is tried again.
func (r *Run) failAttempt(t TaskID, p *task, a *attempt, now Now, fx *Effects) {
	pol := r.Graph.Policy(t)
	if r.Intent < IntentStop && int32(p.retries) < pol.Retry.Max && retryable(&pol.Retry, a) {
		p.retries++
		wait := pol.Retry.wait(int(p.retries), r.ID, t, a.Token)
		a.RetryWait, a.RetryAt = wait, now.Wall+Micros(wait.Microseconds())
		r.recordEnd(a, RetryWait)
		r.moveTask(t, RetryWait)
		fx.Timers = append(fx.Timers, Timer{Due: now.Mono + wait, Run: r.ID, Kind: TimerRetry, Task: t, Token: a.Token})
		return
	}
	r.recordEnd(a, Failed)
	r.noteFailure(t, a.Message)
	r.failTask(t, fx)
}

// noteFailure keeps the first failure as the run's sentence.
func (r *Run) noteFailure(t TaskID, message string) {
	if r.Message == "" {
		r.Message = fmt.Sprintf("task %s failed", r.Graph.Name(t))
		if message != "" {
			r.Message += ": " + message
		}
	}
}

// failTask is the final failure of a task: everything that needs it, directly or not, is
// settled in this same step.
func (r *Run) failTask(t TaskID, fx *Effects) {
	r.moveTask(t, Failed)
	r.failed++
	r.settled(t)
	if r.Graph.EndOnFailure && r.Intent < IntentStop {
		r.raise(IntentStop, CauseTask, "on_failure: end", "", fx)
	}
}

// retryable applies the policy's exit codes. A start that cannot succeed the next time
// either (no such program) is retried like any other: the file may be there by then.
func retryable(p *Retry, a *attempt) bool {
	if len(p.OnExit) == 0 {
		return true
	}
	for _, code := range p.OnExit {
		if a.Exited && a.ExitCode == code {
			return true
		}
	}
	return false
}

// wait is the pause before the nth retry. The jitter is a hash, so that Step stays pure
// and a replay waits as long.
func (p *Retry) wait(n int, run RunID, t TaskID, token Token) time.Duration {
	d := float64(p.Delay)
	if p.Backoff > 0 {
		d *= math.Pow(p.Backoff, float64(n-1))
	}
	if p.MaxDelay > 0 && d > float64(p.MaxDelay) {
		d = float64(p.MaxDelay)
	}
	if p.Jitter > 0 {
		h := fnv.New64a()
		h.Write(run[:])
		h.Write(binary.LittleEndian.AppendUint32(nil, uint32(t)))
		h.Write(binary.LittleEndian.AppendUint32(nil, uint32(token)))
		d *= 1 + p.Jitter*(float64(h.Sum64()>>11)/(1<<52)-1)
	}
	return time.Duration(min(d, float64(retryWaitMax)))
}

// retryWaitMax bounds a retry's pause whatever the backoff makes of it.
const retryWaitMax = 30 * 24 * time.Hour

// settleRun is the Leader's end: when nothing is left to do, it sets the outcome in the
// same step that settled the last task; and it keeps paused and running apart.
func (r *Run) settleRun(now Now) {
	switch {
	case r.State == RunSubmitted || r.State.Terminal():
	case r.active > 0:
	case r.Intent >= IntentStop:
		r.stopRest()
		if r.Cause == CauseStopped || r.Cause == CauseKilled {
			r.finalise(RunStopped, now)
		} else {
			r.finalise(RunFailed, now)
		}
	case r.State == RunSplitting:
	case r.left == 0 && r.failed > 0:
		r.Cause = CauseTask
		r.finalise(RunFailed, now)
	case r.left == 0:
		r.finalise(RunSucceeded, now)
	case r.Intent == IntentPause && r.State == RunRunning:
		r.moveRun(RunPaused)
		r.record(Record{Kind: RecState, Task: LeaderTask, Text: r.State.String()})
	}
}

// stopRest settles what a stop leaves: no attempt runs any more, nothing else will start.
func (r *Run) stopRest() {
	for t := range r.tasks {
		if !r.tasks[t].state.Terminal() {
			r.moveTask(TaskID(t), Stopped)
		}
	}
	r.ready.reset()
}

func (r *Run) finalise(end RunState, now Now) {
	r.moveRun(end)
	r.FinishedAt = now.Wall
	r.record(Record{Kind: RecState, Task: LeaderTask, Text: end.String()})
}
