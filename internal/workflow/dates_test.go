package workflow

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	celref "github.com/google/cel-go/common/types/ref"

	"skein.dev/skein/internal/cron"
)

// evaluate returns the value of an expression at an instant, as text.
func evaluate(t *testing.T, source, at string) string {
	t.Helper()
	x, faults := (*declarations)(nil).compile(source, inTask)
	if len(faults) > 0 {
		return "refused: " + faults[0].Error()
	}
	instant, err := time.Parse(time.RFC3339, at)
	if err != nil {
		t.Fatal(err)
	}
	from := values{at: instant, params: []byte(`{"day":"2024-02-29","zone":"Europe/Berlin","n":-1,"unit":"fortnight","big":99999999}`)}
	v, err := x.run(func(r ref) celref.Val { return from.lookup(r) })
	if err != nil {
		return "error: " + err.Error()
	}
	text, err := render(v)
	if err != nil {
		return "error: " + err.Error()
	}
	return text
}

// The dates are in past years, because later decisions of governments do not change these.
func TestDates(t *testing.T) {
	for _, c := range []struct{ at, source, want string }{
		// Days, also over the clock changes of Berlin on 2021-03-28 and 2021-10-31.
		{"2021-03-27T23:30:00Z", "date(trigger.time)", "2021-03-27"},
		{"2021-03-27T23:30:00Z", "date(trigger.time, 'Europe/Berlin')", "2021-03-28"},
		{"2021-03-27T11:00:00Z", "addDays(trigger.time, 1, 'Europe/Berlin')", "2021-03-28T10:00:00Z"},
		{"2021-03-27T11:00:00Z", "addDays(trigger.time, 1)", "2021-03-28T11:00:00Z"},
		{"2021-03-27T11:00:00Z", "trigger.time + duration('24h')", "2021-03-28T11:00:00Z"},
		{"2021-03-27T01:30:00Z", "addDays(trigger.time, 1, 'Europe/Berlin')", "2021-03-28T01:00:00Z"}, // 02:30 is left out
		{"2021-10-30T00:30:00Z", "addDays(trigger.time, 1, 'Europe/Berlin')", "2021-10-31T00:30:00Z"}, // the first 02:30
		{"2021-11-01T01:30:00Z", "addDays(trigger.time, -1, 'Europe/Berlin')", "2021-10-31T00:30:00Z"},
		{"2021-10-31T12:00:00Z", "addDays(trigger.time, -400)", "2020-09-26T12:00:00Z"},
		{"2020-02-28T12:00:00.5Z", "addDays(trigger.time, 1)", "2020-02-29T12:00:00.5Z"},
		{"2021-02-28T12:00:00Z", "addDays(trigger.time, 1)", "2021-03-01T12:00:00Z"},
		{"2011-12-30T08:00:00Z", "date(addDays(trigger.time, 1, 'Pacific/Apia'), 'Pacific/Apia')", "2011-12-31"}, // 30 December was left out
		// Months. A day after the end of the month becomes the last day of the month.
		{"2021-01-31T12:00:00Z", "addMonths(trigger.time, 1)", "2021-02-28T12:00:00Z"},
		{"2020-01-31T12:00:00Z", "addMonths(trigger.time, 1)", "2020-02-29T12:00:00Z"},
		{"2020-02-29T12:00:00Z", "addMonths(trigger.time, 12)", "2021-02-28T12:00:00Z"},
		{"2020-02-29T12:00:00Z", "addMonths(trigger.time, 48)", "2024-02-29T12:00:00Z"},
		{"2000-02-29T12:00:00Z", "addMonths(trigger.time, -1200)", "1900-02-28T12:00:00Z"},
		{"2021-03-31T12:00:00Z", "addMonths(trigger.time, -1)", "2021-02-28T12:00:00Z"},
		{"2021-01-15T12:00:00Z", "addMonths(trigger.time, -1)", "2020-12-15T12:00:00Z"},
		{"2021-01-31T12:00:00Z", "addMonths(trigger.time, 0)", "2021-01-31T12:00:00Z"},
		// In Berlin it is 1 June.
		{"2021-05-31T22:30:00Z", "addMonths(trigger.time, 1, 'Europe/Berlin')", "2021-06-30T22:30:00Z"},
		// Beginnings and ends.
		{"2021-05-20T13:45:30Z", "startOf(trigger.time, 'hour')", "2021-05-20T13:00:00Z"},
		{"2021-05-20T13:45:30Z", "startOf(trigger.time, 'hour', 'Asia/Kolkata')", "2021-05-20T13:30:00Z"},
		{"2021-05-20T13:45:30Z", "startOf(trigger.time, 'day')", "2021-05-20T00:00:00Z"},
		{"2021-05-20T23:45:30Z", "startOf(trigger.time, 'day', 'Europe/Berlin')", "2021-05-20T22:00:00Z"},
		{"2021-05-20T13:45:30Z", "startOf(trigger.time, 'week')", "2021-05-17T00:00:00Z"},
		{"2021-05-23T23:59:59Z", "startOf(trigger.time, 'week')", "2021-05-17T00:00:00Z"}, // a Sunday
		{"2021-05-24T00:00:00Z", "startOf(trigger.time, 'week')", "2021-05-24T00:00:00Z"},
		{"2021-05-23T23:59:59Z", "startOf(trigger.time, 'week', 'Europe/Berlin')", "2021-05-23T22:00:00Z"},
		{"2021-05-20T13:45:30Z", "startOf(trigger.time, 'month')", "2021-05-01T00:00:00Z"},
		{"2021-05-20T13:45:30Z", "startOf(trigger.time, 'quarter')", "2021-04-01T00:00:00Z"},
		{"2021-12-31T13:45:30Z", "endOf(trigger.time, 'quarter')", "2021-12-31T23:59:59Z"},
		{"2021-05-20T13:45:30Z", "startOf(trigger.time, 'year')", "2021-01-01T00:00:00Z"},
		{"2021-05-20T13:45:30Z", "endOf(trigger.time, 'hour')", "2021-05-20T13:59:59Z"},
		{"2021-02-10T00:00:00Z", "date(endOf(trigger.time, 'month'))", "2021-02-28"},
		{"2020-02-10T00:00:00Z", "date(endOf(trigger.time, 'month'))", "2020-02-29"},
		{"1900-02-10T00:00:00Z", "date(endOf(trigger.time, 'month'))", "1900-02-28"},
		{"2021-05-20T13:45:30Z", "endOf(trigger.time, 'week')", "2021-05-23T23:59:59Z"},
		{"2021-03-28T12:00:00Z", "endOf(trigger.time, 'day', 'Europe/Berlin')", "2021-03-28T21:59:59Z"}, // a day of 23 hours
		{"2021-10-31T12:00:00Z", "startOf(trigger.time, 'day', 'Europe/Berlin')", "2021-10-30T22:00:00Z"},
		// The second 02:30.
		{"2021-10-31T01:30:00Z", "startOf(trigger.time, 'hour', 'Europe/Berlin')", "2021-10-31T01:00:00Z"},
		// This day had no midnight.
		{"2018-11-04T12:00:00Z", "startOf(trigger.time, 'day', 'America/Sao_Paulo')", "2018-11-04T03:00:00Z"},
		// The last day of the previous month.
		{"2021-03-01T00:00:00Z", "date(addDays(startOf(trigger.time, 'month'), -1))", "2021-02-28"},
		// The first day of the previous month.
		{"2021-03-01T00:00:00Z", "date(startOf(addMonths(trigger.time, -1), 'month'))", "2021-02-01"},
		{"2021-05-20T13:45:30Z", "date(addDays(startOf(trigger.time, 'week'), 4))", "2021-05-21"}, // Friday
		{"2021-05-20T13:45:30Z", "startOf(trigger.time, 'day') < trigger.time && trigger.time < endOf(trigger.time, 'day')", "true"},
		// Formats.
		{"2021-01-03T04:05:06Z", "format(trigger.time, '%Y%m%d %y %e %H:%M:%S %j')", "20210103 21  3 04:05:06 003"},
		{"2021-01-03T04:05:06Z", "format(trigger.time, '%F %T %R %I%p %a %A %b %B %u')", "2021-01-03 04:05:06 04:05 04AM Sun Sunday Jan January 7"},
		{"2021-01-03T04:05:06Z", "format(trigger.time, '%G-W%V %s 100%%')", "2020-W53 1609646706 100%"},
		{"2021-07-03T22:05:06Z", "format(trigger.time, '%d.%m.%Y %H:%M %z %Z', 'Europe/Berlin')", "04.07.2021 00:05 +0200 CEST"},
		{"2021-07-03T22:05:06Z", "format(trigger.time, 'plain, ünïcode 2006')", "plain, ünïcode 2006"},
		// From texts.
		{"2021-07-03T22:05:06Z", "date(addDays(parseDate(params.day), 1))", "2024-03-01"},
		{"2021-07-03T22:05:06Z", "parseDate('2021-03-28', 'Europe/Berlin')", "2021-03-27T23:00:00Z"},
		{"2021-07-03T22:05:06Z", "addDays(trigger.time, params.n, params.zone)", "2021-07-02T22:05:06Z"},
		// Invalid arguments, as far as they are literals when the file is read.
		{"2021-07-03T22:05:06Z", "date(trigger.time, 'Europe/Berln')", `refused: date: there is no time zone "Europe/Berln"; did you mean Europe/Berlin?`},
		{"2021-07-03T22:05:06Z", "addDays(trigger.time, 1, 'Local')", `refused: addDays: there is no time zone "Local"`},
		{"2021-07-03T22:05:06Z", "startOf(trigger.time, 'weeks')", `refused: startOf: "weeks" is not a unit of the calendar: write hour, day, week, month, quarter, year`},
		{"2021-07-03T22:05:06Z", "format(trigger.time, '%Q')", `refused: format: the layout "%Q" contains "%Q", which is not known`},
		{"2021-07-03T22:05:06Z", "format(trigger.time, '100%')", "refused: format: the layout"},
		{"2021-07-03T22:05:06Z", "format(trigger.time, '" + strings.Repeat("x", 300) + "')", "refused: format: the layout is longer than 256 bytes"},
		{"2021-07-03T22:05:06Z", "addDay(trigger.time, 1)", `refused: the function "addDay" is not known (did you mean addDays()?)`},
		{"2021-07-03T22:05:06Z", "addDays('2021-01-01', 1)", "refused: addDays cannot be used with string, int"},
		{"2021-07-03T22:05:06Z", "startOf(trigger.time, params.unit)", `error: startOf: "fortnight" is not a unit`},
		{"2021-07-03T22:05:06Z", "date(trigger.time, params.unit)", `error: date: there is no time zone "fortnight"`},
		{"2021-07-03T22:05:06Z", "parseDate('2021-02-29')", `error: parseDate: "2021-02-29" is not a day such as 2027-01-31`},
		{"2021-07-03T22:05:06Z", "addDays(trigger.time, params.big)", "error: addDays: addDays counts at most"},
		{"2021-07-03T22:05:06Z", "addDays(trigger.time, 4000000)", "error: addDays: the result is not within the years 1 to 9999"},
		{"2021-07-03T22:05:06Z", "addMonths(trigger.time, -120000)", "error: addMonths: the result is not within the years 1 to 9999"},
		{"9999-12-31T22:05:06Z", "endOf(trigger.time, 'day')", "error: endOf: the result is not within the years"},
		{"2021-07-03T22:05:06Z", "addDays(params.day, 1)", "error: no such overload"},
	} {
		got := evaluate(t, c.source, c.at)
		if got != c.want && !((strings.HasPrefix(c.want, "error: ") || strings.HasPrefix(c.want, "refused: ")) && strings.HasPrefix(got, c.want)) {
			t.Errorf("%s at %s is %s, want %s", c.source, c.at, got, c.want)
		}
	}
}

// TestDatesHold checks, in every zone and for any instant, that startOf is not after the instant, that
// startOf of a start is that start, that the next start is after the instant, and that a move by one day
// takes at most 49 hours.
func TestDatesHold(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, name := range []string{"UTC", "Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Pacific/Apia", "Australia/Lord_Howe", "Asia/Kathmandu", "Africa/Casablanca", "Europe/Dublin"} {
		loc, err := cron.LoadZone(name)
		if err != nil {
			t.Fatal(err)
		}
		for range 2000 {
			at := time.Unix(r.Int64N(1_700_000_000), 0).UTC()
			for _, unit := range units {
				from, err := startOf(at, unit, loc, 0)
				until, bad := startOf(at, unit, loc, 1)
				again, worse := startOf(from, unit, loc, 0)
				if err != nil || bad != nil || worse != nil {
					t.Fatal(err, bad, worse)
				}
				if from.After(at) || !until.After(at) || !again.Equal(from) {
					t.Fatalf("%s %s of %s: from %s until %s, again %s", name, unit, at, from, until, again)
				}
			}
			forth, err := onCalendar(at, loc, func(d day) day { d.d++; return d })
			if err != nil {
				t.Fatal(err)
			}
			gone := instantOf(forth).Sub(at)
			if gone < 0 || gone > 49*time.Hour {
				t.Fatalf("%s: a day after %s is %s", name, at, instantOf(forth))
			}
		}
	}
}
