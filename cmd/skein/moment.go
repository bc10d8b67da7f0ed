package main

import (
	"time"

	"skein.dev/skein/internal/cron"
	"skein.dev/skein/internal/workflow"
)

// momentHelp is part of every help text that takes T.
const momentHelp = `T is an instant (2027-03-28T02:30:00+01:00), a date (2027-03-28, a day in the time zone), now, or a time
relative to now: +36h is in the future, -2d is in the past. Units are w, d, h, m, s.`

// moments reads points in time in the forms that people use.
type moments struct {
	now  time.Time
	zone *time.Location // the time zone of dates
}

// momentsIn returns moments whose dates are days in a time zone; "" is UTC.
func momentsIn(zone string) (moments, error) {
	loc, err := cron.LoadZone(zone)
	if err != nil {
		return moments{}, scheduleError(err)
	}
	return moments{now: time.Now(), zone: loc}, nil
}

// from parses the beginning of a range of time. For a date, this is the first moment of the day. "" means
// that there is no beginning.
func (m moments) from(flag, text string) (time.Time, error) { return m.read(flag, text, false) }

// until parses the end of a range of time. For a date, this is the last moment of the day, so the range
// includes that day. "" means that there is no end.
func (m moments) until(flag, text string) (time.Time, error) { return m.read(flag, text, true) }

func (m moments) read(flag, text string, end bool) (time.Time, error) {
	switch {
	case text == "":
		return time.Time{}, nil
	case text == "now":
		return m.now, nil
	case text[0] == '+' || text[0] == '-':
		d, err := workflow.ParseDuration(text[1:])
		if err != nil {
			return time.Time{}, m.refuse(flag, text)
		}
		if text[0] == '-' {
			d = -d
		}
		return m.now.Add(time.Duration(d)), nil
	}
	if day, err := time.Parse(time.DateOnly, text); err == nil {
		if end {
			return firstOf(day.AddDate(0, 0, 1), m.zone).Add(-time.Microsecond), nil
		}
		return firstOf(day, m.zone), nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return t, m.refuse(flag, text)
	}
	return t, nil
}

func (m moments) refuse(flag, text string) error {
	return usage("%s %s: use an instant such as 2027-03-28T02:30:00Z, a date such as 2027-03-28, now, +36h or -2d", flag, text)
}

// firstOf returns the first instant at which the clocks of a zone show a given day. The day is given as its
// midnight in UTC. On some days, a zone has no midnight, or two.
func firstOf(day time.Time, loc *time.Location) time.Time {
	const widest = 26 * time.Hour // more than any offset from UTC
	for t := day.Add(-widest).In(loc); ; {
		_, offset := t.Zone()
		reached := day.Add(-time.Duration(offset) * time.Second)
		if reached.Before(t) {
			reached = t
		}
		_, end := t.ZoneBounds()
		if !end.After(t) || reached.Before(end) { // in this zone, the day has no end or it has passed: see zone.at in package cron
			return reached.In(loc)
		}
		t = end
	}
}
