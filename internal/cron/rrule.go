package cron

import "strings"

// recurrence is an RRULE by days (RFC 5545, 3.3.10).
type recurrence struct {
	freq      freq
	interval  int
	count     int // 0 means no limit
	until     int // day
	months    uint16
	monthDays []int // 1…31, or -1…-31 from the end
	byDay     []nthDay
	weekStart int
}

type freq uint8

const (
	yearlyFreq freq = iota + 1
	monthlyFreq
	weeklyFreq
	dailyFreq
)

// nthDay is a weekday, where 0 is Sunday. n is 0 for each such weekday of the period, or selects the n-th
// one, counted from the end if negative.
type nthDay struct{ n, weekday int }

func parseRule(s string) (*recurrence, error) {
	r := &recurrence{interval: 1, until: dayMax - 1, weekStart: 1}
	seen := map[string]bool{}
	for part := range strings.SplitSeq(strings.ToUpper(s), ";") {
		key, value, ok := strings.Cut(part, "=")
		if !ok || value == "" || seen[key] {
			return nil, bad("RRULE", "", quote(clip(part))+" is not NAME=VALUE, once", "write FREQ=YEARLY;BYMONTH=12;…")
		}
		seen[key] = true
		if err := r.part(key, value); err != nil {
			return nil, err
		}
	}
	return r, r.check(seen)
}

func (r *recurrence) part(key, value string) error {
	var err error
	switch key {
	case "FREQ":
		r.freq = map[string]freq{"YEARLY": yearlyFreq, "MONTHLY": monthlyFreq, "WEEKLY": weeklyFreq, "DAILY": dailyFreq}[value]
		if r.freq == 0 {
			return unsupported("FREQ=" + value)
		}
	case "INTERVAL":
		r.interval, err = ruleNumber(key, value, 1, 100_000)
	case "COUNT":
		r.count, err = ruleNumber(key, value, 1, 1_000_000)
	case "UNTIL":
		var m moment
		m, err = parseMoment("UNTIL", value)
		r.until = m.day
	case "WKST":
		r.weekStart, err = ruleWeekday(value)
	case "BYMONTH":
		for v := range strings.SplitSeq(value, ",") {
			m, err := ruleNumber(key, v, 1, 12)
			if err != nil {
				return err
			}
			r.months |= 1 << m
		}
	case "BYMONTHDAY":
		for v := range strings.SplitSeq(value, ",") {
			d, err := ruleNumber(key, v, -31, 31)
			if err != nil {
				return err
			}
			r.monthDays = append(r.monthDays, d)
		}
	case "BYDAY":
		return r.days(value)
	default:
		return unsupported(key)
	}
	return err
}

func (r *recurrence) days(value string) error {
	const daysMax = 7 * 2 * 53
	for v := range strings.SplitSeq(value, ",") {
		d := nthDay{}
		if len(v) < 2 || len(r.byDay) == daysMax {
			return bad("RRULE", "", "BYDAY="+clip(value)+" is not a list of weekdays", "write MO, 1MO or -1FR")
		}
		var err error
		if d.weekday, err = ruleWeekday(v[len(v)-2:]); err != nil {
			return err
		}
		if n := v[:len(v)-2]; n != "" {
			if d.n, err = ruleNumber("BYDAY", n, -53, 53); err != nil {
				return err
			}
		}
		r.byDay = append(r.byDay, d)
	}
	return nil
}

func ruleWeekday(s string) (int, error) {
	const names = "SUMOTUWETHFRSA"
	i := strings.Index(names, s)
	if len(s) != 2 || i < 0 || i%2 != 0 {
		return 0, bad("RRULE", "", quote(clip(s))+" is not a weekday", "write MO, TU, WE, TH, FR, SA or SU")
	}
	return i / 2, nil
}

// check refuses combinations without a meaning in the standard.
func (r *recurrence) check(seen map[string]bool) error {
	if r.freq == 0 {
		return bad("RRULE", "", "FREQ is missing", "write FREQ=YEARLY")
	}
	if seen["COUNT"] && seen["UNTIL"] {
		return bad("RRULE", "", "COUNT and UNTIL exclude each other", "write one of them")
	}
	if r.freq == weeklyFreq && len(r.monthDays) > 0 {
		return bad("RRULE", "", "BYMONTHDAY has no meaning with FREQ=WEEKLY", "write FREQ=MONTHLY")
	}
	for _, d := range r.byDay {
		if d.n != 0 && (r.freq == weeklyFreq || r.freq == dailyFreq) {
			return bad("RRULE", "", "a numbered BYDAY has no meaning with FREQ=WEEKLY or DAILY", "write FREQ=MONTHLY")
		}
	}
	return nil
}

// expand calls the function do with the days on which occurrences begin. DTSTART counts as the first
// occurrence of COUNT, even if the rule does not match it. looked counts the examined days, which are
// bounded.
func (r *recurrence) expand(start int, looked *int, do func(int)) error {
	left := r.count
	if left == 0 {
		left = dayMax
	}
	left-- // DTSTART itself
	plain := len(r.byDay)+len(r.monthDays) == 0
	_, m0, _ := civil(start)
	if r.freq == yearlyFreq && plain && r.months == 0 {
		r.months = 1 << m0
	}
	for day := start + 1; day <= min(r.until, dayMax-1) && left > 0; day++ {
		next := r.skipDays(start, r.skipMonths(r.skip(start, day)))
		if *looked++; *looked > expandMax {
			return tooMany()
		}
		if next > day {
			day = next - 1
			continue
		}
		if r.matches(start, day) {
			do(day)
			left--
		}
	}
	return nil
}

// skip returns the first day that is not before the given day and whose period the interval selects.
func (r *recurrence) skip(start, day int) int {
	y0, m0, _ := civil(start)
	y, m, _ := civil(day)
	switch r.freq {
	case yearlyFreq:
		if ahead := (y - y0) % r.interval; ahead != 0 {
			return daysFrom(y+r.interval-ahead, 1, 1)
		}
	case monthlyFreq:
		month := y*12 + m - 1
		if ahead := (month - y0*12 - m0 + 1) % r.interval; ahead != 0 {
			month += r.interval - ahead
			return daysFrom(month/12, month%12+1, 1)
		}
	case weeklyFreq:
		week := r.week(day)
		if ahead := (week - r.week(start)) % r.interval; ahead != 0 {
			return r.weekBegin(week + r.interval - ahead)
		}
	case dailyFreq:
		if ahead := (day - start) % r.interval; ahead != 0 {
			return day + r.interval - ahead
		}
	}
	return day
}

// skipMonths returns the first day that is not before the given day and is in a month of the rule.
func (r *recurrence) skipMonths(day int) int {
	if r.months == 0 {
		return day
	}
	y, m, d := civil(day)
	if r.months>>m&1 != 0 {
		return day
	}
	day += 1 - d
	for r.months>>m&1 == 0 {
		day += daysIn(y, m)
		if m++; m > 12 {
			y, m = y+1, 1
		}
	}
	return day
}

// skipDays returns the first day that is not before the given day and that a rule without days can select.
// Most rules of holidays are such rules, and skipDays avoids examining all other days of the month.
func (r *recurrence) skipDays(start, day int) int {
	if len(r.byDay)+len(r.monthDays) > 0 {
		return day
	}
	switch r.freq {
	case weeklyFreq:
		return day + (weekday(start)-weekday(day)+7)%7
	case monthlyFreq, yearlyFreq:
		_, _, d0 := civil(start)
		y, m, d := civil(day)
		if d0 < d || d0 > daysIn(y, m) {
			return day - d + 1 + daysIn(y, m) // the next month
		}
		return day - d + d0
	}
	return day
}

// week returns the number of a week that begins with weekStart. 1970-01-01 was a Thursday.
func (r *recurrence) week(day int) int { return floorDiv(day+4-r.weekStart, 7) }

func (r *recurrence) weekBegin(week int) int { return week*7 - 4 + r.weekStart }

// matches reports whether a day of a selected period is an occurrence. If the rule lacks a part, the standard
// takes the part from the start.
func (r *recurrence) matches(start, day int) bool {
	_, m, d := civil(day)
	_, _, d0 := civil(start)
	if r.months != 0 && r.months>>m&1 == 0 {
		return false
	}
	if len(r.monthDays) > 0 && !r.monthDay(day) {
		return false
	}
	if len(r.byDay) > 0 {
		return r.weekday(day)
	}
	if len(r.monthDays) > 0 {
		return true
	}
	switch r.freq {
	case yearlyFreq, monthlyFreq:
		return d == d0
	case weeklyFreq:
		return weekday(day) == weekday(start)
	}
	return true
}

func (r *recurrence) monthDay(day int) bool {
	y, m, d := civil(day)
	for _, want := range r.monthDays {
		if want == d || want < 0 && daysIn(y, m)+1+want == d {
			return true
		}
	}
	return false
}

// weekday reports whether BYDAY selects a day. The number n of an nthDay is counted within the month or, for
// a yearly rule without BYMONTH, within the year.
func (r *recurrence) weekday(day int) bool {
	y, m, d := civil(day)
	at, length := d, daysIn(y, m)
	if r.freq == yearlyFreq && r.months == 0 {
		at, length = day-daysFrom(y, 1, 1)+1, 365
		if leap(y) {
			length++
		}
	}
	for _, want := range r.byDay {
		if want.weekday != weekday(day) {
			continue
		}
		if want.n == 0 || want.n > 0 && (at-1)/7+1 == want.n || want.n < 0 && (length-at)/7+1 == -want.n {
			return true
		}
	}
	return false
}
