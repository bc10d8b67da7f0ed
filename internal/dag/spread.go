package dag

import (
	"fmt"
	"math"
	"strings"
)

// The rules of a foreach task in its run. The attempt of the task is deferred until all instances have ended.
// It is armed when the instances exist. The setting parallel bounds the number of instances that are held or
// wait for a retry. Up to that bound, the first instances without an attempt are ready. This rule uses rows
// only, so Derive gets the same result.

// spread counts the instances of one foreach task in memory.
type spread struct {
	left int32 // number of instances that have not ended
	live int32 // ready, held, or waiting for a retry
	next int32 // the index in the order of the items before which no instance waits because of parallel
}

// goes reports whether an instance in this state counts against parallel.
func goes(s TaskState) bool { return s != Pending && !s.Terminal() }

// cap returns the largest number of instances at one time.
func (l *Logic) cap() int32 {
	if l.Parallel <= 0 {
		return math.MaxInt32
	}
	return l.Parallel
}

// ending returns the state of an instance without an attempt. The parameter of is the state of its foreach
// task. Pending means that the instance waits because of parallel.
func ending(of TaskState, halted bool) TaskState {
	switch {
	case of.fails() || halted:
		return UpstreamFailed
	case of == Succeeded || of == Skipped:
		return Skipped
	}
	return Pending
}

// moved counts the change that moveTask makes to an instance.
func (r *Run) moved(t TaskID, from, to TaskState) {
	of, _ := r.Graph.InstanceOf(t)
	sp := r.spreads[of]
	if goes(from) {
		sp.live--
	}
	if goes(to) {
		sp.live++
	}
	switch {
	case to.Terminal():
		sp.left--
	case from.Terminal():
		sp.left++
	}
	if to.Terminal() {
		r.stir(of)
	}
}

// stir marks a foreach task for settleRun to examine.
func (r *Run) stir(of TaskID) {
	if n := len(r.stirred); n == 0 || r.stirred[n-1] != of {
		r.stirred = append(r.stirred, of)
	}
}

// armed reports whether a deferred foreach task has its instances.
func (r *Run) armed(of TaskID) bool {
	p := &r.tasks[of]
	return p.state == Deferred && r.slots[p.slot-1].Started != 0
}

// spreading reports whether a foreach task computes its items, or collects the outputs of its instances. It
// is called only for a run in which no task runs, is ready or waits for a retry, so all live instances are
// calls.
func (r *Run) spreading() bool {
	if r.fanning == 0 {
		return false
	}
	idle := int32(0)
	for of, sp := range r.spreads {
		if sp.live > 0 && r.tasks[of].state == Deferred {
			idle++
		}
	}
	return idle < r.fanning
}

// recountSpread counts the instances of a foreach task from their states.
func (r *Run) recountSpread(of TaskID) *spread {
	sp := &spread{}
	for _, t := range r.Graph.fans[of].all {
		s := r.tasks[t].state
		if !s.Terminal() {
			sp.left++
		}
		if goes(s) {
			sp.live++
		}
	}
	if r.spreads == nil {
		r.spreads = map[TaskID]*spread{}
	}
	r.spreads[of] = sp
	return sp
}

// respread updates the instances of a foreach task after more than one of them changed.
func (r *Run) respread(of TaskID) {
	sp, f := r.recountSpread(of), r.Graph.fans[of]
	r.stir(of)
	if r.tasks[of].state != Deferred {
		return
	}
	armed, room := r.armed(of), int64(r.Graph.logic[of].cap())
	for _, t := range f.all {
		if p := &r.tasks[t]; goes(p.state) && p.own {
			room--
		}
		if p := &r.tasks[t]; armed && r.Graph.retired(t) && !p.state.Terminal() {
			r.moveTask(t, Skipped)
		}
	}
	for _, t := range f.order { // an instance that is repeated counts against parallel, too
		p := &r.tasks[t]
		if p.own || p.state != Pending && p.state != Ready {
			continue
		}
		if room--; room < 0 && p.state == Ready {
			r.unlist(t)
			r.moveTask(t, Pending)
			p.blockers = 1
		}
	}
	sp.next = 0
}

// fanOut continues the foreach tasks that are marked as stirred. It reports whether there were any.
func (r *Run) fanOut(now Now, fx *Effects) bool {
	any := len(r.stirred) > 0
	for len(r.stirred) > 0 && !r.State.Terminal() {
		of := r.stirred[len(r.stirred)-1]
		r.stirred = r.stirred[:len(r.stirred)-1]
		sp, f := r.spreads[of], r.Graph.fans[of]
		if sp == nil {
			continue
		}
		r.endWith(of)
		if !r.armed(of) {
			continue
		}
		for most := r.Graph.logic[of].cap(); sp.live < most && int(sp.next) < len(f.order); sp.next++ {
			if t := f.order[sp.next]; r.tasks[t].state == Pending {
				r.makeReady(t)
			}
		}
		if sp.left == 0 && r.Intent < IntentStop {
			r.join(of, &r.tasks[of], now, fx)
		}
	}
	r.stirred = r.stirred[:0]
	return any
}

// endWith ends the waiting instances of a foreach task that has ended.
func (r *Run) endWith(of TaskID) {
	sp, p := r.spreads[of], &r.tasks[of]
	if end := ending(p.state, p.halted); sp != nil && end.Terminal() {
		r.endInstances(r.Graph.fans[of], sp, end)
	}
}

// endInstances gives each waiting instance the end that follows from the end of its foreach task.
func (r *Run) endInstances(f *fan, sp *spread, end TaskState) {
	for i := 0; i < len(f.all) && sp.left > 0; i++ {
		t, to := f.all[i], end
		if r.tasks[t].state != Pending {
			continue
		}
		if f.without(i) {
			to = Skipped
		}
		r.moveTask(t, to)
		if to.fails() {
			r.failed++
		}
	}
}

// join settles a foreach task whose instances have ended: at once, or when the owner has read their
// outputs.
func (r *Run) join(of TaskID, p *task, now Now, fx *Effects) {
	f, l := r.Graph.fans[of], r.Graph.logic[of]
	if why := r.failedInstances(f); why != "" {
		r.failLogical(of, r.endLogical(p, now), CauseInstances, why)
		return
	}
	if l.Collect && len(f.order) > 0 {
		fx.Prepares = append(fx.Prepares, Prepare{Run: r.ID, Task: of, Token: p.token, Kind: Foreach})
		return
	}
	a := r.endLogical(p, now)
	a.State = AttemptSucceeded
	if l.Collect {
		a.Outputs = []byte("[]")
	}
	r.recordEnd(a, Succeeded)
	r.succeed(of, a)
}

// failedInstances names the failed instances. It returns "" if there are none.
func (r *Run) failedInstances(f *fan) string {
	var names []string
	n, most := 0, 5
	for _, t := range f.order {
		if !r.tasks[t].fails() {
			continue
		}
		if n++; n <= most {
			names = append(names, f.names[r.Graph.grown[int(t)-r.Graph.fixed()].nth])
		}
	}
	switch {
	case n == 0:
		return ""
	case n > most:
		names = append(names, "…")
	}
	return fmt.Sprintf("%d of %d instances failed: %s", n, len(f.order), strings.Join(names, ", "))
}

// splitForeach stores the items of a foreach task and makes its instances in the same step.
func (r *Run) splitForeach(ev *Event, p *task, now Now, fx *Effects) Verdict {
	a, t := &r.slots[p.slot-1], ev.Task
	if a.Started != 0 || ev.Items == nil {
		return Duplicate
	}
	err := ev.Items.check()
	var g *Graph
	own := r.own
	if err == nil {
		packed := packSplit(t, ev.Items)
		own = appendSegment(r.own, segmentSplit, packed)
		_, items, _ := unpackSplit(own[len(own)-len(packed):]) // read the items back, so that they share the memory of the packed form
		g, err = r.Graph.grow(t, &items)
	}
	if err != nil {
		r.failLogical(t, r.endLogical(p, now), CausePrepare, err.Error())
		r.settleRun(now, fx)
		return Accepted
	}
	r.touch(p.slot - 1)
	a.Started = max(now.Wall, a.Assigned)
	r.own, r.Graph, r.changed = own, g, true
	for n := g.Len() - len(r.tasks); n > 0; n-- {
		r.tasks = append(r.tasks, task{blockers: 1})
		r.left++
	}
	r.record(Record{Kind: RecSplit, Task: t, Token: a.Token, Count: int32(len(ev.Items.Values))})
	r.respread(t)
	r.settleRun(now, fx)
	return Accepted
}

// joined reports whether an answer with the outputs of all instances still matches the present instances.
func (r *Run) joined(ev *Event) bool {
	sp := r.spreads[ev.Task]
	switch armed := r.armed(ev.Task); {
	case !armed:
		return ev.Result.State != AttemptSucceeded
	default:
		return sp.left == 0 && ev.Child.Generation == r.Generation && r.Intent < IntentStop
	}
}

// stopFans ends the foreach tasks of a run that is being stopped, once no attempt of the run is running.
func (r *Run) stopFans(now Now) {
	for t := 0; t < len(r.tasks) && r.fanning > 0; t++ {
		if p := &r.tasks[t]; p.state == Deferred && r.Graph.Kind(TaskID(t)) == Foreach {
			r.stopLogical(TaskID(t), r.endLogical(p, now))
		}
	}
}

// stopInstances stops every instance of a foreach task that has not ended.
func (r *Run) stopInstances(ev *Event, now Now, fx *Effects) {
	for _, t := range r.Graph.fans[ev.Task].order {
		one := *ev
		one.Task = t
		p := &r.tasks[t]
		switch {
		case p.state.Terminal() || p.state.Held() && r.halting(p):
		case p.state.Held():
			r.haltHeld(&one, p, fx)
		default:
			if p.state == Deferred {
				r.decreeDeferred(&one, p, now, fx)
			} else {
				r.decree(&one, p, now)
			}
			r.failed++
			r.noteHalt(t)
		}
	}
}

// closeFans adds to a set of tasks that run again those tasks that the rules of foreach require. If the
// foreach task itself was named, or one of its needs runs again, its items are computed again and all
// instances run. Otherwise the instances stay, and only those in the set run. closeFans returns the foreach
// tasks whose items are computed again, in their order.
func (r *Run) closeFans(again []bool, named TaskID) (stale []TaskID) {
	if len(r.Graph.fans) == 0 {
		return nil
	}
	for _, t := range r.Graph.topo {
		f := r.Graph.fans[t]
		if f == nil || !again[t] {
			continue
		}
		anew := t == named || f.stale
		for _, n := range r.Graph.Needs(t) {
			anew = anew || again[n]
		}
		if !anew {
			continue
		}
		stale = append(stale, t)
		for _, i := range f.all {
			again[i] = true
		}
	}
	return stale
}

// witherFans marks in the run's row the foreach tasks that must compute their items again.
func (r *Run) witherFans(stale []TaskID) {
	for _, t := range stale {
		if r.Graph.fans[t].stale {
			continue
		}
		var w packer
		w.uint(uint64(t))
		r.own = appendSegment(r.own, segmentStale, w.b)
		r.Graph = r.Graph.wither(t)
		r.changed = true
	}
}

// unsuccessfulInstances adds to a set the instances of a foreach task that neither succeeded nor were skipped
// by rule. It reports whether there are any.
func (r *Run) unsuccessfulInstances(again []bool, of TaskID) (any bool) {
	for _, t := range r.Graph.Instances(of) {
		if s := r.tasks[t].state; s != Succeeded && s != Skipped {
			again[t], any = true, true
		}
	}
	return any
}

// host returns the task of the version for t: t itself, or the foreach task of which t is an instance.
func (g *Graph) host(t TaskID) TaskID {
	if of, ok := g.InstanceOf(t); ok {
		return of
	}
	return t
}

// spreadOut computes the instances' states of one foreach task from the rows.
func (d *deriver) spreadOut(f *fan) {
	of := &d.views[f.of]
	armed := of.State == Deferred && of.Own && d.attempts[d.latest[f.of]-1].Started != 0
	end := ending(of.State, of.Halted)
	room := d.g.logic[f.of].cap()
	for i, t := range f.all {
		v := &d.views[t]
		switch {
		case v.State.Terminal():
		case v.Own:
			if v.State = d.attempts[d.latest[t]-1].taskState(); goes(v.State) {
				room--
			}
		case f.without(i) && (armed || of.State.Terminal()):
			v.State = Skipped
		case end.Terminal():
			v.State = end
		}
	}
	if !armed {
		return
	}
	for _, t := range f.order {
		if v := &d.views[t]; v.State == Pending && !v.Own {
			if room--; room < 0 {
				return
			}
			v.State = Ready
		}
	}
}

// unmarkableForeach returns the reason why a foreach task with instances, or a retired instance, cannot be
// marked. It returns "" if it finds no such reason.
func (r *Run) unmarkableForeach(ev *Event, p *task) string {
	if f := r.Graph.fans[ev.Task]; f != nil && !f.stale && p.own {
		if ev.Mark == MarkRetry && p.state.Terminal() || ev.Mark == MarkStop && p.state == Deferred {
			return ""
		}
		return fmt.Sprintf("task %s is what its instances make of it: tell them, such as %s", r.Graph.Name(ev.Task), r.Graph.instanceLike(f))
	}
	if _, ok := r.Graph.InstanceOf(ev.Task); ok && p.state == Skipped && r.Graph.retired(ev.Task) {
		return fmt.Sprintf("task %s no longer has an item to run for", r.Graph.Name(ev.Task))
	}
	return ""
}

func (g *Graph) instanceLike(f *fan) string {
	if len(f.order) == 0 {
		return "those of another foreach: it has none"
	}
	return g.Name(f.order[0])
}
