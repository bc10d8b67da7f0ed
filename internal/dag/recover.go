package dag

import "fmt"

// Scope says which part of a run a recover runs again.
type Scope uint8

// The scopes. ScopeFailed is the default. The others start from Event.Task.
const (
	ScopeFailed Scope = iota // all tasks that did not succeed, and their dependents
	ScopeFrom                // the tasks of ScopeFailed, the named task, and all its dependents
	ScopeOnly                // only the named task, and with the flags below also tasks before or after it

	ScopeUpstream   Scope = 1 << 4 // with ScopeOnly: also all tasks that the task needs, directly or not
	ScopeDependents Scope = 1 << 5 // with ScopeOnly: also all tasks that need the task, directly or not
)

// named returns the task that the operator has named, if any.
func (ev *Event) named() TaskID {
	if ev.Kind == EvRecover && ev.Scope.base() == ScopeFailed || ev.Kind == EvMark && ev.Mark != MarkRetry {
		return LeaderTask
	}
	return ev.Task
}

func (s Scope) base() Scope { return s &^ (ScopeUpstream | ScopeDependents) }

// recover begins a new generation of an ended run. Tasks that are not repeated keep their end.
func (r *Run) recover(ev *Event, now Now, fx *Effects) Verdict {
	again, v, _ := r.recoverable(ev)
	if v != Accepted {
		return v
	}
	count := 0
	for _, a := range again {
		if a {
			count++
		}
	}
	rec := Record{Kind: RecRecovered, Task: LeaderTask, Actor: ev.Actor, Reason: ev.Reason, Count: int32(count)}
	if ev.Scope.base() != ScopeFailed {
		rec.Task = ev.Task
	}
	to := RunRunning
	if ev.Wait != "" { // the run asks for its claim again
		to = RunWaiting
	}
	r.witherFans(r.closeFans(again, ev.named()))
	r.regenerate(again, &rec, to, now, fx)
	if from, ok := r.first(); ok && again[from] {
		r.beginAt(from, now)
	}
	r.recount()
	if ev.Wait != "" {
		return r.await(ev)
	}
	r.settleRun(now, fx)
	return Accepted
}

// recoverable returns the tasks that a recover repeats, or the reason why the verb is not allowed.
func (r *Run) recoverable(ev *Event) (again []bool, v Verdict, why string) {
	switch {
	case !r.State.Terminal():
		return nil, WrongState, fmt.Sprintf("the run is %s: only a run that has ended can be recovered; stop it first, or retry one of its tasks", r.State)
	case r.State == RunSkipped:
		return nil, WrongState, "the run is skipped: it never began; start it again with rerun"
	case r.Graph == nil || r.left > 0:
		return nil, WrongState, fmt.Sprintf("the run is %s and was never split into tasks; start it again with rerun", r.State)
	case ev.Scope.base() != ScopeFailed && (ev.Task < 0 || int(ev.Task) >= len(r.tasks)):
		return nil, NoSuchTask, ""
	}
	again = make([]bool, len(r.tasks))
	if ev.Scope.base() != ScopeFailed {
		again[ev.Task] = true
	}
	if ev.Scope.base() != ScopeOnly {
		r.addUnsuccessful(again)
	}
	switch ev.Scope {
	case ScopeFailed:
	case ScopeFrom:
		again[r.Graph.host(ev.Task)] = true
		r.Graph.spread(again, &r.Graph.deps, false)
	default:
		again[r.Graph.host(ev.Task)] = true
		up := make([]bool, len(again))
		up[r.Graph.host(ev.Task)] = true
		if ev.Scope&ScopeUpstream != 0 {
			r.Graph.spread(up, &r.Graph.needs, true)
		}
		if ev.Scope&ScopeDependents != 0 {
			r.Graph.spread(again, &r.Graph.deps, false)
		}
		for t := range up {
			again[t] = again[t] || up[t]
		}
	}
	r.closeFans(again, ev.named())
	for t := range again {
		if again[t] {
			if why = r.unstartable(ev, again); why != "" {
				return nil, WrongState, why
			}
			return again, Accepted, ""
		}
	}
	if r.State == RunSucceeded {
		return nil, WrongState, "the run has succeeded: nothing of it failed; recover it from a task, or start it again with rerun"
	}
	return again, Accepted, "" // all tasks of the stopped run had succeeded, so the recover only changes the end of the run
}

// addUnsuccessful adds the tasks that neither succeeded nor were skipped by rule, and the tasks that need
// them.
func (r *Run) addUnsuccessful(again []bool) {
	for _, t := range r.Graph.topo {
		again[t] = again[t] || r.tasks[t].state != Succeeded && r.tasks[t].state != Skipped
		again[t] = r.unsuccessfulInstances(again, t) || again[t]
		for _, n := range r.Graph.needs.of(t) {
			again[t] = again[t] || again[n]
		}
	}
}

// After reports, for each task, whether it is t or depends on t, directly or not.
func (g *Graph) After(t TaskID) []bool {
	set := make([]bool, g.Len())
	set[t] = true
	g.spread(set, &g.deps, false)
	return set
}

// spread adds to a set every task that can be reached from it in one direction of the graph.
func (g *Graph) spread(set []bool, way *adjacency, backwards bool) {
	topo := g.topo
	for i := range topo {
		t := topo[i]
		if backwards {
			t = topo[len(topo)-1-i]
		}
		if set[t] {
			for _, next := range way.of(t) {
				set[next] = true
			}
		}
	}
}

// unstartable returns the reason why the named task could not run again: a task that it needs failed and
// would not run again. It returns "" if the task could run.
func (r *Run) unstartable(ev *Event, again []bool) string {
	if ev.Scope.base() != ScopeOnly {
		return ""
	}
	host := r.Graph.host(ev.Task)
	for _, n := range r.Graph.needs.of(host) {
		p := &r.tasks[n]
		if again[n] || p.settled() && (!p.fails() || r.Graph.handles(host)) {
			continue
		}
		return fmt.Sprintf("task %s needs task %s, which is %s: recover it with its upstreams, or mark %s first",
			r.Graph.Name(ev.Task), r.Graph.Name(n), p.state, r.Graph.Name(n))
	}
	return ""
}

// regenerate begins a new generation of a run, whether the run has ended or not. The tasks that the parameter
// again marks become pending. All other tasks keep their states, and running ones continue. The caller must
// then call recount. In between, it may decide about a task.
func (r *Run) regenerate(again []bool, rec *Record, to RunState, now Now, fx *Effects) {
	r.base = append([]byte{r.pastEnd()}, r.packKept(again)...)
	r.Generation++
	r.Message = ""
	if r.State.Terminal() {
		r.Intent, r.Cause = IntentRun, ""
		r.StartedAt, r.FinishedAt, r.shares = now.Wall, 0, nil
		r.moveRun(to)
	}
	r.changed = true
	r.record(*rec)
	for t := range r.tasks {
		p := &r.tasks[t]
		p.retries, p.losses = 0, 0
		if !again[t] {
			p.halted = p.state == Stopped
			continue
		}
		if p.state == Ready {
			r.unlist(TaskID(t))
		}
		if p.state != Pending {
			r.moveTask(TaskID(t), Pending)
		}
		if p.own, p.halted = false, false; t >= r.Graph.fixed() {
			p.blockers = 1
		}
		r.forgetOutputs(TaskID(t))
	}
	if r.Graph.Timeout > 0 {
		left := clamp(r.StartedAt+Micros(r.Graph.Timeout.Microseconds())-now.Wall, r.Graph.Timeout)
		fx.Timers = append(fx.Timers, r.runTimer(now.Mono+left))
	}
}

// recount updates the counts after a new generation has begun, and decides the tasks that can be decided in
// it.
func (r *Run) recount() {
	r.failed, r.late, r.questions, r.asking = 0, nil, nil, 0
	r.frozen = countFrozen(r.base)
	for t := range r.tasks {
		p := &r.tasks[t]
		if p.fails() {
			r.failed++
		}
		if p.state == Failed {
			r.noteFailure(TaskID(t), "")
		}
		if p.state != Pending {
			continue
		}
		if p.blockers = 0; t >= r.Graph.fixed() {
			p.blockers = 1
		}
		for _, n := range r.Graph.needs.of(TaskID(t)) {
			if !r.tasks[n].settled() {
				p.blockers++
			}
		}
	}
	// Decide all pending tasks, including those whose states follow from ends that the generation keeps.
	for _, t := range r.Graph.topo {
		if r.tasks[t].state == Pending {
			r.decide(t)
		}
	}
	for _, t := range r.Graph.topo {
		if r.spreads[t] != nil {
			r.respread(t)
		}
	}
}

// startFrom makes a run begin at a task. Tasks that do not depend on it count as skipped, as if an earlier
// generation had skipped them. The task itself is ready, whatever its needs.
func (r *Run) startFrom(now Now) {
	from, ok := r.first()
	if !ok {
		r.Cause, r.Message = CauseSplit, fmt.Sprintf("it was to begin at task %s, which its workflow does not have", r.Fire.From)
		r.endRest(Stopped)
		r.finalise(RunFailed, now)
		return
	}
	after := r.Graph.After(from)
	for t := range r.tasks {
		if !after[t] {
			r.moveTask(TaskID(t), Skipped)
		}
	}
	r.base = append([]byte{0}, r.packKept(after)...)
	r.beginAt(from, now)
	r.recount()
}

// first returns the task at which the run begins.
func (r *Run) first() (TaskID, bool) {
	if r.Fire == nil || r.Fire.From == "" {
		return 0, false
	}
	return r.Graph.Find(r.Fire.From)
}

// beginAt makes the first task of the run ready. Its needs count as skipped.
func (r *Run) beginAt(t TaskID, now Now) {
	if len(r.Graph.needs.of(t)) == 0 {
		return // the task is already ready
	}
	p := &r.tasks[t]
	r.put(&AttemptRow{Run: r.ID, Task: t, State: AttemptStopped, Cause: CauseFrom, Message: "the run begins here"}, p, now)
	r.record(Record{Kind: RecMarked, Task: t, Token: p.token, State: Ready, Actor: r.User, Text: string(CauseFrom)})
	r.makeReady(t)
}

// fails reports whether the task makes its dependents upstream_failed.
func (p *task) fails() bool { return p.state.fails() || p.halted }

// settled reports whether the task counts as done for its dependents.
func (p *task) settled() bool { return p.state.settled() || p.halted }

// keptOwn marks a packed state that a generation keeps and that is the state of the task's newest attempt.
// Together with pending, it says that the newest attempt alone decides the state, whatever the generation of
// the attempt.
const keptOwn = 0x80

// packKept packs the states that the next generation keeps. A task that the next generation decides is
// pending. An ended task has its end, with the mark keptOwn if the end is that of its newest attempt.
func (r *Run) packKept(again []bool) []byte {
	return packStates(len(r.tasks), func(t TaskID) TaskState {
		p, s := &r.tasks[t], Pending
		if again[t] {
			return Pending
		}
		if p.state.Terminal() {
			s = p.state
		}
		if p.own {
			s |= keptOwn
		}
		return s
	})
}

// pastEnd returns the first byte of the kept states of a generation: 1 + the last end of the run, or 0 if the
// run never ended.
func (r *Run) pastEnd() byte {
	if r.State.Terminal() {
		return byte(r.State) + 1
	}
	if len(r.base) > 0 {
		return r.base[0]
	}
	return 0
}

// EndedBefore returns the end of the run in the last generation that ended. It returns false if none has.
func EndedBefore(base []byte) (RunState, bool) {
	if len(base) == 0 || base[0] == 0 {
		return 0, false
	}
	return RunState(base[0] - 1), true
}

// EndedBefore returns the end of the run in the last earlier generation that has ended.
func (r *Run) EndedBefore() (RunState, bool) { return EndedBefore(r.base) }

// eachKept calls f for the states that a generation keeps. It returns false if they are damaged.
func eachKept(base []byte, f func(s TaskState, count int)) bool {
	return len(base) > 0 && base[0] <= byte(runStates) && eachPacked(base[1:], f)
}

// countFrozen counts the kept ends that make the run fail, whatever the tasks of its present generation do.
func countFrozen(base []byte) int32 {
	n := int32(0)
	eachKept(base, func(s TaskState, count int) {
		if s &^= keptOwn; s.fails() || s == Stopped {
			n += int32(count)
		}
	})
	return n
}

// keep restores the states that the generation keeps from the earlier generation, and the states that follow
// from the newest attempts.
func (d *deriver) keep() error {
	odd := false
	own := func(t TaskID) bool {
		i := d.latest[t]
		return i > 0 && d.attempts[i-1].Generation == d.run.Generation
	}
	if d.run.Base == nil {
		for t := range d.views {
			d.views[t].Own = own(TaskID(t))
		}
	} else {
		t := 0
		odd = !eachKept(d.run.Base, func(s TaskState, count int) {
			behind := s&keptOwn != 0
			s &^= keptOwn
			odd = odd || s != Pending && !s.Terminal() || count > len(d.views)-t
			for range min(count, len(d.views)-t) {
				v := &d.views[t]
				v.State, v.Own, v.Halted = s, behind || s == Pending && own(TaskID(t)), s == Stopped
				odd = odd || behind && d.latest[t] == 0
				t++
			}
		}) || t > len(d.views) || t < d.g.fixed() || odd
		for ; t < len(d.views); t++ { // these instances were added after the generation began
			d.views[t].Own = own(TaskID(t))
		}
	}
	if odd {
		return fmt.Errorf("kept states of run %s: %w", d.run.ID, errPacked)
	}
	for t := range d.views {
		if v := &d.views[t]; v.Own && !v.State.Terminal() {
			v.Halted = d.attempts[d.latest[t]-1].halted()
		}
	}
	return nil
}

// PlanRecover returns the tasks that a recover would run again now, or the reason why it is not allowed. It
// changes nothing.
func (r *Run) PlanRecover(scope Scope, task TaskID) (again []bool, why string) {
	ev := Event{Kind: EvRecover, Scope: scope, Task: task}
	again, v, why := r.recoverable(&ev)
	if v != Accepted {
		return nil, why
	}
	return again, ""
}
