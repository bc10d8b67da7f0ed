package engine

import (
	"context"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/host"
	"skein.dev/skein/internal/store"
)

const (
	// duePage bounds the due triggers per read.
	duePage = 1000
	// dueLook is the interval at which the store's clock is read even if no instant is due. So the engine
	// notices within this time that the clock was changed or that the machine has slept.
	dueLook = 15 * time.Second
	// duePause is the delay of the next read of due triggers if a trigger cannot be decided.
	duePause = time.Second
	// clockFresh is the greatest age of a reading of the store's clock that is still used. The time that has
	// passed on this machine is added to it.
	clockFresh = time.Second
	// clockBack is the jump of a clock backwards from which the engine logs the jump.
	clockBack = 2 * time.Second
)

// due is the writer's knowledge of the coming instants. Another goroutine (look) reads the rows and computes
// the plans; the writer only carries out the plans.
type due struct {
	read    func() time.Time // the clock of this machine
	next    dag.Micros       // the earliest undecided instant; 0 if there is none
	changed dag.Micros       // the earliest instant that was written since the last read began
	looked  time.Time
	looking bool
	// wall is the store's clock at its last reading, which was taken here at asOf. wall goes backwards if the
	// store's clock does, unlike the clock that stamps rows. The watermark ensures that decided instants do
	// not fire again.
	wall      dag.Micros
	asOf      time.Time
	watermark dag.Micros
}

// sooner lowers the next instant to that of a changed trigger, if the trigger's instant is earlier.
func (d *due) sooner(next dag.Micros) {
	if next != 0 && (d.changed == 0 || next < d.changed) {
		d.changed = next
	}
	d.next = earliest(d.next, next)
}

func earliest(a, b dag.Micros) dag.Micros {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

func (d *due) setClock(wall dag.Micros) { d.wall, d.asOf = wall, d.read() }

func (d *due) clock() dag.Micros { return d.wall + dag.Micros(d.read().Sub(d.asOf).Microseconds()) }

func (d *due) now() dag.Micros { return max(d.clock(), d.watermark) }

// reading is a reading of the store's clock, with the time at which it was taken.
type reading struct {
	wall dag.Micros
	asOf time.Time
}

// readClock reads the store's clock for a request that decides due instants. The clock may have been set back
// between two looks, and no instant may fire before its time.
func (e *Engine) readClock(ctx context.Context) (reading, error) {
	wall, err := e.store.Clock(ctx)
	if err != nil {
		return reading{}, errkind.FromStore("read the clock", err)
	}
	return reading{wall, e.host.Now()}, nil
}

// goBy makes due instants follow a reading of the clock, unless there is a newer reading. If the process was
// stopped since and the reading is too old, goBy reads the clock again.
func (s *schedule) goBy(r reading) {
	d := &s.due
	if d.read().Sub(r.asOf) > clockFresh {
		// if this read fails, the old reading is used; no transaction can be written then anyway
		if again, err := s.readClock(context.Background()); err == nil {
			r = again
		}
	}
	if r.asOf.Before(d.asOf) {
		return
	}
	if back := time.Duration(d.clock()-r.wall) * time.Microsecond; d.wall != 0 && back > clockBack {
		s.log.Warn("the clock of the database was set back; decided instants do not fire again; set the clock by NTP", "code", "clock_set_back", "by", back.Round(time.Second).String())
	}
	d.wall, d.asOf = r.wall, r.asOf
	s.txn().due = max(d.now(), s.txn().batch.Watermark)
}

// dueNow returns the instant up to which instants are due. Within a transaction it is never before an instant
// that the transaction has decided.
func (s *schedule) dueNow() dag.Micros { return s.txn().due }

// wait returns how long the writer may sleep before the next instant is due.
func (d *due) wait() time.Duration {
	if d.looking {
		return waitMax
	}
	until := d.looked.Add(dueLook).Sub(d.read())
	if d.next != 0 {
		until = min(until, d.left())
	}
	return max(until, 0)
}

// left returns the time until the next instant is due, by the store's clock. This clock may be far behind
// the watermark.
func (d *due) left() time.Duration {
	if d.next <= d.watermark {
		return 0
	}
	return time.Duration(min(d.next-d.clock(), dag.Micros(dueLook/time.Microsecond))) * time.Microsecond
}

// byHand reports whether only people may start runs now: see Config.ByHand.
func (s *schedule) byHand() bool { return s.manual != nil && s.manual() }

// look starts a goroutine that reads the due triggers and computes their plans.
func (w *writer) look(ctx context.Context) {
	if w.e.cfg.Planner == nil || w.schedule.due.looking || w.schedule.due.wait() > 0 || w.schedule.byHand() {
		return
	}
	w.schedule.due.looking = true
	w.schedule.triggers.touched = map[store.TriggerKey]bool{}
	l := look{e: w.e, watermark: w.schedule.due.watermark, shards: w.shards()}
	w.e.host.Go(w.wg, func() {
		l.all(ctx)
		// A closed inbox means that this process ends.
		_ = w.inbox.put(item{op: func(w *writer) answer { w.schedule.looked(&l); return answer{} }})
	})
}

// looked processes the result of look.
func (s *schedule) looked(l *look) {
	d := &s.due
	d.looking, d.looked = false, d.read()
	s.triggers.touched = nil
	if l.now != 0 {
		s.goBy(reading{l.now, l.asOf})
	}
	if l.read {
		d.next = earliest(l.next, d.changed)
	}
	// A damaged row stays due, and no plan can be made for it. A row whose decision is being committed is read
	// as due, too. If the clock was set back, such a row may be due after the clock and before the watermark.
	if stuck := l.decided == 0 && d.next != 0 && d.left() <= 0; stuck || l.failed > 0 {
		d.next = max(d.next, d.now()+dag.Micros(duePause.Microseconds()))
	}
}

// look is one read of all due triggers, with the decisions about them.
type look struct {
	e         *Engine
	shards    []dag.ShardID
	watermark dag.Micros
	now       dag.Micros // the store's clock
	asOf      time.Time
	next      dag.Micros
	read      bool // next is valid
	decided   int
	failed    int
}

func (l *look) all(ctx context.Context) {
	var err error
	if l.now, err = l.e.store.Clock(ctx); err != nil {
		l.fail(ctx, err)
		return
	}
	l.asOf = l.e.host.Now()
	until := max(l.now, l.watermark)
	for {
		page, err := l.e.store.Due(ctx, l.shards, until, duePage)
		if err != nil {
			l.fail(ctx, err)
			return
		}
		if !l.decide(ctx, page, until) || len(page) < duePage || l.failed > 0 {
			break
		}
	}
	reset := func(w *writer) answer { w.schedule.due.changed = 0; return answer{} }
	if _, err := l.e.writer.inbox.send(ctx, item{op: reset}); err != nil {
		return
	}
	if l.next, err = l.e.store.NextDue(ctx, l.shards); err != nil {
		l.fail(ctx, err)
		return
	}
	l.read = true
}

func (l *look) fail(ctx context.Context, err error) {
	if ctx.Err() == nil {
		l.e.log.Warn("the due triggers cannot be read; the node tries again", "code", "due_triggers_unreadable", "err", err)
	}
	l.failed++
}

// decide makes the writer carry out the due instants of a page of triggers, and waits for it. It reports
// whether any instant was decided: only then does the next read return another page. An owner that has not
// noticed yet that its shards have moved decides nothing.
func (l *look) decide(ctx context.Context, page []store.Trigger, until dag.Micros) bool {
	items := make([]item, 0, len(page))
	told := make(chan struct{}, len(page))
	errs, idle := make([]error, len(page)), make([]bool, len(page))
	for i := range page {
		t := &page[i]
		plan, err := l.e.cfg.Planner.Plan(t, until)
		if err != nil {
			items = append(items, item{
				op:   func(w *writer) answer { return answer{err: w.schedule.setAside(t, err)} },
				done: func(a answer) { errs[i] = a.err; told <- struct{}{} },
			})
			continue
		}
		items = append(items, item{
			op:   func(w *writer) answer { return w.schedule.decide(t, &plan, until) },
			done: func(a answer) { errs[i], idle[i] = a.err, a.verdict == dag.Stale; told <- struct{}{} },
		})
	}
	if len(items) == 0 {
		return true
	}
	if err := l.e.writer.inbox.put(items...); err != nil {
		return false
	}
	for range items {
		if !l.e.host.Await(ctx, told, host.Forever) {
			return false
		}
	}
	stale := 0
	for i, err := range errs {
		if err != nil {
			l.fail(ctx, err)
		}
		if idle[i] {
			stale++
		}
	}
	l.decided += len(items) - stale
	return stale < len(items)
}

// setAside pauses a trigger with a damaged row. Otherwise it would be due for ever and delay the others. The
// ledger lists the instants that it missed. An edit of the workflow replaces the row.
func (s *schedule) setAside(was *store.Trigger, cause error) error {
	t, err := s.trigger(keyOfTrigger(was))
	if err != nil || t == nil || s.held(t.Shard) == nil || t.State != store.TriggerActive || t.Revision != was.Revision {
		return err
	}
	if err := s.undecided(t, s.dueNow(), cause); err != nil {
		return err
	}
	next := *t
	next.State, next.Actor, next.Reason, next.Next = store.TriggerPaused, "", clean("its declaration cannot be read: "+cause.Error()), 0
	s.putTrigger(next)
	s.txn().declared = true
	return nil
}

// decide carries out a plan. If the trigger has changed since the plan was made, decide makes another plan.
// An edit has already decided the due instants; an event has not.
func (s *schedule) decide(was *store.Trigger, p *Plan, until dag.Micros) answer {
	k := keyOfTrigger(was)
	if s.triggers.known[k] == nil && s.triggers.touched != nil && !s.triggers.touched[k] {
		s.triggers.known[k] = was // this writer is the only writer of the row
	}
	t, err := s.trigger(k)
	switch {
	case err != nil:
		return answer{err: err}
	case t == nil || s.held(t.Shard) == nil || t.State != store.TriggerActive || t.Next == 0 || t.Next > until:
		return answer{verdict: dag.Stale}
	case t.Revision != was.Revision:
		anew, err := s.planner.Plan(t, until)
		if err != nil {
			return answer{err: err}
		}
		p = &anew
	}
	if p.idle(t) {
		return answer{verdict: dag.Stale}
	}
	if err := s.carryOut(t, p); err != nil {
		s.broken(err)
		return answer{err: err}
	}
	return answer{}
}
