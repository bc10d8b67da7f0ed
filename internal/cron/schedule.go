package cron

import (
	"math"
	"strings"
	"time"
)

// Schedule is a set of instants. It never changes, so several goroutines may use it.
type Schedule struct {
	parts []part
	zone  *time.Location
	text  string
	words string
}

// part is a source that is restricted to the instants from lo to hi. Both are included.
type part struct {
	source
	lo, hi int64
}

func newSchedule(src source, loc *time.Location) *Schedule {
	return &Schedule{parts: []part{{src, math.MinInt64, math.MaxInt64}}, zone: loc}
}

// Next returns the first instant strictly after the given one, in the zone of the schedule. It returns false
// if there is none. The search ends with the year 2199 and examines each day at most once.
func (s *Schedule) Next(after time.Time) (time.Time, bool) {
	from := floorSecond(after)
	best, found := int64(0), false
	for _, p := range s.parts {
		start := from
		if p.lo > start {
			start = p.lo - 1
		}
		at, ok := p.next(start)
		if ok && at <= p.hi && (!found || at < best) {
			best, found = at, true
		}
	}
	return s.instant(best, found)
}

// Prev returns the last instant strictly before the given one. It returns false if there is none since
// 1970.
func (s *Schedule) Prev(before time.Time) (time.Time, bool) {
	to := ceilSecond(before)
	best, found := int64(0), false
	for _, p := range s.parts {
		end := to
		if p.hi < end {
			end = p.hi + 1
		}
		at, ok := p.prev(end)
		if ok && at >= p.lo && (!found || at > best) {
			best, found = at, true
		}
	}
	return s.instant(best, found)
}

func (s *Schedule) instant(at int64, ok bool) (time.Time, bool) {
	if !ok {
		return time.Time{}, false
	}
	return time.Unix(at, 0).In(s.zone), true
}

// first returns the earliest instant of the schedule.
func (s *Schedule) first() (time.Time, bool) { return s.Next(time.Time{}) }

// Count returns the exact number of instants in (after, until]. Its cost grows with the months of the span.
// With calendars or joined schedules, it grows with the days. It never grows with the number of instants.
func (s *Schedule) Count(after, until time.Time) int64 {
	lo, hi := floorSecond(after), floorSecond(until)
	if len(s.parts) == 1 {
		return s.parts[0].within(lo, hi)
	}
	// Joined schedules may share instants. So if several of them have instants on a day, that day is counted
	// second by second.
	var n int64
	for lo < hi {
		day, _ := split(lo + 1)
		end := min(join(day+1, 0)-1, hi)
		n += s.countDay(lo, end)
		lo = end
	}
	return n
}

// within returns the count for the part of a span that the part covers.
func (p *part) within(after, until int64) int64 {
	if p.lo > after {
		after = p.lo - 1
	}
	until = min(until, p.hi)
	if after >= until {
		return 0
	}
	return p.count(after, until)
}

// countDay does the same as Count for a span within one day of UTC.
func (s *Schedule) countDay(after, until int64) int64 {
	var all dayBits
	var n int64
	busy := make([]part, 0, len(s.parts))
	for _, p := range s.parts {
		if c := p.within(after, until); c > 0 {
			n += c
			busy = append(busy, p)
		}
	}
	if len(busy) < 2 {
		return n
	}
	for _, p := range busy {
		p.lay(&all, after, until)
	}
	return all.count()
}

// lay marks the instants of a part in (after, until], which is within one day. Bit 0 is the first second
// after the instant after.
func (p *part) lay(all *dayBits, after, until int64) {
	const fewMax = 64 // such a number of steps costs about as much as listing all times of a day
	lo, hi := max(p.lo, after+1), min(p.hi, until)
	if p.within(after, until) > fewMax {
		var b dayBits
		p.mark(&b, after+1)
		b.keep(lo-after-1, hi-after-1)
		for i, w := range b {
			all[i] |= w
		}
		return
	}
	for at, ok := p.next(lo - 1); ok && at <= hi; at, ok = p.next(at) {
		all.set(int(at - after - 1))
	}
}

// Zone returns the zone of the schedule's days and wall times.
func (s *Schedule) Zone() *time.Location { return s.zone }

// String returns the canonical text. The text of a schedule from [Parse] can be parsed again. With the same
// policies for clock changes, it gives the same schedule.
func (s *Schedule) String() string { return s.text }

// Describe returns a description in plain English, such as "at 02:15 every day, Europe/Berlin".
func (s *Schedule) Describe() string { return s.words }

// Between restricts a schedule to the instants from start to end. Both are included. A zero time is no limit.
// Between never restores instants that an earlier Between has removed.
func (s *Schedule) Between(start, end time.Time) *Schedule {
	if start.IsZero() && end.IsZero() {
		return s
	}
	cut := s.with(func(p part) part {
		if !start.IsZero() {
			p.lo = max(p.lo, ceilSecond(start))
		}
		if !end.IsZero() {
			p.hi = min(p.hi, floorSecond(end))
		}
		return p
	})
	if !start.IsZero() {
		cut.text += " from " + start.UTC().Format(time.RFC3339)
		cut.words += ", from " + start.In(s.zone).Format(time.RFC3339)
	}
	if !end.IsZero() {
		cut.text += " until " + end.UTC().Format(time.RFC3339)
		cut.words += ", until " + end.In(s.zone).Format(time.RFC3339)
	}
	return cut
}

// On restricts a schedule to the days that are in include and not in exclude. A nil calendar restricts
// nothing. A day is a date on the wall clock of the schedule's zone. In a [Union], each schedule uses its own
// zone. For a schedule of wall times, the day is the date of the rule: a time that a clock change moves over
// midnight still belongs to its day.
func (s *Schedule) On(include, exclude Calendar) *Schedule {
	if include == nil && exclude == nil {
		return s
	}
	cut := s.with(func(p part) part {
		p.source = p.on(include, exclude)
		return p
	})
	if include != nil {
		cut.text += " on calendar"
		cut.words += ", only on " + daysOf(include)
	}
	if exclude != nil {
		cut.text += " except calendar"
		cut.words += ", except on " + daysOf(exclude)
	}
	return cut
}

// daysOf describes a calendar in words. If the calendar has a description, daysOf returns that.
func daysOf(c Calendar) string {
	if named, ok := c.(interface{ String() string }); ok {
		return named.String()
	}
	return "days of a calendar"
}

func (s *Schedule) with(change func(part) part) *Schedule {
	c := *s
	c.parts = make([]part, len(s.parts))
	for i, p := range s.parts {
		c.parts[i] = change(p)
	}
	return &c
}

// UnionMax bounds the number of schedules in one [Union].
const UnionMax = 1_000

// Union returns the schedule of all instants of the given schedules. An instant of several schedules occurs
// once. The zone of the result is that of the first schedule.
func Union(ss ...*Schedule) (*Schedule, error) {
	if len(ss) == 0 {
		return nil, bad("union", "", "there is no schedule to combine", "give at least one")
	}
	if len(ss) == 1 {
		return ss[0], nil
	}
	u := &Schedule{zone: ss[0].zone}
	var texts, words []string
	for _, s := range ss {
		u.parts = append(u.parts, s.parts...)
		texts, words = append(texts, s.text), append(words, s.words)
	}
	if len(u.parts) > UnionMax {
		return nil, bad("union", "", "too many schedules are combined", "combine at most 1,000")
	}
	u.text, u.words = strings.Join(texts, " | "), strings.Join(words, "; and ")
	return u, nil
}
