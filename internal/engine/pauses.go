package engine

import (
	"fmt"
	"slices"
	"sort"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// PlannedPausesMax bounds the planned pauses of a trigger that have not ended.
const PlannedPausesMax = 20

// planPause adds a planned pause to a trigger, or removes one. The due instants are decided first, so the
// change affects later instants only.
func (s *schedule) planPause(k store.TriggerKey, p Pause) error {
	t, err := living(s.owned(k))
	if err != nil {
		return err
	}
	now := s.dueNow()
	data, err := s.withPause(t, p, now)
	if err != nil || data == nil {
		return err
	}
	// No refusal may follow: the transaction may already have decided some due instants.
	if t, err = s.settled(t, now); err != nil {
		s.broken(err)
		return err
	}
	if t.State == store.TriggerEnded { // the trigger's last instant was just decided
		return nil
	}
	next := *t
	next.Data = data
	if next.State == store.TriggerPaused { // a paused trigger has no next instant, but settled leaves one in the row
		next.Next = 0
	}
	s.putTrigger(next)
	s.txn().declared = true
	return nil
}

// withPause returns the data of a trigger after a change of its planned pauses. It returns nil if nothing
// changes.
func (s *schedule) withPause(t *store.Trigger, p Pause, now dag.Micros) ([]byte, error) {
	all, err := s.planner.Pauses(t)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(slices.Clone(all), func(o PlannedPause) bool { return o.Until <= now })
	change := addPause
	if p.Resume {
		change = endPause
	}
	changed, err := change(t.Name, all, p, now)
	if err != nil || slices.Equal(changed, all) {
		return nil, err
	}
	data, err := s.planner.WithPauses(t, changed)
	if err == nil && len(data) > store.DataBytesMax {
		err = fmt.Errorf("%w: the reasons of the planned pauses of trigger %s are too long: write a shorter one", errkind.ErrInvalid, t.Name)
	}
	return data, err
}

// addPause returns the planned pauses of a trigger, with a new one added.
func addPause(name string, all []PlannedPause, p Pause, now dag.Micros) ([]PlannedPause, error) {
	is := PlannedPause{From: p.From, Until: p.Until, Actor: p.Actor, Reason: p.Reason}
	if is.From == 0 {
		is.From = now
	}
	if is.Until <= is.From {
		return nil, fmt.Errorf("%w: the pause ends (%s) before it begins (%s)", errkind.ErrInvalid, rfc(is.Until), rfc(is.From))
	}
	if is.Until <= now {
		return nil, fmt.Errorf("%w: the pause ends at %s, which has passed", errkind.ErrInvalid, rfc(is.Until))
	}
	for _, o := range all {
		if o.From == is.From && o.Until == is.Until {
			return all, nil // the pause is planned already
		}
		if is.From < o.Until && o.From < is.Until {
			return nil, fmt.Errorf("%w: trigger %s has a planned pause from %s until %s, which overlaps this one: choose another range, or end that pause first",
				errkind.ErrConflict, name, rfc(o.From), rfc(o.Until))
		}
	}
	if len(all) >= PlannedPausesMax {
		return nil, fmt.Errorf("%w: trigger %s has %d planned pauses, and no trigger may have more: end one of them first", errkind.ErrConflict, name, len(all))
	}
	all = append(slices.Clone(all), is)
	sort.Slice(all, func(i, j int) bool { return all[i].From < all[j].From })
	return all, nil
}

// endPause returns the planned pauses of a trigger, with one of them removed. The instants that have passed
// stay skipped.
func endPause(name string, all []PlannedPause, p Pause, _ dag.Micros) ([]PlannedPause, error) {
	i := slices.IndexFunc(all, func(o PlannedPause) bool { return o.Until == p.Until && (p.From == 0 || o.From == p.From) })
	if i < 0 {
		return nil, fmt.Errorf("%w: trigger %s has no planned pause of that range, or the pause has ended", errkind.ErrNothing, name)
	}
	return slices.Delete(slices.Clone(all), i, i+1), nil
}

func rfc(m dag.Micros) string { return m.Time().Format(time.RFC3339) }
