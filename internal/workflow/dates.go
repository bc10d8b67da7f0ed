package workflow

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	celref "github.com/google/cel-go/common/types/ref"

	"skein.dev/skein/internal/cron"
)

// Bounds of the functions of dates.
const (
	layoutBytesMax = 256
	daysMax        = 4_000_000 // about 10,000 years
	monthsMax      = 120_000
)

const daySeconds = 86_400

// dateWord is a function of dates in expressions. Each function takes an instant (parseDate takes a text),
// then at most one further argument, and last an optional time zone.
type dateWord struct {
	name   string
	of     *cel.Type // the first argument
	arg    *cel.Type // the type of the second argument; nil if there is none
	result *cel.Type
	// do computes the result. arg is the zero value if the function has no further argument.
	do func(of, arg celref.Val, loc *time.Location) (celref.Val, error)
	// literal checks an argument that is a literal, so that a mistake is found when the file is read.
	literal func(text string) error
}

var dateWords = []dateWord{
	{name: "date", of: cel.TimestampType, result: cel.StringType,
		do: func(of, _ celref.Val, loc *time.Location) (celref.Val, error) {
			return types.String(instantOf(of).In(loc).Format(time.DateOnly)), nil
		}},
	{name: "format", of: cel.TimestampType, arg: cel.StringType, result: cel.StringType, literal: checkLayout,
		do: func(of, arg celref.Val, loc *time.Location) (celref.Val, error) {
			text, err := formatTime(instantOf(of).In(loc), string(arg.(types.String)))
			return types.String(text), err
		}},
	{name: "addDays", of: cel.TimestampType, arg: cel.IntType, result: cel.TimestampType, do: func(of, arg celref.Val, loc *time.Location) (celref.Val, error) {
		n := int64(arg.(types.Int))
		if n < -daysMax || n > daysMax {
			return nil, fmt.Errorf("addDays counts at most %d days, not %d", daysMax, n)
		}
		return onCalendar(instantOf(of), loc, func(d day) day { d.d += int(n); return d })
	}},
	{name: "addMonths", of: cel.TimestampType, arg: cel.IntType, result: cel.TimestampType, do: func(of, arg celref.Val, loc *time.Location) (celref.Val, error) {
		n := int64(arg.(types.Int))
		if n < -monthsMax || n > monthsMax {
			return nil, fmt.Errorf("addMonths counts at most %d months, not %d", monthsMax, n)
		}
		return onCalendar(instantOf(of), loc, func(d day) day {
			last := time.Date(d.y, d.m+time.Month(n)+1, 0, 0, 0, 0, 0, time.UTC) // the last day of the resulting month
			return day{last.Year(), last.Month(), min(d.d, last.Day()), d.clock}
		})
	}},
	{name: "startOf", of: cel.TimestampType, arg: cel.StringType, result: cel.TimestampType, literal: checkUnit,
		do: func(of, arg celref.Val, loc *time.Location) (celref.Val, error) {
			t, err := startOf(instantOf(of), string(arg.(types.String)), loc, 0)
			return types.Timestamp{Time: t}, err
		}},
	{name: "endOf", of: cel.TimestampType, arg: cel.StringType, result: cel.TimestampType, literal: checkUnit,
		do: func(of, arg celref.Val, loc *time.Location) (celref.Val, error) {
			t, err := startOf(instantOf(of), string(arg.(types.String)), loc, 1)
			return types.Timestamp{Time: t.Add(-time.Second)}, err
		}},
	{name: "parseDate", of: cel.StringType, result: cel.TimestampType,
		do: func(of, _ celref.Val, loc *time.Location) (celref.Val, error) {
			text := string(of.(types.String))
			t, err := time.Parse(time.DateOnly, text)
			if err != nil {
				return nil, fmt.Errorf("%s is not a day such as 2027-01-31", quoteShort(text))
			}
			y, m, d := t.Date()
			at, err := onClock(day{y, m, d, 0}, loc)
			return types.Timestamp{Time: at}, err
		}},
}

// dateFunctions returns the functions of dates for the expression language.
func dateFunctions() []cel.EnvOption {
	var all []cel.EnvOption
	for i := range dateWords {
		w := &dateWords[i]
		args := []*cel.Type{w.of}
		if w.arg != nil {
			args = append(args, w.arg)
		}
		call := cel.FunctionBinding(w.call)
		all = append(all, cel.Function(w.name,
			cel.Overload(w.name+"_utc", args, w.result, call),
			cel.Overload(w.name+"_zone", append(append([]*cel.Type{}, args...), cel.StringType), w.result, call)))
	}
	return all
}

// call implements the function in CEL. For arguments that are not literals, it only checks the types.
func (w *dateWord) call(args ...celref.Val) celref.Val {
	loc, own := time.UTC, 1
	if w.arg != nil {
		own = 2
	}
	if len(args) > own {
		var err error
		if loc, err = zoneOf(string(args[own].(types.String))); err != nil {
			return types.NewErr("%s: %v", w.name, err)
		}
	}
	var arg celref.Val
	if w.arg != nil {
		arg = args[1]
	}
	v, err := w.do(args[0], arg, loc)
	if err == nil {
		if t, ok := v.(types.Timestamp); ok && (t.UTC().Year() < 1 || t.UTC().Year() > 9999) {
			err = fmt.Errorf("the result is not within the years 1 to 9999")
		}
	}
	if err != nil {
		return types.NewErr("%s: %v", w.name, err)
	}
	return v
}

// checkDateCall checks the literal arguments of a date function: the layout, the unit and the zone. args has
// their texts, with "" for arguments that are computed at run time.
func checkDateCall(name string, args []string) error {
	for i := range dateWords {
		w := &dateWords[i]
		if w.name != name {
			continue
		}
		own := 1
		if w.arg != nil {
			own = 2
		}
		if w.literal != nil && len(args) >= own && args[own-1] != "" {
			if err := w.literal(args[own-1]); err != nil {
				return err
			}
		}
		if len(args) == own+1 && args[own] != "" {
			_, err := zoneOf(args[own])
			return err
		}
	}
	return nil
}

func zoneOf(name string) (*time.Location, error) {
	loc, err := cron.LoadZone(name)
	var bad *cron.Error
	if errors.As(err, &bad) {
		return nil, fmt.Errorf("%s; %s", bad.Reason, bad.Hint)
	}
	return loc, err
}

func instantOf(v celref.Val) time.Time { return v.(types.Timestamp).Time }

// day is a calendar day with a time of day, as on a wall clock.
type day struct {
	y     int
	m     time.Month
	d     int
	clock time.Duration
}

// onCalendar moves an instant by the calendar. The wall clock shows the same time after the move.
func onCalendar(t time.Time, loc *time.Location, move func(day) day) (celref.Val, error) {
	t = t.In(loc)
	y, m, d := t.Date()
	at, err := onClock(move(day{y, m, d, clockOf(t)}), loc)
	return types.Timestamp{Time: at}, err
}

func clockOf(t time.Time) time.Duration {
	return time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute + time.Duration(t.Second())*time.Second + time.Duration(t.Nanosecond())
}

// onClock returns the instant at which the clocks of a zone show a day and time. If they show it twice, it
// returns the first instant. If they never show it, it returns the instant of the change. Schedules do the
// same.
func onClock(d day, loc *time.Location) (time.Time, error) {
	wall := time.Date(d.y, d.m, d.d, 0, 0, 0, 0, time.UTC).Add(d.clock)
	if wall.Year() < 1 || wall.Year() > 9999 {
		return wall, fmt.Errorf("the result is not within the years 1 to 9999")
	}
	_, before := wall.Add(-daySeconds * time.Second).In(loc).Zone()
	_, after := wall.Add(daySeconds * time.Second).In(loc).Zone()
	for _, off := range []int{max(before, after), min(before, after)} { // try the earlier instant first
		at := wall.Add(-time.Duration(off) * time.Second)
		if _, is := at.In(loc).Zone(); is == off {
			return at, nil
		}
	}
	early, late := wall.Unix()-int64(max(before, after)), wall.Unix()-int64(min(before, after))
	for early+1 < late { // the change is between these two instants
		mid := early + (late-early)/2
		if _, off := time.Unix(mid, 0).In(loc).Zone(); off == before {
			early = mid
		} else {
			late = mid
		}
	}
	return time.Unix(late, 0).UTC(), nil
}

var units = []string{"hour", "day", "week", "month", "quarter", "year"}

func checkUnit(unit string) error {
	for _, u := range units {
		if u == unit {
			return nil
		}
	}
	return fmt.Errorf("%s is not a unit of the calendar: write %s", quoteShort(unit), strings.Join(units, ", "))
}

// startOf returns the beginning of the hour, day, week (Monday), month, quarter or year of an instant, moved
// forward by more such units.
func startOf(t time.Time, unit string, loc *time.Location, more int) (time.Time, error) {
	if err := checkUnit(unit); err != nil {
		return t, err
	}
	t = t.In(loc)
	y, m, d := t.Date()
	switch unit {
	case "hour":
		into := clockOf(t) % time.Hour
		return t.Add(time.Duration(more)*time.Hour - into).UTC(), nil
	case "day":
		d += more
	case "week":
		d += 7*more - (int(t.Weekday())+6)%7
	case "month":
		m, d = m+time.Month(more), 1
	case "quarter":
		m, d = m-(m-1)%3+time.Month(3*more), 1
	case "year":
		y, m, d = y+more, 1, 1
	}
	return onClock(day{y, m, d, 0}, loc)
}

// signs maps the placeholders of format to layouts of package time. The placeholders are those of date(1).
var signs = map[byte]string{
	'Y': "2006", 'y': "06", 'm': "01", 'd': "02", 'e': "_2", 'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM",
	'j': "002", 'b': "Jan", 'B': "January", 'a': "Mon", 'A': "Monday", 'F': "2006-01-02", 'T': "15:04:05", 'R': "15:04",
	'z': "-0700", 'Z': "MST",
}

// checkLayout returns an error if a layout is invalid.
func checkLayout(layout string) error {
	_, err := formatTime(time.Unix(0, 0).UTC(), layout)
	return err
}

// formatTime writes a time by a layout such as %Y-%m-%d.
func formatTime(t time.Time, layout string) (string, error) {
	if len(layout) > layoutBytesMax {
		return "", fmt.Errorf("the layout is longer than %d bytes", layoutBytesMax)
	}
	var b strings.Builder
	for i := 0; i < len(layout); i++ {
		if layout[i] != '%' {
			b.WriteByte(layout[i])
			continue
		}
		if i++; i == len(layout) {
			return "", fmt.Errorf("the layout %s ends in the middle of a sign: write %%%% for a percent sign", quoteShort(layout))
		}
		year, week := t.ISOWeek()
		switch c := layout[i]; {
		case c == '%':
			b.WriteByte('%')
		case c == 's':
			b.WriteString(strconv.FormatInt(t.Unix(), 10))
		case c == 'G':
			fmt.Fprintf(&b, "%04d", year)
		case c == 'V':
			fmt.Fprintf(&b, "%02d", week)
		case c == 'u':
			b.WriteString(strconv.Itoa((int(t.Weekday())+6)%7 + 1))
		case signs[c] != "":
			b.WriteString(t.Format(signs[c]))
		default:
			return "", fmt.Errorf("the layout %s contains %s, which is not known: write signs such as %%Y %%m %%d %%H %%M %%S", quoteShort(layout), quoteShort("%"+string(rune(c))))
		}
	}
	return b.String(), nil
}
