package cron

import "math/bits"

// allDays, allMonths and allWeekdays are full sets.
const (
	allDays     uint32 = 1<<32 - 2
	allMonths   uint16 = 1<<13 - 2
	allWeekdays uint8  = 1<<7 - 1
)

// years is a set of the years 1970 to 2199.
type years [4]uint64

func (y *years) add(year int) { y[(year-yearMin)>>6] |= 1 << ((year - yearMin) & 63) }

func (y *years) has(year int) bool { return y[(year-yearMin)>>6]>>((year-yearMin)&63)&1 != 0 }

func everyYear() (y years) {
	for year := yearMin; year <= yearMax; year++ {
		y.add(year)
	}
	return y
}

// dayRule selects days. Sets are bits, with bit n for the value n.
type dayRule struct {
	years  years
	months uint16 // 1…12

	dom         uint32 // days of the month, 1…31
	beforeLast  uint32 // bit n: the n-th day before the last; bit 0 is the last
	nearest     uint32 // bit n: the Monday to Friday nearest to day n
	lastWorkday bool   // the last Monday to Friday

	dow     uint8    // days of the week, 0 is Sunday
	nth     [7]uint8 // by weekday; bit k stands for the k-th such weekday of the month, 1…5
	lastDow uint8    // a set of weekdays: their last occurrence in the month

	either bool // a match of either the day of the month or the day of the week is enough
}

// everyDay returns the rule without restrictions.
func everyDay() dayRule {
	return dayRule{years: everyYear(), months: allMonths, dom: allDays, dow: allWeekdays}
}

// mask returns the selected days of a month, with bit d for day d.
func (r *dayRule) mask(y, m int) uint32 {
	n := daysIn(y, m)
	if r.dow == allWeekdays && !r.either {
		return r.domMask(n, y, m)
	}
	first := weekday(daysFrom(y, m, 1))
	if r.either {
		return r.domMask(n, y, m) | r.dowMask(n, first)
	}
	return r.domMask(n, y, m) & r.dowMask(n, first)
}

func (r *dayRule) domMask(n, y, m int) uint32 {
	inMonth := uint32(1)<<(n+1) - 2
	mask := r.dom & inMonth
	if r.beforeLast|r.nearest == 0 && !r.lastWorkday {
		return mask
	}
	for set := r.beforeLast; set != 0; set &= set - 1 {
		if k := bits.TrailingZeros32(set); k < n {
			mask |= 1 << (n - k)
		}
	}
	first := weekday(daysFrom(y, m, 1))
	for set := r.nearest & inMonth; set != 0; set &= set - 1 {
		mask |= 1 << workdayNear(bits.TrailingZeros32(set), n, first)
	}
	if r.lastWorkday {
		mask |= 1 << workdayNear(n, n, first)
	}
	return mask
}

// workdayNear moves a Saturday to the Friday before, and a Sunday to the Monday after. If that day is not in
// the month of n days, it moves the day in the other direction.
func workdayNear(d, n, first int) int {
	switch (first + d - 1) % 7 {
	case 6:
		if d == 1 {
			return 3
		}
		return d - 1
	case 0:
		if d == n {
			return d - 2
		}
		return d + 1
	}
	return d
}

// weekly contains the days 1, 8, 15, 22 and 29: the days with the weekday of the 1st.
const weekly uint32 = 1<<1 | 1<<8 | 1<<15 | 1<<22 | 1<<29

func (r *dayRule) dowMask(n, first int) uint32 {
	inMonth := uint32(1)<<(n+1) - 2
	var mask uint32
	for w := range 7 {
		ahead := (w - first + 7) % 7 // days from the 1st to the first such weekday
		days := weekly << ahead & inMonth
		if r.dow>>w&1 != 0 {
			mask |= days
		}
		for set := r.nth[w]; set != 0; set &= set - 1 {
			mask |= days & (1 << (ahead + 7*bits.TrailingZeros8(set) - 6))
		}
		if r.lastDow>>w&1 != 0 {
			mask |= 1 << (bits.Len32(days) - 1)
		}
	}
	return mask
}

// has reports whether the rule selects a day.
func (r *dayRule) has(day int) bool {
	if !inYears(day) {
		return false
	}
	y, m, d := civil(day)
	return r.years.has(y) && r.months>>m&1 != 0 && r.mask(y, m)>>d&1 != 0
}
