package dag

import (
	"fmt"
	"reflect"
)

// Diff describes in one line how two runs in memory differ, or returns "" if they are the same. After a
// commit, the owner's run must equal the run that is loaded from its rows. Diff does not compare the order
// of the ready list (a reload orders by task), the time since which a task is ready, or whether the timer of
// a retry has fired (that depends on the clock).
func Diff(a, b *Run) string {
	if x, y := headOf(a), headOf(b); x != y {
		return fmt.Sprintf("run: %+v, other: %+v", x, y)
	}
	for t := range a.tasks {
		x, heldX := a.canonical(TaskID(t))
		y, heldY := b.canonical(TaskID(t))
		if x != y || !reflect.DeepEqual(heldX, heldY) {
			return fmt.Sprintf("task %s: %+v %+v, other: %+v %+v", a.Graph.Name(TaskID(t)), x, heldX, y, heldY)
		}
	}
	for of, x := range a.spreads {
		if y := b.spreads[of]; y == nil || x.left != y.left || x.live != y.live && a.retrying == b.retrying {
			return fmt.Sprintf("instances of task %s: %+v, other: %+v", a.Graph.Name(of), x, y)
		}
	}
	for t, out := range a.outputs {
		if string(b.outputs[t]) != string(out) {
			return fmt.Sprintf("outputs of task %s: %s, other: %s", a.Graph.Name(t), out, b.outputs[t])
		}
	}
	if x, y := handlesOf(a).String(), handlesOf(b).String(); x != y {
		return fmt.Sprintf("handles: %s, other: %s", x, y)
	}
	if len(a.outputs) != len(b.outputs) {
		return fmt.Sprintf("%d outputs, other: %d", len(a.outputs), len(b.outputs))
	}
	return ""
}

// runHead holds the fields of a run that Diff compares, apart from its tasks.
type runHead struct {
	State      RunState
	Intent     Intent
	Generation int32
	Cause      Cause
	Message    string
	Times      [4]Micros
	Leader     HandlerID
	Counts     [5]int32
	Task       task
	Base       string
	Own        string
	Tasks      int
	Claim      string
}

func headOf(r *Run) runHead {
	h := runHead{r.State, r.Intent, r.Generation, r.Cause, r.Message, [4]Micros{r.SplitAt, r.StartedAt, r.FinishedAt, r.LeaderAt},
		r.Leader, [5]int32{r.left, r.failed, r.active, r.deferred, r.fanning}, r.leader, string(r.base), string(r.own), len(r.tasks), string(PackClaims(r.Claim, r.Shares()))}
	h.Task.slot = 0
	if r.State != RunSplitting { // after the split, only the row of the attempt shows the Leader's attempt
		h.Task.state = Pending
	}
	return h
}

// canonical returns a task without its position in memory, together with its open attempt.
func (r *Run) canonical(t TaskID) (task, *AttemptRow) {
	p := r.tasks[t]
	var held *AttemptRow
	if p.slot != 0 {
		held = &r.slots[p.slot-1].AttemptRow
	}
	if p.state == RetryWait {
		p.state = Ready
	}
	if p.state != Pending {
		p.blockers = 0
	}
	p.slot, p.listed, p.since = 0, false, 0
	return p, held
}
