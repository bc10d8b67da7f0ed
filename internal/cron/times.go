package cron

import (
	"math/bits"
	"time"
)

// times is a set of wall-clock times, in seconds from 1970-01-01 00:00 on the wall.
type times struct {
	days   dayRule
	clocks clocks
	only   filter
}

// filter keeps the days that are in every calendar of the field with and in no calendar of the field without.
type filter struct{ with, without []Calendar }

func (f *filter) none() bool { return len(f.with)+len(f.without) == 0 }

func (f *filter) has(y, m, d int) bool {
	for _, c := range f.with {
		if !c.Has(y, time.Month(m), d) {
			return false
		}
	}
	for _, c := range f.without {
		if c.Has(y, time.Month(m), d) {
			return false
		}
	}
	return true
}

// and adds a restriction. nil calendars restrict nothing.
func (f filter) and(include, exclude Calendar) filter {
	g := filter{with: append([]Calendar(nil), f.with...), without: append([]Calendar(nil), f.without...)}
	if include != nil {
		g.with = append(g.with, include)
	}
	if exclude != nil {
		g.without = append(g.without, exclude)
	}
	return g
}

// first returns the first time in [lo, hi).
func (w *times) first(lo, hi int64) (int64, bool) {
	start, ofDay := split(lo)
	if start < 0 {
		start, ofDay = 0, 0
	}
	if start >= dayMax {
		return 0, false
	}
	y, m, d := civil(start)
	for month := start - d + 1; join(month, 0) < hi && y <= yearMax; d = 1 {
		if w.days.years.has(y) && w.days.months>>m&1 != 0 {
			mask := w.days.mask(y, m)
			for mask = mask >> d << d; mask != 0; mask &= mask - 1 {
				at := bits.TrailingZeros32(mask)
				day := month + at - 1
				from := 0
				if day == start {
					from = ofDay
				}
				if s := w.clocks.first(from); s >= 0 && (w.only.none() || w.only.has(y, m, at)) {
					t := join(day, s)
					return t, t < hi
				}
			}
		}
		if m++; m > 12 {
			y, m = y+1, 1
		}
		month = daysFrom(y, m, 1)
	}
	return 0, false
}

// last returns the last time in [lo, hi).
func (w *times) last(lo, hi int64) (int64, bool) {
	end, below := split(hi - 1)
	below++
	if end >= dayMax {
		end, below = dayMax-1, daySeconds
	}
	if end < 0 {
		return 0, false
	}
	y, m, d := civil(end)
	for month := end - d + 1; y >= yearMin && join(month+31, 0) > lo; d = 31 {
		if w.days.years.has(y) && w.days.months>>m&1 != 0 {
			mask := w.days.mask(y, m)
			for mask &= 2<<d - 1; mask != 0; mask &^= 1 << (bits.Len32(mask) - 1) {
				at := bits.Len32(mask) - 1
				day := month + at - 1
				to := daySeconds
				if day == end {
					to = below
				}
				if s := w.clocks.last(to); s >= 0 && (w.only.none() || w.only.has(y, m, at)) {
					t := join(day, s)
					return t, t >= lo
				}
			}
		}
		if m--; m < 1 {
			y, m = y-1, 12
		}
		month = daysFrom(y, m, 1)
	}
	return 0, false
}

// any reports whether one of the intervals contains a time.
func (w *times) any(in []interval) bool {
	for _, iv := range in {
		if _, ok := w.first(iv.lo, iv.hi); ok {
			return true
		}
	}
	return false
}

func (w *times) has(t int64) bool {
	_, ok := w.first(t, t+1)
	return ok
}

// hasDay reports whether the rule selects a day and the filter contains it.
func (w *times) hasDay(day int) bool {
	if !w.days.has(day) {
		return false
	}
	if w.only.none() {
		return true
	}
	return w.only.has(civil(day))
}

// count returns the number of times in [lo, hi).
func (w *times) count(lo, hi int64) int64 {
	if lo >= hi {
		return 0
	}
	from, fromSec := split(max(lo, 0))
	to, toSec := split(min(hi, secondMax))
	n := int64(w.countDays(from, to)) * int64(w.clocks.total())
	if fromSec > 0 && w.hasDay(from) {
		n -= int64(w.clocks.count(fromSec))
	}
	if toSec > 0 && w.hasDay(to) {
		n += int64(w.clocks.count(toSec))
	}
	return n
}

// countDays returns the number of days in [from, to).
func (w *times) countDays(from, to int) int {
	if from >= to {
		return 0
	}
	n := 0
	y, m, d := civil(from)
	for month := from - d + 1; month < to; d = 1 {
		if w.days.years.has(y) && w.days.months>>m&1 != 0 {
			mask := w.days.mask(y, m)
			mask = mask >> d << d
			if to-month < 31 {
				mask &= 2<<(to-month) - 1
			}
			n += w.filtered(mask, y, m)
		}
		if m++; m > 12 {
			y, m = y+1, 1
		}
		month = daysFrom(y, m, 1)
	}
	return n
}

func (w *times) filtered(mask uint32, y, m int) int {
	if w.only.none() {
		return bits.OnesCount32(mask)
	}
	n := 0
	for ; mask != 0; mask &= mask - 1 {
		if w.only.has(y, m, bits.TrailingZeros32(mask)) {
			n++
		}
	}
	return n
}

// mark sets in b the times in [lo, hi). zero is the time of bit 0.
func (w *times) mark(b *dayBits, lo, hi, zero int64) {
	for lo < hi {
		day, from := split(lo)
		to := min(daySeconds, int(hi-join(day, 0)))
		if w.hasDay(day) {
			w.clocks.mark(b, int(join(day, 0)-zero), from, to)
		}
		lo = join(day+1, 0)
	}
}
