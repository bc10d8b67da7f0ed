package cron

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// The functions of this file describe schedules in English. They read the sets and not the text, so the
// description always matches the instants.

// and joins words with commas and "and".
func and(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

func ordinal(n int) string {
	suffix := "th"
	if n/10 != 1 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return strconv.Itoa(n) + suffix
}

func plural(n int, unit string) string {
	if n == 1 {
		return "1 " + unit
	}
	return strconv.Itoa(n) + " " + unit + "s"
}

// longDuration returns a text such as "1 hour and 30 minutes". For the same duration, short returns "1h30m".
func longDuration(d time.Duration) string {
	h, m, s := int(d/time.Hour), int(d/time.Minute)%60, int(d/time.Second)%60
	if m == 0 && s == 0 && h%24 == 0 {
		return plural(h/24, "day")
	}
	var words []string
	for _, u := range []struct {
		n    int
		unit string
	}{{h, "hour"}, {m, "minute"}, {s, "second"}} {
		if u.n > 0 {
			words = append(words, plural(u.n, u.unit))
		}
	}
	return and(words)
}

func short(d time.Duration) string {
	s := d.String()
	if t, ok := strings.CutSuffix(s, "m0s"); ok {
		s = t + "m"
	}
	if t, ok := strings.CutSuffix(s, "h0m"); ok {
		s = t + "h"
	}
	return s
}

// run is a sequence of consecutive members of a set.
type run struct{ lo, hi int }

func runs(set uint64) []run {
	var all []run
	for set != 0 {
		lo := bits.TrailingZeros64(set)
		n := bits.TrailingZeros64(^(set >> lo))
		all = append(all, run{lo, lo + n - 1})
		set &^= (1<<n - 1) << lo
	}
	return all
}

// listSet describes a set by its runs, such as "1, 5 to 9 and 12".
func listSet(set uint64, say func(int) string) string {
	var words []string
	for _, r := range runs(set) {
		switch r.hi - r.lo {
		case 0:
			words = append(words, say(r.lo))
		case 1:
			words = append(words, say(r.lo), say(r.hi))
		default:
			words = append(words, say(r.lo)+" to "+say(r.hi))
		}
	}
	return and(words)
}

func monthList(set uint16) string {
	return listSet(uint64(set), func(m int) string { return monthNames[m-1] })
}

// evenly returns the step of a set that divides 0…size-1 into equal parts. It returns 0 if there is none.
func evenly(set uint64, size int) (start, step int) {
	n := bits.OnesCount64(set)
	if n < 2 || size%n != 0 {
		return 0, 0
	}
	start, step = bits.TrailingZeros64(set), size/n
	for v := start; v < size; v += step {
		if set>>v&1 == 0 {
			return 0, 0
		}
	}
	if start >= step {
		return 0, 0
	}
	return start, step
}

// spokenMax is the number of times of day up to which they are listed one by one.
const spokenMax = 6

// describe describes the times of day in words.
func (c *clocks) describe() string {
	if c.list != nil || c.total() <= spokenMax {
		var at []string
		for s := c.first(0); s >= 0; s = c.first(s + 1) {
			if len(at) == spokenMax && c.total() > spokenMax+1 {
				at = append(at, plural(c.total()-spokenMax, "more time"))
				break
			}
			at = append(at, clockOf(s).String())
			if s == daySeconds-1 {
				break
			}
		}
		return "at " + and(at)
	}
	var words []string
	if c.seconds != 1 {
		words = append(words, unitWords(c.seconds, "second", false))
	}
	// A unit with finer units below it is already described as "every".
	if c.minutes != 1<<60-1 || len(words) == 0 {
		words = append(words, unitWords(c.minutes, "minute", len(words) > 0))
	}
	if c.hours == 1<<24-1 {
		if bits.OnesCount64(c.minutes) < 60 && evenMinutes(c.minutes) == "" {
			words = append(words, "of every hour")
		}
		return strings.Join(words, " ")
	}
	return strings.Join(words, " ") + " " + c.hourWords()
}

func evenMinutes(set uint64) string {
	if start, step := evenly(set, 60); step > 0 && start == 0 {
		return plural(step, "minute")
	}
	return ""
}

// unitWords describes the seconds or minutes in words.
func unitWords(set uint64, unit string, within bool) string {
	start, step := evenly(set, 60)
	switch {
	case step == 1 && within:
		return "of every " + unit
	case step == 1:
		return "every " + unit
	case step > 1 && start == 0:
		return "every " + plural(step, unit)
	case step > 1:
		return "every " + plural(step, unit) + " from " + unit + " " + strconv.Itoa(start)
	}
	in := "at "
	if within {
		in = "of "
	}
	name := unit
	if bits.OnesCount64(set) > 1 {
		name += "s"
	}
	return in + name + " " + listSet(set, strconv.Itoa)
}

func (c *clocks) hourWords() string {
	if start, step := evenly(uint64(c.hours), 24); step > 1 {
		if start == 0 {
			return "of every " + ordinal(step) + " hour"
		}
		return "of every " + ordinal(step) + " hour from " + clockOf(start*3600).String()
	}
	var words []string
	all := runs(uint64(c.hours))
	if n := len(all); n > 1 && all[0].lo == 0 && all[n-1].hi == 23 { // over midnight
		all[0].lo = all[n-1].lo
		all = append(all[1:n-1], all[0])
	}
	lastMinute := bits.Len64(c.minutes) - 1
	for _, r := range all {
		words = append(words, fmt.Sprintf("%02d:00 to %02d:%02d", r.lo, r.hi, lastMinute))
	}
	return "from " + and(words)
}

// describe describes the days, in words that fit after "at 06:00 ".
func (r *dayRule) describe() string {
	dom, dow := r.domWords(), r.dowWords()
	var words string
	switch {
	case r.either:
		words = "on " + dom + ", or on " + dow
	case dom != "" && dow != "":
		words = "on " + dow + " that is " + dom
	case dom != "":
		words = "on " + dom
	case dow != "":
		words = "on " + dow
	default:
		words = "every day"
	}
	if r.months != allMonths {
		words += " in " + monthList(r.months)
	} else if dom != "" && !r.either && dow == "" {
		words += " of every month"
	}
	return words
}

func (r *dayRule) domWords() string {
	if r.dom == allDays {
		return ""
	}
	var words []string
	if r.dom != 0 {
		words = append(words, "the "+listSet(uint64(r.dom), ordinal))
	}
	for set := r.nearest; set != 0; set &= set - 1 {
		words = append(words, "the workday nearest to the "+ordinal(bits.TrailingZeros32(set)))
	}
	for set := r.beforeLast; set != 0; set &= set - 1 {
		switch k := bits.TrailingZeros32(set); k {
		case 0:
			words = append(words, "the last day")
		case 1:
			words = append(words, "the last day but one")
		default:
			words = append(words, "the "+ordinal(k)+" day before the last")
		}
	}
	if r.lastWorkday {
		words = append(words, "the last workday")
	}
	return and(words)
}

func (r *dayRule) dowWords() string {
	if r.dow == allWeekdays {
		return ""
	}
	var words []string
	if r.dow != 0 {
		words = append(words, listSet(monday(r.dow), func(w int) string { return weekdayNames[w%7] }))
	}
	for w, set := range r.nth {
		for ; set != 0; set &= set - 1 {
			words = append(words, "the "+ordinal(bits.TrailingZeros8(set))+" "+weekdayNames[w])
		}
	}
	for w := range 7 {
		if r.lastDow>>w&1 != 0 {
			words = append(words, "the last "+weekdayNames[w])
		}
	}
	return and(words)
}

// monday moves Sunday to the end of the week, as bit 7, so that "Saturday and Sunday" and "Friday to Sunday"
// are consecutive.
func monday(dow uint8) uint64 { return uint64(dow&^1) | uint64(dow&1)<<7 }

// describe describes times, days and years, but not the zone.
func (w *wall) describe() string {
	times, days, years := w.times.clocks.describe(), w.times.days.describe(), w.times.days.years.describe()
	if days == "every day" && w.times.clocks.hours == 1<<24-1 {
		return times + years // "every 5 minutes" needs no "every day"
	}
	return times + " " + days + years
}

// describe describes the years in words; "" for all years.
func (y *years) describe() string {
	if *y == everyYear() {
		return ""
	}
	var words []string
	for year := yearMin; year <= yearMax; year++ {
		if !y.has(year) {
			continue
		}
		from := year
		for year < yearMax && y.has(year+1) {
			year++
		}
		if len(words) == shownMax {
			words = append(words, "later years")
			break
		}
		switch year - from {
		case 0:
			words = append(words, strconv.Itoa(from))
		case 1:
			words = append(words, strconv.Itoa(from), strconv.Itoa(year))
		default:
			words = append(words, strconv.Itoa(from)+" to "+strconv.Itoa(year))
		}
	}
	return " in " + and(words)
}
