package cron

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ClocksMax bounds the number of times of day in one form.
const ClocksMax = 1_440

// Daily returns the schedule of these times on every day. Like the other forms it uses wall-clock times, so
// the policies of o for clock changes apply. o.Seed is not used.
func Daily(at []Clock, o Options) (*Schedule, error) {
	return form("daily", everyDay(), at, o)
}

// Weekly returns the schedule of these times on these weekdays.
func Weekly(days []time.Weekday, at []Clock, o Options) (*Schedule, error) {
	rule := everyDay()
	rule.dow = 0
	for _, d := range days {
		if d < time.Sunday || d > time.Saturday {
			return nil, bad("weekly", strconv.Itoa(int(d)), "is not a weekday", "write 0 (Sunday) to 6")
		}
		rule.dow |= 1 << d
	}
	if rule.dow == 0 {
		return nil, bad("weekly", "", "no weekday is given", "name at least one, such as mon")
	}
	return form("weekly", rule, at, o)
}

// Monthly returns the schedule of these times on these days of each month. A day is 1 to 31, or -1 (the last
// day) to -31 counted from the end. A month without such a day is skipped.
func Monthly(days []int, at []Clock, o Options) (*Schedule, error) {
	rule := everyDay()
	if err := rule.monthDays("monthly", days); err != nil {
		return nil, err
	}
	return form("monthly", rule, at, o)
}

// Annually does the same as Monthly, but only in the given months.
func Annually(months []time.Month, days []int, at []Clock, o Options) (*Schedule, error) {
	rule := everyDay()
	if err := rule.monthDays("annually", days); err != nil {
		return nil, err
	}
	rule.months = 0
	for _, m := range months {
		if m < time.January || m > time.December {
			return nil, bad("annually", strconv.Itoa(int(m)), "is no month", "write 1 to 12")
		}
		rule.months |= 1 << m
	}
	if rule.months == 0 {
		return nil, bad("annually", "", "no month is given", "name at least one, such as jan")
	}
	return form("annually", rule, at, o)
}

func (r *dayRule) monthDays(field string, days []int) error {
	r.dom = 0
	for _, d := range days {
		switch {
		case d >= 1 && d <= 31:
			r.dom |= 1 << d
		case d <= -1 && d >= -31:
			r.beforeLast |= 1 << (-d - 1)
		default:
			return bad(field, strconv.Itoa(d), "is not a day of a month", "write 1 to 31, or -1 (the last day) to -31")
		}
	}
	if r.dom|r.beforeLast == 0 {
		return bad(field, "", "no day is given", "name at least one, such as 1 or -1 (the last day)")
	}
	return nil
}

// form makes the schedule of a day rule and times of day.
func form(name string, rule dayRule, at []Clock, o Options) (*Schedule, error) {
	loc, err := o.place()
	if err != nil {
		return nil, err
	}
	if len(at) == 0 || len(at) > ClocksMax {
		return nil, bad(name, "", fmt.Sprintf("%d times of day are given", len(at)), "give 1 to 1,440, such as 06:00")
	}
	w := &wall{zone: zone{loc}, gap: o.Gap, repeat: o.Repeat, grain: 60}
	w.times.days = rule
	w.times.clocks.list = []int{}
	for _, c := range at {
		if !c.valid() {
			return nil, bad(name, fmt.Sprint(c.Hour, ":", c.Minute, ":", c.Second), "is not a time of day", "write 00:00:00 to 23:59:59")
		}
		if c.Second != 0 {
			w.grain = 1
		}
		w.times.clocks.list = append(w.times.clocks.list, c.seconds())
	}
	slices.Sort(w.times.clocks.list)
	w.times.clocks.list = slices.Compact(w.times.clocks.list)
	s := newSchedule(w, loc)
	s.text = zonePrefix(loc) + formText(name, w)
	s.words = w.describe() + ", " + loc.String()
	if _, ok := s.first(); !ok {
		return nil, &Error{Expr: s.text, Field: name, Reason: "no day is " + strings.TrimPrefix(w.times.days.describe(), "on "),
			Hint: "change the day or the month", kind: ErrImpossible}
	}
	return s, nil
}

func formText(name string, w *wall) string {
	r := &w.times.days
	text := "@" + name
	if r.dow != allWeekdays {
		text += " dow=" + setText(uint32(r.dow), 0, 6)
	}
	if r.months != allMonths {
		text += " month=" + setText(uint32(r.months), 1, 12)
	}
	if r.dom != allDays {
		var days []string
		for d := 1; d <= 31; d++ {
			if r.dom>>d&1 != 0 {
				days = append(days, strconv.Itoa(d))
			}
		}
		for d := 0; d <= 30; d++ {
			if r.beforeLast>>d&1 != 0 {
				days = append(days, strconv.Itoa(-d-1))
			}
		}
		text += " day=" + strings.Join(days, ",")
	}
	var at []string
	for _, s := range w.times.clocks.list {
		at = append(at, clockOf(s).String())
	}
	return text + " at=" + strings.Join(at, ",")
}

func setText(set uint32, lo, hi int) string {
	var all []string
	for v := lo; v <= hi; v++ {
		if set>>v&1 != 0 {
			all = append(all, strconv.Itoa(v))
		}
	}
	return strings.Join(all, ",")
}
