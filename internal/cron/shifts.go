package cron

import (
	"fmt"
	"sort"
	"time"
)

// Shift is a change of the clock that affects a schedule.
type Shift struct {
	At       time.Time     // the first instant of the new offset
	From, To time.Duration // offsets from UTC before and after, positive in the east
	Effect   string        // the effect on the schedule, in English
}

// shiftsMax bounds one answer. Two changes in each of 230 years are fewer.
const shiftsMax = 1_000

// Shifts returns the clock changes in (from, to] that leave out or repeat a wall time of the schedule, with
// the effect of the policies on each. Clock changes do not affect intervals and fixed instants, so these
// have none.
func (s *Schedule) Shifts(from, to time.Time) []Shift {
	lo, hi := floorSecond(from), floorSecond(to)
	var all []Shift
	for _, p := range s.parts {
		w, ok := p.source.(*wall)
		if !ok {
			continue
		}
		for a := w.zone.at(lo); a.end <= hi && a.end < never && len(all) < shiftsMax; {
			b := w.zone.after(a)
			if effect := w.effect(a, b); effect != "" && b.start >= p.lo && b.start <= p.hi {
				all = append(all, Shift{
					At:   time.Unix(b.start, 0).In(w.zone.loc),
					From: time.Duration(a.off) * time.Second, To: time.Duration(b.off) * time.Second,
					Effect: effect,
				})
			}
			a = b
		}
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].At.Compare(all[j].At) < 0 })
	return all
}

// effect describes the effect of the change from span a to span b on the schedule. It returns "" if there is
// none.
func (w *wall) effect(a, b span) string {
	switch {
	case b.off > a.off:
		gap := w.zone.missing(a, b)
		if w.times.any(gap) {
			return w.gapEffect(a, b)
		}
	case b.off < a.off:
		twice := interval{b.start + b.off, b.start + a.off}
		if at, ok := w.times.first(twice.lo, twice.hi); ok {
			return w.repeatEffect(a, b, at, w.times.count(twice.lo, twice.hi))
		}
	}
	return ""
}

func (w *wall) gapEffect(a, b span) string {
	gap := interval{b.start + a.off, b.start + b.off}
	at, _ := w.times.first(gap.lo, gap.hi)
	what := wallText(at) + more(w.times.count(gap.lo, gap.hi)) + " does not exist: "
	switch {
	case w.elapsed:
		return what + "nothing fires for it, the schedule follows elapsed time"
	case w.gap == SkipGap:
		return what + "skipped"
	case w.gap == RunBefore:
		return what + "fires before the change, at " + w.instantText(w.lastBefore(a))
	}
	return what + "fires after the change, at " + w.instantText(b.start)
}

func (w *wall) repeatEffect(a, b span, at, n int64) string {
	what := wallText(at) + more(n) + " comes twice: fires "
	first, second := w.instantText(at-a.off), w.instantText(at-b.off)
	switch {
	case w.elapsed:
		return what + "both times, the schedule follows elapsed time"
	case w.repeat == Both:
		return what + "both times, at " + first + " and " + second
	case w.repeat == Second:
		return what + "the second time, at " + second
	}
	return what + "the first time, at " + first
}

func more(n int64) string {
	if n < 2 {
		return ""
	}
	return fmt.Sprintf(" (and %d more)", n-1)
}

func wallText(at int64) string { return time.Unix(at, 0).UTC().Format("2006-01-02 15:04:05") }

func (w *wall) instantText(at int64) string {
	return time.Unix(at, 0).In(w.zone.loc).Format(time.RFC3339)
}
