package cron

import (
	"slices"
	"strconv"
	"time"
)

// source is one of the parts of a schedule. Instants are Unix seconds.
type source interface {
	next(after int64) (int64, bool)  // the first instant > after
	prev(before int64) (int64, bool) // the last instant < before
	count(after, until int64) int64  // instants in (after, until]
	mark(b *dayBits, from int64)     // sets in b the instants in [from, from + 1 day)
	on(include, exclude Calendar) source
}

// every is the source of anchor + k·step for all integers k.
type every struct {
	anchor, step int64
	zone         zone // the time zone of the days in only
	only         filter
}

// Every returns the schedule of the instants anchor + k·d for all integers k, including negative ones. The
// zero anchor means 1970-01-01T00:00:00Z. Fractions of a second in the anchor are dropped. d is a whole
// number of seconds, at least one, because every instant of this package is a whole second. The days of
// calendars are those of the anchor's zone.
func Every(d time.Duration, anchor time.Time) (*Schedule, error) {
	if anchor.IsZero() {
		anchor = time.Unix(0, 0).UTC()
	}
	if d < time.Second || d%time.Second != 0 {
		return nil, bad("every", d.String(), "is not a whole number of seconds of at least 1",
			"write an interval such as 30s, 15m, 3h or 1h30m")
	}
	e := &every{step: int64(d / time.Second), zone: zone{placeOf(anchor)}}
	e.anchor = floorMod(anchor.Unix(), e.step)
	s := newSchedule(e, e.zone.loc)
	s.text = "@every " + short(d)
	s.words = "every " + longDuration(d)
	if e.anchor != 0 {
		s.text += " from " + anchor.UTC().Format(time.RFC3339)
		s.words += " counted from " + anchor.UTC().Format(time.RFC3339)
	}
	if _, ok := s.first(); !ok {
		return nil, &Error{Expr: d.String(), Field: "every", Reason: "no such instant lies between 1970 and 2199",
			Hint: "use at: for a single instant", kind: ErrImpossible}
	}
	return s, nil
}

// placeOf returns the zone of an instant. It replaces the local zone of the machine by UTC, so that a
// schedule means the same on every machine.
func placeOf(t time.Time) *time.Location {
	if loc := t.Location(); loc.String() != "Local" {
		return loc
	}
	return time.UTC
}

func (e *every) next(after int64) (int64, bool) {
	for t := max(after, -1); ; {
		t += e.step - floorMod(t-e.anchor, e.step)
		if t >= secondMax {
			return 0, false
		}
		_, end, ok := e.day(t)
		if ok {
			return t, true
		}
		t = end - 1
	}
}

func (e *every) prev(before int64) (int64, bool) {
	for t := min(before, secondMax); ; {
		t -= 1 + floorMod(t-1-e.anchor, e.step)
		if t < 0 {
			return 0, false
		}
		start, _, ok := e.day(t)
		if ok {
			return t, true
		}
		t = start
	}
}

// day returns the span of instants around t with the same local date and offset, and whether the filter
// contains that date. Without a filter it looks up nothing.
func (e *every) day(t int64) (start, end int64, ok bool) {
	if e.only.none() {
		return always, never, true
	}
	s := e.zone.at(t)
	day, _ := split(t + s.off)
	start, end = max(join(day, 0)-s.off, s.start), min(join(day+1, 0)-s.off, s.end)
	return start, end, e.only.has(civil(day))
}

// upTo returns the number of instants before t, relative to a fixed number.
func (e *every) upTo(t int64) int64 { return floorDiv(t-1-e.anchor, e.step) }

func (e *every) count(after, until int64) int64 {
	lo, hi := max(after+1, 0), min(until+1, secondMax)
	var n int64
	for lo < hi {
		_, end, ok := e.day(lo)
		end = min(end, hi)
		if ok {
			n += e.upTo(end) - e.upTo(lo)
		}
		lo = end
	}
	return n
}

func (e *every) mark(b *dayBits, from int64) {
	for t := from - 1; ; {
		at, ok := e.next(t)
		if !ok || at >= from+daySeconds {
			return
		}
		b.set(int(at - from))
		t = at
	}
}

func (e *every) on(include, exclude Calendar) source {
	only := *e
	only.only = e.only.and(include, exclude)
	return &only
}

// list is the source of given instants, ascending and without duplicates.
type list struct {
	at   []int64
	zone zone
}

// InstantsMax bounds the number of instants of one [At].
const InstantsMax = 10_000

// At returns the schedule of the given instants: one, or several in any order. They are whole seconds from
// 1970 to 2199. The days of calendars are those of the first instant's zone.
func At(ts ...time.Time) (*Schedule, error) {
	if len(ts) == 0 || len(ts) > InstantsMax {
		return nil, bad("at", "", "there are "+strconv.Itoa(len(ts))+" instants", "give 1 to "+strconv.Itoa(InstantsMax))
	}
	l := &list{zone: zone{placeOf(ts[0])}}
	for _, t := range ts {
		shown := t.Format(time.RFC3339Nano)
		if t.Nanosecond() != 0 {
			return nil, bad("at", shown, "has a part of a second", "give whole seconds")
		}
		if t.Unix() < 0 || t.Unix() >= secondMax {
			return nil, bad("at", shown, "is outside the years 1970 to 2199", "give an instant within these years")
		}
		l.at = append(l.at, t.Unix())
	}
	slices.Sort(l.at)
	l.at = slices.Compact(l.at)
	s := newSchedule(l, l.zone.loc)
	s.text = "@at"
	var shown []string
	for i, at := range l.at {
		if i == shownMax {
			s.text += " …"
			shown = append(shown, strconv.Itoa(len(l.at)-i)+" more instants")
			break
		}
		t := time.Unix(at, 0).In(l.zone.loc)
		s.text += " " + t.Format(time.RFC3339)
		shown = append(shown, t.Format("2006-01-02 15:04:05 -07:00"))
	}
	s.words = "once, at "
	if len(l.at) > 1 {
		s.words = "at "
	}
	s.words += and(shown)
	return s, nil
}

// shownMax bounds lists in texts for people.
const shownMax = 20

func (l *list) next(after int64) (int64, bool) {
	i, _ := slices.BinarySearch(l.at, after+1)
	if i == len(l.at) {
		return 0, false
	}
	return l.at[i], true
}

func (l *list) prev(before int64) (int64, bool) {
	i, _ := slices.BinarySearch(l.at, before)
	if i == 0 {
		return 0, false
	}
	return l.at[i-1], true
}

func (l *list) count(after, until int64) int64 {
	i, _ := slices.BinarySearch(l.at, after+1)
	j, _ := slices.BinarySearch(l.at, until+1)
	return int64(j - i)
}

func (l *list) mark(b *dayBits, from int64) {
	i, _ := slices.BinarySearch(l.at, from)
	for ; i < len(l.at) && l.at[i] < from+daySeconds; i++ {
		b.set(int(l.at[i] - from))
	}
}

func (l *list) on(include, exclude Calendar) source {
	only := filter{}.and(include, exclude)
	kept := &list{zone: l.zone}
	for _, at := range l.at {
		day, _ := split(at + l.zone.at(at).off)
		if only.has(civil(day)) {
			kept.at = append(kept.at, at)
		}
	}
	return kept
}
