package workflow

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"skein.dev/skein/internal/cron"
)

// Schedule returns the instants of the trigger, limited to its span and its calendar. It returns nil for
// sensors (see [Trigger.Sensor]), except for absent with a time of day or an instant. A call takes some ten
// microseconds, and longer with calendars, so a frequent caller should keep the result.
func (t *Trigger) Schedule() (*cron.Schedule, error) { return t.ScheduleWith(cron.LoadZone) }

// ScheduleWith is like Schedule, with zones that the caller loads, because loading a zone costs more than
// everything else.
func (t *Trigger) ScheduleWith(load func(name string) (*time.Location, error)) (*cron.Schedule, error) {
	if t.Sensor() && t.Kind != KindAbsent {
		return nil, nil
	}
	loc, err := load(t.Timezone)
	if err != nil {
		return nil, err
	}
	s, err := t.rule(loc)
	if s == nil || err != nil {
		return nil, err
	}
	from, until, err := t.spanIn(loc)
	if err != nil {
		return nil, err
	}
	include, err := t.days(t.Include)
	if err != nil {
		return nil, err
	}
	exclude, err := t.days(t.Exclude)
	if err != nil {
		return nil, err
	}
	return s.Between(from, until).On(include, exclude), nil
}

// rule returns the instants without span and calendar.
func (t *Trigger) rule(loc *time.Location) (*cron.Schedule, error) {
	opt := cron.Options{Location: loc, Seed: t.Seed}
	var err error
	if opt.Gap, err = cron.ParseGap(t.Gap); err != nil {
		return nil, err
	}
	if opt.Repeat, err = cron.ParseRepeat(t.Repeat); err != nil {
		return nil, err
	}
	switch t.Kind {
	case KindCron:
		return cron.Parse(t.Cron, opt)
	case KindEvery:
		return t.interval(loc)
	case KindAt:
		return atInstant(t.At[0], loc)
	case KindDaily, KindWeekly, KindMonthly, KindAnnually:
		return t.wallClock(opt)
	case KindAbsent:
		switch clock, err := cron.ParseClock(t.Absent.By); {
		case err == nil:
			return cron.Daily([]cron.Clock{clock}, opt)
		case t.Absent.After() == 0:
			return atInstant(t.Absent.By, loc)
		}
	}
	return nil, nil
}

func (t *Trigger) interval(loc *time.Location) (*cron.Schedule, error) {
	anchor := time.Unix(0, 0)
	if t.Start != "" {
		var err error
		if anchor, _, err = t.spanIn(loc); err != nil {
			return nil, err
		}
	}
	return cron.Every(time.Duration(t.Every), anchor.In(loc))
}

func atInstant(text string, loc *time.Location) (*cron.Schedule, error) {
	at, err := parseInstant(text, loc)
	if err != nil {
		return nil, err
	}
	return cron.At(at.In(loc))
}

func (t *Trigger) wallClock(opt cron.Options) (*cron.Schedule, error) {
	clocks := make([]cron.Clock, len(t.At))
	for i, text := range t.At {
		var err error
		if clocks[i], err = cron.ParseClock(text); err != nil {
			return nil, err
		}
	}
	switch t.Kind {
	case KindDaily:
		return cron.Daily(clocks, opt)
	case KindWeekly:
		days := make([]time.Weekday, len(t.Days))
		for i, d := range t.Days {
			days[i] = time.Weekday(d)
		}
		return cron.Weekly(days, clocks, opt)
	case KindMonthly:
		return cron.Monthly(t.Days, clocks, opt)
	}
	months := make([]time.Month, len(t.Months))
	for i, m := range t.Months {
		months[i] = time.Month(m)
	}
	return cron.Annually(months, t.Days, clocks, opt)
}

// Span returns the time in which the trigger may fire: from its start to the last moment of its end, both
// included. A zero time means no bound. Events outside of this time start no run.
func (t *Trigger) Span() (from, until time.Time, err error) {
	if t.Start == "" && t.End == "" {
		return from, until, nil
	}
	loc, err := cron.LoadZone(t.Timezone)
	if err != nil {
		return from, until, err
	}
	return t.spanIn(loc)
}

func (t *Trigger) spanIn(loc *time.Location) (from, until time.Time, err error) {
	if t.Start != "" {
		if from, err = parseBound(t.Start, loc, false); err != nil {
			return from, until, fmt.Errorf("start: %w", err)
		}
	}
	if t.End != "" {
		if until, err = parseBound(t.End, loc, true); err != nil {
			return from, until, fmt.Errorf("end: %w", err)
		}
	}
	return from, until, nil
}

// parseBound reads a date or an instant. If end is set, a date means its last moment.
func parseBound(text string, loc *time.Location, end bool) (time.Time, error) {
	day, err := time.Parse(time.DateOnly, text)
	if outOfRange(err) {
		return day, errNoSuchTime
	}
	if err != nil {
		return parseInstant(text, loc)
	}
	if err := inYears(day); err != nil {
		return time.Time{}, err
	}
	if end {
		next, _ := onWall(day.AddDate(0, 0, 1), loc)
		return next.Add(-1), nil
	}
	first, _ := onWall(day, loc)
	return first, nil
}

// localForms are instants without an offset: wall times of the trigger's zone.
var localForms = []string{"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04"}

var errNotInstant = errors.New("is not an instant such as 2027-01-01T06:00:00Z, or 2027-01-01T06:00 in the trigger's time zone")

// parseInstant reads an instant that has an offset or is in the zone. If the clocks show a wall time twice,
// it returns the first instant. If they never show it, it returns an error.
func parseInstant(text string, loc *time.Location) (time.Time, error) {
	fault := errNotInstant
	for _, form := range append([]string{time.RFC3339, "2006-01-02 15:04:05Z07:00"}, localForms...) {
		at, err := time.Parse(form, text)
		if outOfRange(err) {
			fault = errNoSuchTime
		}
		if err != nil {
			continue
		}
		if err := inYears(at); err != nil {
			return at, err
		}
		if at.Nanosecond() != 0 {
			return at, errors.New("has a part of a second; give whole seconds")
		}
		if !slices.Contains(localForms, form) {
			return at.UTC(), nil
		}
		there, exists := onWall(at, loc)
		if !exists {
			return at, fmt.Errorf("does not exist in %s: the clocks skip it", loc)
		}
		return there.UTC(), nil
	}
	return time.Time{}, fault
}

var errNoSuchTime = errors.New("does not exist: there is no such day, or time of day")

// outOfRange reports whether a text has the right form and names a day that does not exist.
func outOfRange(err error) bool {
	var e *time.ParseError
	return errors.As(err, &e) && strings.HasSuffix(e.Message, "out of range")
}

// inYears returns an error for an instant outside of the years of schedules.
func inYears(at time.Time) error {
	if at.Year() < 1970 || at.Year() > 2199 {
		return fmt.Errorf("is in the year %d; schedules support 1970 to 2199", at.Year())
	}
	return nil
}

// onWall returns the first instant at which the clocks of a zone show the date and time of t. If they never
// show it, it returns the first instant after the gap, and false.
func onWall(t time.Time, loc *time.Location) (time.Time, bool) {
	y, mo, d := t.Date()
	h, mi, s := t.Clock()
	shows := func(u time.Time) bool {
		uy, umo, ud := u.Date()
		uh, umi, us := u.Clock()
		return uy == y && umo == mo && ud == d && uh == h && umi == mi && us == s
	}
	at := time.Date(y, mo, d, h, mi, s, 0, loc)
	start, end := at.ZoneBounds()
	if !shows(at) { // package time uses the offset of either side of the gap
		if before := time.Date(y, mo, d, h, mi, s, 0, time.UTC); wallOf(at).Before(before) {
			return end, false
		}
		return start, false
	}
	if !start.IsZero() {
		_, off := at.Zone()
		_, earlier := start.Add(-1).Zone()
		if first := at.Add(-time.Duration(earlier-off) * time.Second); first.Before(start) && shows(first) {
			return first, true
		}
	}
	return at, true
}

// wallOf returns the wall time of t in its zone, as if it were a time in UTC.
func wallOf(t time.Time) time.Time {
	_, off := t.Zone()
	return t.UTC().Add(time.Duration(off) * time.Second)
}

// anyOf is the union of the days of several calendars, with the words for it.
type anyOf struct {
	all   []cron.Calendar
	items []string
}

// spokenMax bounds how many items of a list a description names.
const spokenMax = 5

// String returns the list as the file writes it: "days of holidays.ics, sat".
func (a anyOf) String() string {
	words := make([]string, 0, len(a.items))
	for i, item := range a.items {
		switch {
		case i == spokenMax:
			return strings.Join(words, ", ") + fmt.Sprintf(" and %d more", len(a.items)-i)
		case isCalendarFile(item):
			item = "days of " + item
		}
		words = append(words, item)
	}
	return strings.Join(words, ", ")
}

// Has implements cron.Calendar.
func (a anyOf) Has(year int, month time.Month, day int) bool {
	return slices.ContainsFunc(a.all, func(c cron.Calendar) bool { return c.Has(year, month, day) })
}

// days returns the calendar of a list of dates, weekdays and files. It returns nil if the list is empty.
func (t *Trigger) days(items []string) (cron.Calendar, error) {
	if len(items) == 0 {
		return nil, nil
	}
	all := anyOf{items: items}
	var plain []string
	for _, item := range items {
		if !isCalendarFile(item) {
			plain = append(plain, item)
			continue
		}
		data, ok := t.Calendars[item]
		if !ok {
			return nil, fmt.Errorf("the calendar file %s was not sent together with the workflow", quoteShort(item))
		}
		c, err := parseCalendar(item, []byte(data))
		if err != nil {
			return nil, fmt.Errorf("the calendar %s: %w", quoteShort(item), err)
		}
		all.all = append(all.all, c)
	}
	c, err := cron.Days(plain...)
	if err != nil {
		return nil, err
	}
	all.all = append(all.all, c)
	return all, nil
}

// calendarFile matches a name with an extension. Dates and weekdays have no extension.
var calendarFile = regexp.MustCompile(`\.[A-Za-z][A-Za-z0-9]*$`)

func isCalendarFile(item string) bool { return calendarFile.MatchString(item) }

func parseCalendar(name string, data []byte) (cron.Calendar, error) {
	if strings.EqualFold(path.Ext(name), ".ics") || bytes.HasPrefix(bytes.TrimSpace(data), []byte("BEGIN:VCALENDAR")) {
		return cron.ParseICS(data)
	}
	return cron.ParseHolidayList(data)
}

// After returns By as a duration. It returns 0 for a time of day or an instant.
func (a *Absent) After() time.Duration {
	d, err := ParseDuration(a.By)
	if err != nil {
		return 0
	}
	return time.Duration(d)
}
