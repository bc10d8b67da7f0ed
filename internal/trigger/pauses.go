package trigger

import (
	"fmt"
	"slices"
	"sort"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
)

// A planned pause is a range of time in which a trigger does not fire. The instants of the range are decided
// in their turn, like all others: each is skipped, in one line of the ledger for the range. The rules of
// catchup apply to the other instants as if the paused ones did not exist.

// open holds the instants of a schedule without those of its planned pauses.
type open struct {
	*declared
	pauses []engine.PlannedPause // the pauses in their order, without overlaps
}

// Pauses returns the planned pauses of a trigger in their order, also those that have ended.
func Pauses(t *store.Trigger) ([]engine.PlannedPause, error) {
	m, err := remembered(t)
	return m.Pauses, err
}

// Pauses implements engine.Planner.
func (p *Planner) Pauses(t *store.Trigger) ([]engine.PlannedPause, error) {
	d, err := p.compiled(t)
	if err != nil {
		return nil, err
	}
	if d.when == nil || d.Kind == workflow.KindAbsent {
		return nil, fmt.Errorf("%w: trigger %s of kind %s has no instants that follow from the clock, so it cannot be paused for a range; pause it when the range begins",
			errkind.ErrInvalid, t.Name, t.Kind)
	}
	return Pauses(t)
}

// WithPauses implements engine.Planner.
func (p *Planner) WithPauses(t *store.Trigger, pauses []engine.PlannedPause) ([]byte, error) {
	m, err := remembered(t)
	if err != nil {
		return nil, err
	}
	m.Pauses = pauses
	return m.pack(), nil
}

// keepPauses takes over the planned pauses in the row of the earlier declaration that have not ended.
func (d *declared) keepPauses(t *store.Trigger, now dag.Micros) {
	pauses, err := Pauses(t)
	t.Data = nil
	pauses = slices.DeleteFunc(pauses, func(s engine.PlannedPause) bool { return s.Until <= now })
	if err == nil && len(pauses) > 0 {
		t.Data = memory{Pauses: pauses}.pack()
	}
}

// NextOpen returns the first undecided instant of an active trigger that is not paused, or 0 if there is
// none.
func NextOpen(t *store.Trigger) (dag.Micros, error) {
	pauses, err := Pauses(t)
	if err != nil || PauseAt(pauses, t.Next) == nil {
		return t.Next, err
	}
	d, err := compile(t)
	if err != nil {
		return 0, err
	}
	return (&open{d, pauses}).next(t.Decided), nil
}

// PauseAt returns the planned pause that contains an instant. It returns nil if there is none.
func PauseAt(pauses []engine.PlannedPause, at dag.Micros) *engine.PlannedPause {
	i := slices.IndexFunc(pauses, func(s engine.PlannedPause) bool { return s.From <= at && at < s.Until })
	if i < 0 {
		return nil
	}
	return &pauses[i]
}

// pauseReason returns the reason in the ledger for the instants of a planned pause.
func pauseReason(s *engine.PlannedPause) store.Reason {
	return store.Because("paused_planned", clock(s.From), clock(s.Until), s.Actor, s.Reason)
}

// next returns the first instant after the given one that is not paused, or 0 if there is none.
func (o *open) next(after dag.Micros) dag.Micros {
	at := o.declared.next(after)
	for at != 0 {
		s := PauseAt(o.pauses, at)
		if s == nil {
			break
		}
		at = o.declared.next(s.Until - 1)
	}
	return at
}

// last returns the last instant at or before the given one that is not paused, or 0 if there is none.
func (o *open) last(until dag.Micros) dag.Micros {
	at := o.declared.last(until)
	for at != 0 {
		s := PauseAt(o.pauses, at)
		if s == nil {
			break
		}
		at = o.declared.last(s.From - 1)
	}
	return at
}

// count returns the number of instants in (after, until] that are not paused.
func (o *open) count(after, until dag.Micros) int64 {
	n := o.declared.count(after, until)
	for i := range o.pauses {
		n -= o.declared.count(within(&o.pauses[i], after, until))
	}
	return n
}

// within returns the bounds of the instants in (after, until] that a pause contains.
func within(s *engine.PlannedPause, after, until dag.Micros) (from, to dag.Micros) {
	return max(after, s.From-1), min(until, s.Until-1)
}

// paused adds the ledger lines of the paused instants in (after, until].
func (p *planning) paused(after, until dag.Micros) {
	for i := range p.pauses {
		from, to := within(&p.pauses[i], after, until)
		p.whole(from, to, store.OutcomeSkipped, pauseReason(&p.pauses[i]))
	}
	if len(p.pauses) > 0 {
		sort.SliceStable(p.Lines, func(i, j int) bool { return p.Lines[i].At < p.Lines[j].At })
	}
}
