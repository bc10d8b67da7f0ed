package cron

import (
	"fmt"
	"strings"
	"time"
)

// Calendar is a set of dates.
type Calendar interface {
	// Has reports whether the calendar holds a date. It may be called often and from any
	// goroutine.
	Has(year int, month time.Month, day int) bool
}

// CalendarMax bounds the text of one calendar, in bytes.
const CalendarMax = 1 << 20

// dates is a Calendar of the years 1970 to 2199, with one bit for each day from 1970-01-01. A rule for each
// year sets bits in every year. So Has reads one bit, and every calendar takes the same 10 KiB.
type dates [dayMax/64 + 1]uint64

// Has implements [Calendar].
func (c *dates) Has(year int, month time.Month, day int) bool {
	d := daysFrom(year, int(month), day)
	return inYears(d) && c[d>>6]>>(d&63)&1 != 0
}

// add sets the days from first to last. Days outside of the years of this package are ignored.
func (c *dates) add(first, last int) {
	for d := max(first, 0); d <= min(last, dayMax-1); d++ {
		c[d>>6] |= 1 << (d & 63)
	}
}

// Days returns the calendar of the given items. An item is a date "2027-12-24", a date of each year "12-24"
// (or "--12-24"), a weekday "sat", or a range of these with /, which includes both ends:
// "2027-12-24/2027-12-31", "12-24/01-06", "sat/sun".
func Days(items ...string) (Calendar, error) {
	c := new(dates)
	for _, item := range items {
		if err := c.addItem(item); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *dates) addItem(item string) error {
	from, to, ranged := strings.Cut(strings.TrimSpace(item), "/")
	if !ranged {
		to = from
	}
	a, okA := parseItem(from)
	b, okB := parseItem(to)
	if !okA || !okB || a.kind != b.kind {
		return bad("date", clip(item), "is not a day",
			`write "2027-12-24", "12-24" (each year), "sat", or a range of two such as "2027-12-24/2027-12-31"`)
	}
	switch a.kind {
	case aDate:
		if b.day < a.day {
			return bad("date", clip(item), "ends before it begins", "write the earlier date first")
		}
		c.add(a.day, b.day)
	case aYearly:
		c.addYearly(a, b)
	case aWeekday:
		length := (b.day-a.day+7)%7 + 1 // a range may go past the end of the week, as sat/sun does
		for day := floorMod(a.day-weekday(0), 7) - 7; day < dayMax; day += 7 {
			c.add(day, day+length-1)
		}
	}
	return nil
}

// addYearly adds a range of each year. The range may cross the end of the year. In a year without 29
// February, that date is ignored, also as the end of a range.
func (c *dates) addYearly(a, b item) {
	for y := yearMin; y <= yearMax; y++ {
		// In a year without 29 February, daysFrom returns 1 March for it. That is right for the beginning of a range.
		from, to := daysFrom(y, a.month, a.day), daysFrom(y, b.month, b.day)
		if b.day > daysIn(y, b.month) {
			to--
		}
		if a.month*100+a.day <= b.month*100+b.day {
			c.add(from, to)
			continue
		}
		c.add(daysFrom(y, 1, 1), to)
		c.add(from, daysFrom(y, 12, 31))
	}
}

// item is one end of a range: a day since 1970, a month and its day, or a weekday.
type item struct {
	kind       itemKind
	month, day int
}

type itemKind uint8

const (
	aDate itemKind = iota
	aYearly
	aWeekday
)

func parseItem(s string) (item, bool) {
	s = strings.TrimSpace(s)
	if rest, ok := strings.CutPrefix(s, "--"); ok {
		s = rest
	}
	parts := strings.Split(s, "-")
	switch len(parts) {
	case 1:
		w, err := specs[fDow].value(s)
		_, isNumber := number(s)
		return item{kind: aWeekday, day: w}, err == nil && !isNumber
	case 2:
		m, ok1 := number(parts[0])
		d, ok2 := number(parts[1])
		ok := ok1 && ok2 && len(s) == 5 && validDate(2000, m, d)
		return item{kind: aYearly, month: m, day: d}, ok
	case 3:
		day, ok := parseDate(s)
		return item{kind: aDate, day: day}, ok
	}
	return item{}, false
}

// parseDate reads "2027-12-24".
func parseDate(s string) (int, bool) {
	if len(s) != 10 || s[4] != '-' || s[7] != '-' {
		return 0, false
	}
	return dateOf(s[:4] + s[5:7] + s[8:])
}

// dateOf reads "20271224".
func dateOf(s string) (int, bool) {
	n, ok := number(s)
	if !ok || len(s) != 8 {
		return 0, false
	}
	y, m, d := n/10000, n/100%100, n%100
	if !validDate(y, m, d) {
		return 0, false
	}
	return daysFrom(y, m, d), true
}

func validDate(y, m, d int) bool {
	return y >= yearMin && y <= yearMax && m >= 1 && m <= 12 && d >= 1 && d <= daysIn(y, m)
}

// ParseHolidayList reads a list of days with one item of [Days] in each line. A # begins a comment.
func ParseHolidayList(data []byte) (Calendar, error) {
	if err := calendarSize(data); err != nil {
		return nil, err
	}
	const yearlyMax = 1_000 // rules without an end are expanded, and each takes a pass over all days
	c, yearly, n := new(dates), 0, 0
	for line := range strings.Lines(string(data)) {
		n++
		text, _, _ := strings.Cut(line, "#")
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		if len(text) != len("2027-12-24") {
			yearly++
		}
		if yearly > yearlyMax {
			return nil, bad("date", "", fmt.Sprintf("line %d: there are more than 1,000 rules", n), "write plain dates")
		}
		if err := c.addItem(text); err != nil {
			return nil, atLine(err, n)
		}
	}
	return c, nil
}

func calendarSize(data []byte) error {
	if len(data) > CalendarMax {
		return bad("calendar", "", fmt.Sprintf("the calendar has %d bytes", len(data)), "use at most 1 MiB")
	}
	return nil
}

// atLine adds the line of a file to an error.
func atLine(err error, line int) error {
	if e, ok := err.(*Error); ok {
		e.Reason = fmt.Sprintf("line %d: %s", line, e.Reason)
	}
	return err
}
