package engine

import (
	"context"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/host"
	"skein.dev/skein/internal/store"
)

const (
	// duePage is how many triggers one read of those that are due brings.
	duePage = 1000
	// dueLook is how often the store's clock is read although nothing is known to be due:
	// a clock that was set, or a machine that slept, is noticed after that long.
	dueLook = 15 * time.Second
	// duePause is how long a trigger that cannot be decided holds back the next look.
	duePause = time.Second
	// clockFresh is how long a reading of the store's clock may be used, with the time elapsed on this machine
	// added.
	clockFresh = time.Second
	// clockBack is how far a clock goes back before it is worth a word.
	clockBack = 2 * time.Second
)

// due is the writer's view of the coming instants. A separate goroutine (look) reads the rows and computes
// the plans; the writer only carries them out.
type due struct {
	read    func() time.Time // the clock of this machine
	next    dag.Micros       // the earliest instant not decided; 0: none
	changed dag.Micros       // the earliest of those written since the last read of next began
	looked  time.Time
	looking bool
	// The store's clock as it was last read. Unlike the clock that stamps rows it follows
	// the store backwards; the watermark keeps what was decided from coming again.
	wall      dag.Micros
	asOf      time.Time
	watermark dag.Micros
}

// sooner notes an instant that a change of a trigger brings.
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

// reading is what the store's clock said, and when.
type reading struct {
	wall dag.Micros
	asOf time.Time
}

// readClock reads the store's clock for a caller that is about to decide what is due on request. The clock
// may have been set back between two looks, and nothing may happen before its time.
func (e *Engine) readClock(ctx context.Context) (reading, error) {
	wall, err := e.store.Clock(ctx)
	if err != nil {
		return reading{}, fromStore("read the clock", err)
	}
	return reading{wall, e.host.Now()}, nil
}

// goBy makes the instants follow a reading, if none is newer. If the process stood still and the reading is
// old, goBy reads the clock again.
func (w *writer) goBy(r reading) {
	d := &w.due
	if d.read().Sub(r.asOf) > clockFresh {
		if again, err := w.e.readClock(context.Background()); err == nil { // else nothing can be written, either
			r = again
		}
	}
	if r.asOf.Before(d.asOf) {
		return
	}
	if back := time.Duration(d.clock()-r.wall) * time.Microsecond; d.wall != 0 && back > clockBack {
		w.e.log.Warn("the store's clock was set back; decided instants do not fire again", "code", "clock_set_back", "by", back.Round(time.Second).String())
	}
	d.wall, d.asOf = r.wall, r.asOf
	w.tx.due = max(d.now(), w.tx.batch.Watermark)
}

// dueNow is up to when instants are due: in a transaction, never before what it has decided.
func (w *writer) dueNow() dag.Micros { return w.tx.due }

// wait is how long the writer may sleep before it has to look.
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

// left is how long it is until the next instant is due: by the clock, which may be far behind
// the watermark.
func (d *due) left() time.Duration {
	if d.next <= d.watermark {
		return 0
	}
	return time.Duration(min(d.next-d.clock(), dag.Micros(dueLook/time.Microsecond))) * time.Microsecond
}

// byHand: see Config.
func (w *writer) byHand() bool { return w.e.cfg.ByHand != nil && w.e.cfg.ByHand() }

// look reads what is due and computes its plans, in a goroutine of its own.
func (w *writer) look(ctx context.Context) {
	if w.e.cfg.Planner == nil || w.due.looking || w.due.wait() > 0 || w.byHand() {
		return
	}
	w.due.looking = true
	w.triggers.touched = map[store.TriggerKey]bool{}
	l := look{e: w.e, watermark: w.due.watermark, shards: w.shards()}
	w.e.host.Go(w.wg, func() {
		l.all(ctx)
		// A closed inbox means that this process ends.
		_ = w.inbox.put(item{op: func(w *writer) answer { w.looked(&l); return answer{} }})
	})
}

// looked takes the result of a look.
func (w *writer) looked(l *look) {
	d := &w.due
	d.looking, d.looked = false, d.read()
	w.triggers.touched = nil
	if l.now != 0 {
		w.goBy(reading{l.now, l.asOf})
	}
	if l.read {
		d.next = earliest(l.next, d.changed)
	}
	// A damaged row stays due, and no plan can be made for it.
	if stuck := l.decided == 0 && d.next != 0 && d.next <= l.now; stuck || l.failed > 0 {
		d.next = max(d.next, d.now()+dag.Micros(duePause.Microseconds()))
	}
}

// look is one pass over what is due.
type look struct {
	e         *Engine
	shards    []dag.ShardID
	watermark dag.Micros
	now       dag.Micros // the store's clock
	asOf      time.Time
	next      dag.Micros
	read      bool // next counts
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
	reset := func(w *writer) answer { w.due.changed = 0; return answer{} }
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
		l.e.log.Warn("due triggers cannot be read", "code", "due_triggers_unreadable", "err", err)
	}
	l.failed++
}

// decide makes the writer carry out the due instants of a page of triggers, and waits for it. It reports
// whether the next page is a different one: a former owner that does not know yet that its shards have moved
// decides nothing.
func (l *look) decide(ctx context.Context, page []store.Trigger, until dag.Micros) bool {
	items := make([]item, 0, len(page))
	told := make(chan struct{}, len(page))
	errs, idle := make([]error, len(page)), make([]bool, len(page))
	for i := range page {
		t := &page[i]
		plan, err := l.e.cfg.Planner.Plan(t, until)
		if err != nil {
			items = append(items, item{
				op:   func(w *writer) answer { return answer{err: w.setAside(t, err)} },
				done: func(a answer) { errs[i] = a.err; told <- struct{}{} },
			})
			continue
		}
		items = append(items, item{
			op:   func(w *writer) answer { return w.decide(t, &plan, until) },
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

// setAside pauses a trigger with a damaged row, so that it is not due for ever and holds up the others. The
// ledger says what it missed. An edit replaces the row.
func (w *writer) setAside(was *store.Trigger, cause error) error {
	t, err := w.trigger(keyOfTrigger(was))
	if err != nil || t == nil || w.held(t.Shard) == nil || t.State != store.TriggerActive || t.Revision != was.Revision {
		return err
	}
	if err := w.undecided(t, w.dueNow(), cause); err != nil {
		return err
	}
	next := *t
	next.State, next.Actor, next.Reason, next.Next = store.TriggerPaused, "", clean("its declaration cannot be read: "+cause.Error()), 0
	w.putTrigger(next)
	w.tx.declared = true
	return nil
}

// decide carries out a plan. If the trigger has changed since the plan was made, decide makes another plan:
// an edit has decided what was due, but a mere event has not.
func (w *writer) decide(was *store.Trigger, p *Plan, until dag.Micros) answer {
	k := keyOfTrigger(was)
	if w.triggers.known[k] == nil && w.triggers.touched != nil && !w.triggers.touched[k] {
		w.triggers.known[k] = was // this writer is the only one that writes it
	}
	t, err := w.trigger(k)
	switch {
	case err != nil:
		return answer{err: err}
	case t == nil || w.held(t.Shard) == nil || t.State != store.TriggerActive || t.Next == 0 || t.Next > until:
		return answer{verdict: dag.Stale}
	case t.Revision != was.Revision:
		anew, err := w.e.cfg.Planner.Plan(t, until)
		if err != nil {
			return answer{err: err}
		}
		p = &anew
	}
	if p.idle(t) {
		return answer{verdict: dag.Stale}
	}
	if err := w.carryOut(t, p); err != nil {
		w.broken(err)
		return answer{err: err}
	}
	return answer{}
}
