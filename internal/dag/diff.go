package dag

import "fmt"

// Diff says in one line where two runs in memory differ, or "" if they are the same: the
// owner's run and one loaded from its rows must never differ after a commit. The order of
// the ready list is not compared (a reload orders by task), nor whether a retry's timer
// has been delivered yet (that is the clock, not a decision).
func Diff(a, b *Run) string {
	type head struct {
		State   RunState
		Intent  Intent
		Gen     int32
		Cause   Cause
		Message string
		Times   [3]Micros
		Leader  HandlerID
		Counts  [3]int32
		Task    TaskState
		Token   Token
		Base    string
		Tasks   int
	}
	of := func(r *Run) head {
		return head{r.State, r.Intent, r.Generation, r.Cause, r.Message, [3]Micros{r.SplitAt, r.StartedAt, r.FinishedAt},
			r.Leader, [3]int32{r.left, r.failed, r.active}, leaderState(r), r.leader.token, string(r.base), len(r.tasks)}
	}
	if x, y := of(a), of(b); x != y {
		return fmt.Sprintf("run: %+v, other: %+v", x, y)
	}
	for t := range a.tasks {
		x, y := a.canonical(TaskID(t)), b.canonical(TaskID(t))
		if x != y {
			return fmt.Sprintf("task %s: %+v, other: %+v", a.Graph.Name(TaskID(t)), x, y)
		}
	}
	for t, out := range a.outputs {
		if string(b.outputs[t]) != string(out) {
			return fmt.Sprintf("outputs of task %s: %s, other: %s", a.Graph.Name(t), out, b.outputs[t])
		}
	}
	if len(a.outputs) != len(b.outputs) {
		return fmt.Sprintf("%d outputs, other: %d", len(a.outputs), len(b.outputs))
	}
	return ""
}

// leaderState is compared only while it matters: how Leader work ended is its row's.
func leaderState(r *Run) TaskState {
	if r.State == RunSplitting {
		return r.leader.state
	}
	return Pending
}

// canonical is a task without its place in memory.
func (r *Run) canonical(t TaskID) any {
	p := r.tasks[t]
	held := AttemptRow{}
	if p.slot != 0 {
		held = r.slots[p.slot-1].AttemptRow
	}
	if p.state == RetryWait {
		p.state = Ready
	}
	if p.state != Pending {
		p.blockers = 0
	}
	p.slot = 0
	return fmt.Sprintf("%+v %+v", p, held)
}
