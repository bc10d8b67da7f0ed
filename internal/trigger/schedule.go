package trigger

import (
	"fmt"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
)

// startsMax bounds the number of runs that one plan starts, so that no transaction grows with the length of
// an outage. The next plan starts the rest.
const startsMax = 1000

// Catchup policies. Any other value means latest.
const (
	catchupNone = "none"
	catchupAll  = "all"
)

// gap is the time between the last decided instant and now, split where the rules change. Instants in
// (from, expired] are beyond the delay tolerance. Instants in (expired, missed] were missed while no
// process ran. Instants in (missed, now] are on time.
type gap struct {
	from, expired, missed, now dag.Micros
	// outage is true if an instant is older than lateAfter, which means that no process ran for a while.
	outage bool
}

func (d *declared) gap(first, from, now dag.Micros) gap {
	g := gap{from: from, expired: from, now: now, outage: now-first > lateAfter}
	if d.DelayTolerance > 0 {
		g.expired = max(from, now-micros(d.DelayTolerance)-1)
	}
	g.missed = max(g.expired, now-lateAfter-1)
	return g
}

// planSchedule implements Plan for triggers whose instants follow from the clock alone.
func (d *declared) planSchedule(t *store.Trigger, now dag.Micros) (engine.Plan, error) {
	if now < t.Decided {
		return unchanged(t), nil // the clock was set back, and all of these instants are already decided
	}
	if d.usedUp(t) {
		// Instants after the last run that the key count allows do not belong to the trigger.
		return engine.Plan{Decided: t.Decided, State: store.TriggerEnded, Reason: d.usedUpReason()}, nil
	}
	pauses, err := Pauses(t)
	if err != nil {
		return engine.Plan{}, err
	}
	p := planning{open: open{d, pauses}, left: startsMax}
	first := p.next(t.Decided)
	if first == 0 || first > now {
		p.paused(t.Decided, now)
		return d.moved(p.Plan, d.next(now), now), nil
	}
	p.gap = d.gap(first, t.Decided, now)
	if d.Count > 0 {
		p.left = min(p.left, d.Count-t.Fired)
	}
	p.line(p.from, p.expired, store.OutcomeMissed, store.Because("delay_tolerance", d.DelayTolerance.String()))
	switch {
	case d.Catchup == catchupAll:
		p.all()
	case p.outage:
		p.newest()
	default:
		p.start(p.expired)
	}
	if p.cut {
		p.paused(t.Decided, p.Decided)
		return p.Plan, nil
	}
	p.paused(t.Decided, now)
	return d.moved(p.Plan, d.next(now), now), nil
}

// moved completes a plan that decides all instants up to now.
func (d *declared) moved(p engine.Plan, next, now dag.Micros) engine.Plan {
	p.Next, p.Decided = next, now
	if next == 0 {
		p.State, p.Reason = store.TriggerEnded, d.endReason(now)
	}
	return p
}

func (d *declared) endReason(now dag.Micros) string {
	if last := d.last(now); last != 0 {
		return "no further instant: the last was " + clock(last)
	}
	return "it has no instant at all"
}

// usedUp reports whether the trigger has started all its runs. It is checked before each start and not
// after the last one, because the engine may skip a start.
func (d *declared) usedUp(t *store.Trigger) bool { return d.Count > 0 && t.Fired >= d.Count }

func (d *declared) usedUpReason() string {
	return fmt.Sprintf("count: it has started %d of %d runs", d.Count, d.Count)
}

// unchanged returns a plan that changes nothing.
func unchanged(t *store.Trigger) engine.Plan { return engine.Plan{Next: t.Next, Decided: t.Decided} }

// planning is a plan under construction for a gap.
type planning struct {
	engine.Plan
	open
	gap
	left int64 // runs that may still be started
	cut  bool  // the plan ends before now, and Next and Decided are set
}

// line adds ledger lines for the instants in (after, until] that are not paused. No line contains a paused
// instant.
func (p *planning) line(after, until dag.Micros, outcome string, reason store.Reason) {
	for i := range p.pauses {
		s := &p.pauses[i]
		p.whole(after, min(until, s.From-1), outcome, reason)
		after = max(after, s.Until-1)
	}
	p.whole(after, until, outcome, reason)
}

// whole adds a ledger line for all instants in (after, until].
func (p *planning) whole(after, until dag.Micros, outcome string, reason store.Reason) {
	if n := p.declared.count(after, until); n > 0 {
		p.Lines = append(p.Lines, store.Fire{At: p.declared.next(after), Last: p.declared.last(until), Count: n, Outcome: outcome, Reason: reason})
	}
}

// newest starts one run after a gap, unless no run may start any more.
func (p *planning) newest() {
	newest := p.last(p.now)
	if newest <= p.expired {
		return
	}
	if p.Catchup == catchupNone {
		reason := store.Because("catchup_none")
		if newest <= p.missed {
			p.line(p.expired, p.now, store.OutcomeMissed, reason)
			return
		}
		p.line(p.expired, newest-1, store.OutcomeMissed, reason)
	} else {
		p.line(p.expired, newest-1, store.OutcomeMerged, store.Because("catchup_latest", clock(newest)))
	}
	p.start(newest - 1)
}

// all starts the newest catchup_limit missed instants, and then the instants on time.
func (p *planning) all() {
	after := p.expired
	if limit := int64(p.CatchupLimit); p.count(p.expired, p.missed) > limit {
		after = p.before(limit)
		p.line(p.expired, after, store.OutcomeMissed, store.Because("catchup_limit", store.Number(limit)))
	}
	p.start(after)
}

// before returns an instant that exactly n instants follow up to p.missed. It uses a binary search, because
// the cost of counting does not depend on the number of instants.
func (p *planning) before(n int64) dag.Micros {
	lo, hi := p.expired, p.missed // more than n instants follow lo, and at most n follow hi
	for hi-lo > 1 {
		if mid := lo + (hi-lo)/2; p.count(mid, p.missed) > n {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}

// start starts the instants after a given one, at most as many as the bound allows. The engine may carry out
// only the first starts of a plan, after all of its lines. So a plan ends before a paused instant that
// follows a start, and the next plan decides that instant.
func (p *planning) start(after dag.Micros) {
	for at := p.next(after); at != 0 && at <= p.now && !p.ends(at); at = p.next(at) {
		p.left--
		s := engine.Start{Instant: at}
		if at <= p.missed {
			s.Late, s.Reason = true, store.Because("late", span(p.now-at))
		}
		if p.DelayTolerance > 0 {
			s.StartBy = at + micros(p.DelayTolerance)
		}
		p.Starts = append(p.Starts, s)
	}
	p.ends(p.now + 1)
}

// ends ends the plan after its last start if the instant at must not be decided by this plan: no run may
// start any more, or an instant before it is paused. It reports whether the plan has ended.
func (p *planning) ends(at dag.Micros) bool {
	if p.cut || len(p.Starts) == 0 {
		return p.cut
	}
	last := p.Starts[len(p.Starts)-1].Instant
	next := p.declared.next(last)
	p.cut = at <= p.now && p.left == 0 || next != 0 && next < at
	if p.cut {
		p.Decided, p.Next = last, next
	}
	return p.cut
}

// passedSchedule implements Passed for triggers whose instants follow from the clock alone.
func (d *declared) passedSchedule(t *store.Trigger, now dag.Micros, reason store.Reason) engine.Plan {
	if now < t.Decided {
		return unchanged(t)
	}
	if d.usedUp(t) {
		return engine.Plan{Decided: t.Decided, State: store.TriggerEnded, Reason: d.usedUpReason()}
	}
	p := planning{open: open{declared: d}}
	p.line(t.Decided, now, store.OutcomeSkipped, reason)
	return d.moved(p.Plan, d.next(now), now)
}

// beginSchedule implements Begin for triggers whose instants follow from the clock alone.
func (d *declared) beginSchedule(t *store.Trigger, now dag.Micros) {
	next := d.next(now)
	switch {
	case d.usedUp(t):
		t.State, t.Reason = store.TriggerEnded, d.usedUpReason()
	case next == 0:
		t.State, t.Reason = store.TriggerEnded, d.endReason(now)
	case t.State == store.TriggerActive:
		t.Next = next
	}
}
