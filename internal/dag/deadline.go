package dag

import (
	"fmt"
	"time"
)

// A start deadline counts from the instant at which a task became ready to its hand-over. The
// instant is in the rows: the end of the last task that it needs, or of its own last attempt.

// watchReady asks for the timers of what became ready in this step.
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

// startLate acts on a task that was not handed over in time: it failed, or, where a timeout only
// warns, that is said once.
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
		Message: fmt.Sprintf("was not handed over within %s of being ready", pol.StartDeadline)}
	r.unlist(t)
	if pol.WarnOnTimeout {
		row.State = AttemptStopped
		r.put(&row, p, now)
		r.record(Record{Kind: RecMarked, Task: t, Token: p.token, State: Ready, Text: string(CauseDeadline)})
		r.list(t)
		return Accepted
	}
	r.put(&row, p, now)
	r.record(Record{Kind: RecMarked, Task: t, Token: p.token, State: Failed, Text: string(CauseDeadline)})
	r.noteFailure(t, row.Message)
	r.failTask(t)
	r.settleRun(now, fx)
	return Accepted
}

// watchLoaded asks again for the start deadlines of what is ready, with what is left of them.
func (r *Run) watchLoaded(views []TaskView, attempts []AttemptRow, now Now, fx *Effects) {
	var since []Micros // by task, when it was settled; made when somebody asks
	newest := map[TaskID]*AttemptRow{}
	for t := range r.tasks {
		limit := r.Graph.Policy(TaskID(t)).StartDeadline
		if limit == 0 || r.tasks[t].state != Ready || r.Graph.Logic(TaskID(t)) != nil {
			continue // or it is never handed over: that of a foreach is its instances'
		}
		if since == nil {
			since = r.settledAt(views, attempts, newest)
		}
		from := r.turnOf(TaskID(t), newest)
		for _, n := range r.Graph.needs.of(TaskID(t)) {
			from = max(from, since[n])
		}
		if a := newest[TaskID(t)]; a != nil && views[t].Own {
			if a.byOperator() && a.Cause == CauseDeadline {
				continue // it was said
			}
			from = max(from, a.Finished)
		}
		r.watchStartOf(TaskID(t), now.Mono+clamp(from+Micros(limit.Microseconds())-now.Wall, limit), fx)
	}
}

// turnOf is when a ready task could be ready at the earliest, as far as it is an instance: once its
// foreach task had its items and, with a cap, the last one before it ended. Which one made room is
// in no row; the newest end gives it no less time than it has.
func (r *Run) turnOf(t TaskID, newest map[TaskID]*AttemptRow) Micros {
	of, ok := r.Graph.InstanceOf(t)
	if !ok || newest[of] == nil {
		return r.StartedAt
	}
	from := max(r.StartedAt, newest[of].Started)
	if r.Graph.logic[of].Parallel > 0 {
		for _, i := range r.Graph.fans[of].order {
			if a := newest[i]; a != nil {
				from = max(from, a.Finished)
			}
		}
	}
	return from
}

// settledAt is when each task that has ended did: by its attempt, or by what it needs.
func (r *Run) settledAt(views []TaskView, attempts []AttemptRow, newest map[TaskID]*AttemptRow) []Micros {
	at := make([]Micros, len(r.tasks))
	for i := range attempts {
		if a := &attempts[i]; a.Task >= 0 && a.Token == views[a.Task].Token {
			newest[a.Task] = a
		}
	}
	for _, t := range r.Graph.topo {
		if a := newest[t]; a != nil && views[t].Own {
			at[t] = a.Finished
			continue
		}
		for _, n := range r.Graph.needs.of(t) {
			at[t] = max(at[t], at[n])
		}
	}
	return at
}
