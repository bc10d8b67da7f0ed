package dag

import (
	"fmt"
	"time"
)

// A start deadline bounds the time between the instant at which a task became ready and its assignment. The
// rows give this instant: it is the end of the task's last need, or of the task's own last attempt.

// watchReady sets timers for the tasks that became ready in this step.
func (r *Run) watchReady(now Now, fx *Effects) {
	for _, t := range r.limited {
		if p := &r.tasks[t]; p.state == Ready {
			r.watchStartOf(t, now.Mono+r.Graph.Policy(t).StartDeadline, fx)
		}
	}
	r.limited = r.limited[:0]
}

func (r *Run) watchStartOf(t TaskID, due time.Duration, fx *Effects) {
	fx.Timers = append(fx.Timers, Timer{Due: due, Run: r.ID, Kind: TimerStart, Task: t, Token: r.tasks[t].token})
}

// startLate acts on a task that was not assigned by its deadline. The task fails, or, if the deadline only
// warns, the run records the warning once.
func (r *Run) startLate(ev *Event, now Now, fx *Effects) Verdict {
	if ev.Task < 0 || int(ev.Task) >= len(r.tasks) {
		return NoSuchTask
	}
	t, p := ev.Task, &r.tasks[ev.Task]
	pol := r.Graph.Policy(t)
	if p.token != ev.Token || p.state != Ready || pol.StartDeadline == 0 || r.Intent >= IntentStop || r.Graph.Logic(t) != nil {
		return Stale
	}
	row := AttemptRow{Run: r.ID, Task: t, State: AttemptFailed, Cause: CauseDeadline,
		Message: fmt.Sprintf("was not assigned within %s of being ready", pol.StartDeadline)}
	r.unlist(t)
	if pol.WarnOnTimeout {
		row.State = AttemptStopped
		r.put(&row, p, now)
		r.record(Record{Kind: RecMarked, Task: t, Token: p.token, State: Ready, Text: string(CauseDeadline)})
		if !handlesOf(r).owes(t) {
			r.list(t)
		}
		return Accepted
	}
	r.put(&row, p, now)
	r.record(Record{Kind: RecMarked, Task: t, Token: p.token, State: Failed, Text: string(CauseDeadline)})
	r.noteFailure(t, row.Message)
	r.failTask(t, row.Message)
	r.settleRun(now, fx)
	return Accepted
}

// watchLoaded sets the timers of the start deadlines of ready tasks after a load, each with the remaining
// time.
func (r *Run) watchLoaded(views []TaskView, attempts []AttemptRow, now Now, fx *Effects) {
	w := readiness{g: r.Graph, begun: r.StartedAt, views: views, attempts: attempts}
	for t := range r.tasks {
		if d, ok := w.startBy(TaskID(t)); ok && !d.Said {
			r.watchStartOf(TaskID(t), now.Mono+clamp(d.Due-now.Wall, d.Limit), fx)
		}
	}
}

// StartBy is the deadline by which a ready task must be assigned.
type StartBy struct {
	Due   Micros
	Limit time.Duration // counted from ready
	Warns bool          // the deadline does not fail the task: its lateness is only recorded
	Said  bool          // the lateness was already recorded
}

// StartsBy returns a function that gives the start deadline of a task, if the task is ready and has one.
func StartsBy(g *Graph, row *RunRow, views []TaskView, attempts []AttemptRow) func(TaskID) (StartBy, bool) {
	w := readiness{g: g, begun: row.StartedAt, views: views, attempts: attempts}
	return w.startBy
}

// readiness finds in the rows of a run the times at which its tasks became ready.
type readiness struct {
	g        *Graph
	begun    Micros
	views    []TaskView
	attempts []AttemptRow

	since  []Micros // task → the time at which it was settled; computed on first use
	newest map[TaskID]*AttemptRow
}

func (w *readiness) startBy(t TaskID) (StartBy, bool) {
	p := w.g.Policy(t)
	d := StartBy{Limit: p.StartDeadline, Warns: p.WarnOnTimeout}
	if d.Limit == 0 || w.views[t].State != Ready || w.g.Logic(t) != nil {
		return d, false // a logical task is never assigned; the deadline of a foreach task applies to its instances
	}
	if w.since == nil {
		w.settledAt()
	}
	from := w.turnOf(t)
	for _, n := range w.g.needs.of(t) {
		from = max(from, w.since[n])
	}
	if a := w.newest[t]; a != nil && w.views[t].Own {
		d.Said = a.byOperator() && a.Cause == CauseDeadline
		from = max(from, a.Finished)
	}
	d.Due = from + Micros(d.Limit.Microseconds())
	return d, true
}

// turnOf returns the earliest time at which a ready instance can have become ready. This is the time at which
// its foreach task got its items. If parallel bounds the instances, it is the time at which an earlier
// instance ended. No row says which instance that was, so turnOf uses the newest end. This way the deadline
// of the instance is never too early.
func (w *readiness) turnOf(t TaskID) Micros {
	of, ok := w.g.InstanceOf(t)
	if !ok || w.newest[of] == nil {
		return w.begun
	}
	from := max(w.begun, w.newest[of].Started)
	if w.g.logic[of].Parallel > 0 {
		for _, i := range w.g.fans[of].order {
			if a := w.newest[i]; a != nil {
				from = max(from, a.Finished)
			}
		}
	}
	return from
}

// settledAt computes the time at which each ended task ended. It is the end of the task's attempt or, without
// an attempt, the last end of the tasks that it needs.
func (w *readiness) settledAt() {
	w.since, w.newest = make([]Micros, len(w.views)), map[TaskID]*AttemptRow{}
	for i := range w.attempts {
		if a := &w.attempts[i]; a.Task >= 0 && a.Token == w.views[a.Task].Token {
			w.newest[a.Task] = a
		}
	}
	for _, t := range w.g.topo {
		if a := w.newest[t]; a != nil && w.views[t].Own {
			w.since[t] = a.Finished
			continue
		}
		for _, n := range w.g.needs.of(t) {
			w.since[t] = max(w.since[t], w.since[n])
		}
	}
}
