package cron

import (
	"fmt"
	"strconv"
	"strings"
)

// Bounds of one iCalendar file, in addition to CalendarMax.
const (
	eventsMax = 10_000
	// expandMax bounds the number of dates that all recurrence rules of a file examine, and so the time.
	// Dozens of daily rules until 2199 or thousands of yearly rules are within this bound.
	expandMax = 2_000_000
)

// ParseICS reads the days of the events in an iCalendar file (RFC 5545). An event lasts from DTSTART to the
// day before DTEND, or for DURATION in days or weeks, or one day without both. RRULE and RDATE repeat it,
// except on EXDATE. RRULE may be YEARLY, MONTHLY, WEEKLY or DAILY, with INTERVAL, COUNT, UNTIL, BYMONTH,
// BYMONTHDAY, BYDAY and WKST. An event with times covers each day that it touches. Dates are read as they are
// written, without their zones. Components other than VEVENT and cancelled events are skipped. For any other
// form of recurrence, the error names the form.
func ParseICS(data []byte) (Calendar, error) {
	if err := calendarSize(data); err != nil {
		return nil, err
	}
	r := &icsReader{all: new(dates)}
	n := 0
	var logical []byte // the line so far, unfolded
	var at int
	for line := range strings.Lines(string(data)) {
		n++
		line = strings.TrimRight(line, "\r\n")
		if line != "" && (line[0] == ' ' || line[0] == '\t') { // a folded line: this one continues the line before
			logical = append(logical, line[1:]...)
			continue
		}
		if err := r.line(string(logical)); err != nil {
			return nil, atLine(err, at)
		}
		logical, at = append(logical[:0], strings.TrimPrefix(line, "\ufeff")...), n
	}
	if err := r.line(string(logical)); err != nil {
		return nil, atLine(err, at)
	}
	if !r.seen || len(r.stack) > 0 {
		return nil, bad("calendar", "", "is not a complete iCalendar file", "it must go from BEGIN:VCALENDAR to END:VCALENDAR")
	}
	return r.all, nil
}

// icsReader reads the lines of a file.
type icsReader struct {
	all    *dates
	stack  []string // components that are open
	seen   bool     // a VCALENDAR began
	event  *event
	events int
	looked int // dates looked at by rules so far
}

// event is one VEVENT. Its lists hold days since 1970.
type event struct {
	start, end moment
	hasStart   bool
	hasEnd     bool
	days       int // the length from DURATION; 0 if there is none
	rule       *recurrence
	extra      []int
	except     []int
	cancelled  bool
}

// moment is a DATE, or a DATE-TIME with its second of the day.
type moment struct {
	day, second int
	timed       bool
}

func (r *icsReader) line(s string) error {
	if strings.TrimSpace(s) == "" {
		return nil
	}
	name, params, value, ok := content(s)
	if !ok {
		return bad("calendar", "", quote(clip(s))+" is not a line of an iCalendar file", "write NAME:VALUE")
	}
	switch {
	case name == "BEGIN":
		return r.begin(strings.ToUpper(value))
	case name == "END":
		return r.endOf(strings.ToUpper(value))
	case len(r.stack) == 0:
		return bad("calendar", "", name+" is outside of a VCALENDAR", "begin with BEGIN:VCALENDAR")
	case r.event != nil && r.stack[len(r.stack)-1] == "VEVENT":
		return r.event.property(name, params, value)
	}
	return nil
}

func (r *icsReader) begin(component string) error {
	if len(r.stack) == 0 && component != "VCALENDAR" {
		return bad("calendar", "", "BEGIN:"+clip(component)+" is outside of a VCALENDAR", "begin with BEGIN:VCALENDAR")
	}
	if r.event != nil && component == "VEVENT" {
		return bad("calendar", "", "an event is inside another event", "close the first with END:VEVENT")
	}
	const depthMax = 8
	if len(r.stack) == depthMax {
		return bad("calendar", "", "components are nested too deeply", "use at most 8 levels")
	}
	r.seen = true
	r.stack = append(r.stack, component)
	if component == "VEVENT" {
		if r.events++; r.events > eventsMax {
			return bad("calendar", "", "there are more than 10,000 events", "split the calendar")
		}
		r.event = new(event)
	}
	return nil
}

func (r *icsReader) endOf(component string) error {
	top := len(r.stack) - 1
	if top < 0 || r.stack[top] != component {
		return bad("calendar", "", "END:"+clip(component)+" closes a component that is not open", "close components in reverse order")
	}
	r.stack = r.stack[:top]
	if component == "VEVENT" && r.event != nil {
		e := r.event
		r.event = nil
		return r.put(e)
	}
	return nil
}

// put adds the days of a complete event.
func (r *icsReader) put(e *event) error {
	if !e.hasStart {
		return bad("DTSTART", "", "the event has none", "give the event a DTSTART")
	}
	if e.cancelled {
		return nil
	}
	length, err := e.length()
	if err != nil {
		return err
	}
	starts := map[int]bool{e.start.day: true}
	if e.rule != nil {
		if err := e.rule.expand(e.start.day, &r.looked, func(day int) { starts[day] = true }); err != nil {
			return err
		}
	}
	for _, day := range e.extra {
		starts[day] = true
	}
	for _, day := range e.except {
		delete(starts, day)
	}
	if r.looked += len(starts) * length; r.looked > expandMax {
		return tooMany()
	}
	for day := range starts {
		r.all.add(day, day+length-1)
	}
	return nil
}

func tooMany() error {
	return bad("RRULE", "", "the recurrences of the file give too many days", "end them with UNTIL or COUNT, or split the calendar")
}

// length returns the number of days that one occurrence touches.
func (e *event) length() (int, error) {
	if e.days > 0 {
		return e.days, nil
	}
	if !e.hasEnd {
		return 1, nil
	}
	if e.end.timed != e.start.timed {
		return 0, bad("DTEND", "", "has another form than DTSTART: only one of the two has a time of day", "write both as dates or both with a time")
	}
	last := e.end.day
	if e.end.second == 0 { // DTEND is exclusive: at midnight, the event ends on the day before
		last--
	}
	if e.end.day < e.start.day || e.end.day == e.start.day && e.end.second < e.start.second {
		return 0, bad("DTEND", "", "is before DTSTART", "write the later one as DTEND")
	}
	return max(last-e.start.day+1, 1), nil
}

// property reads one line of an event. It ignores names that do not affect the days.
func (e *event) property(name, params, value string) error {
	var err error
	switch name {
	case "DTSTART":
		e.start, err = parseMoment(name, value)
		e.hasStart = true
	case "DTEND":
		e.end, err = parseMoment(name, value)
		e.hasEnd = true
	case "DURATION":
		e.days, err = parseDays(value)
	case "RRULE":
		if e.rule != nil {
			return bad(name, "", "the event has two", "use one RRULE and RDATE")
		}
		e.rule, err = parseRule(value)
	case "RDATE":
		if strings.Contains(strings.ToUpper(params), "VALUE=PERIOD") {
			return bad(name, "", "periods are not supported", "write dates")
		}
		e.extra, err = addMoments(e.extra, name, value)
	case "EXDATE":
		e.except, err = addMoments(e.except, name, value)
	case "EXRULE":
		return bad(name, "", "is not supported", "write EXDATE")
	case "RECURRENCE-ID":
		return bad(name, "", "a changed occurrence is not supported", "write EXDATE in the series and a single event of its own")
	case "STATUS":
		e.cancelled = strings.EqualFold(value, "CANCELLED")
	}
	return err
}

func addMoments(to []int, name, value string) ([]int, error) {
	for v := range strings.SplitSeq(value, ",") {
		m, err := parseMoment(name, v)
		if err != nil {
			return nil, err
		}
		to = append(to, m.day)
	}
	return to, nil
}

// content divides "NAME;PARAM=VALUE:VALUE". It does not divide at a colon in quotation marks.
func content(s string) (name, params, value string, ok bool) {
	quoted := false
	for i := range len(s) {
		switch {
		case s[i] == '"':
			quoted = !quoted
		case s[i] == ':' && !quoted:
			name, params, _ = strings.Cut(s[:i], ";")
			return strings.ToUpper(name), params, strings.TrimSpace(s[i+1:]), name != ""
		}
	}
	return "", "", "", false
}

// parseMoment reads 20271224, 20271224T060000 or 20271224T060000Z.
func parseMoment(name, s string) (moment, error) {
	date, clock, timed := strings.Cut(strings.TrimSpace(s), "T")
	m := moment{timed: timed}
	day, ok := dateOf(date)
	m.day = day
	if timed {
		n, isNumber := number(strings.TrimSuffix(clock, "Z"))
		c := Clock{n / 10000, n / 100 % 100, min(n%100, 59)} // 60 is a leap second
		m.second = c.seconds()
		ok = ok && isNumber && len(strings.TrimSuffix(clock, "Z")) == 6 && c.valid() && n%100 <= 60
	}
	if !ok {
		return m, bad(name, "", quote(clip(s))+" is not a date from 1970 to 2199", "write 20271224 or 20271224T060000")
	}
	return m, nil
}

// parseDays reads a DURATION. Hours count as the whole day that they touch.
func parseDays(s string) (int, error) {
	body, ok := strings.CutPrefix(strings.TrimPrefix(s, "+"), "P")
	date, _, timed := strings.Cut(body, "T")
	if ok && date == "" && timed {
		return 1, nil
	}
	unit := 1
	digits, isDays := strings.CutSuffix(date, "D")
	if !isDays {
		unit = 7
		digits, isDays = strings.CutSuffix(date, "W")
	}
	n, isNumber := number(digits)
	if !ok || !isDays || !isNumber || timed || n < 1 || n > 3660 {
		return 0, bad("DURATION", "", quote(clip(s))+" is not supported", "write days or weeks, such as P1D, or DTEND")
	}
	return n * unit, nil
}

// unsupported returns an error that names an unsupported part of a rule.
func unsupported(part string) error {
	return bad("RRULE", "", clip(part)+" is not supported",
		"use FREQ (YEARLY to DAILY), INTERVAL, COUNT, UNTIL, BYMONTH, BYMONTHDAY, BYDAY, WKST, or list the dates with RDATE")
}

func ruleNumber(part, s string, lo, hi int) (int, error) {
	digits, negative := strings.CutPrefix(s, "-")
	n, ok := number(strings.TrimPrefix(digits, "+"))
	if negative {
		n = -n
	}
	if !ok || n < lo || n > hi || n == 0 {
		return 0, bad("RRULE", "", part+"="+clip(s)+" is out of range", fmt.Sprintf("write %s from %s to %s", part, strconv.Itoa(lo), strconv.Itoa(hi)))
	}
	return n, nil
}
