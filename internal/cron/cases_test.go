package cron

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func parse(t testing.TB, text string, o Options) *Schedule {
	t.Helper()
	s, err := Parse(text, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func instant(t testing.TB, s string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// chain returns the instants after from and before to, in UTC.
func chain(t testing.TB, s *Schedule, from, to string) string {
	t.Helper()
	var all []string
	end := instant(t, to)
	for at, ok := s.Next(instant(t, from)); ok && at.Before(end); at, ok = s.Next(at) {
		if len(all) == 50 {
			t.Fatal("too many instants")
		}
		all = append(all, at.UTC().Format("01-02T15:04:05"))
	}
	return strings.Join(all, " ")
}

// TestHardCases checks clock changes that schedulers are known to get wrong. The expected instants were
// computed by hand. Sources: the tz database (europe, asia, australasia, …), checked against zdump. All years
// are in the past, because governments change their minds (Cuba in autumn 2026), and the zone data come with
// the tool chain.
func TestHardCases(t *testing.T) {
	for _, c := range []struct {
		name, text, zone string
		gap              Gap
		repeat           Repeat
		from, to, want   string
	}{
		{"New York, spring 2026: 02:30 runs at 03:00", "30 2 * * *", "America/New_York", RunAfter, Once,
			"2026-03-07T12:00:00Z", "2026-03-10T00:00:00Z", "03-08T07:00:00 03-09T06:30:00"},
		{"… is skipped", "30 2 * * *", "America/New_York", SkipGap, Once,
			"2026-03-07T12:00:00Z", "2026-03-10T00:00:00Z", "03-09T06:30:00"},
		{"… runs at 01:59", "30 2 * * *", "America/New_York", RunBefore, Once,
			"2026-03-07T12:00:00Z", "2026-03-10T00:00:00Z", "03-08T06:59:00 03-09T06:30:00"},
		{"… runs at 01:59:59", "0 30 2 * * *", "America/New_York", RunBefore, Once,
			"2026-03-07T12:00:00Z", "2026-03-10T00:00:00Z", "03-08T06:59:59 03-09T06:30:00"},
		{"several missing times are one instant, 03:00 itself too", "*/15 2,3 * * *", "America/New_York", RunAfter, Once,
			"2026-03-08T05:00:00Z", "2026-03-08T08:00:00Z", "03-08T07:00:00 03-08T07:15:00 03-08T07:30:00 03-08T07:45:00"},
		{"New York, autumn 2026: 01:30 once", "30 1 * * *", "America/New_York", RunAfter, Once,
			"2026-11-01T00:00:00Z", "2026-11-02T00:00:00Z", "11-01T05:30:00"},
		{"… the second time", "30 1 * * *", "America/New_York", RunAfter, Second,
			"2026-11-01T00:00:00Z", "2026-11-02T00:00:00Z", "11-01T06:30:00"},
		{"… both times", "30 1 * * *", "America/New_York", RunAfter, Both,
			"2026-11-01T00:00:00Z", "2026-11-02T00:00:00Z", "11-01T05:30:00 11-01T06:30:00"},
		{"hourly follows elapsed time in autumn", "30 * * * *", "America/New_York", SkipGap, Once,
			"2026-11-01T05:00:00Z", "2026-11-01T08:00:00Z", "11-01T05:30:00 11-01T06:30:00 11-01T07:30:00"},
		{"… and in spring", "30 */1 * * *", "America/New_York", RunAfter, Once,
			"2026-03-08T06:00:00Z", "2026-03-08T09:00:00Z", "03-08T06:30:00 03-08T07:30:00 03-08T08:30:00"},
		{"Lord Howe: half an hour is missing", "15 2 * * *", "Australia/Lord_Howe", RunAfter, Once,
			"2026-10-03T12:00:00Z", "2026-10-04T00:00:00Z", "10-03T15:30:00"},
		{"Lord Howe: half an hour comes twice", "45 1 * * *", "Australia/Lord_Howe", RunAfter, Both,
			"2026-04-04T00:00:00Z", "2026-04-05T00:00:00Z", "04-04T14:45:00 04-04T15:15:00"},
		{"Beirut: midnight is missing", "0 0 * * *", "Asia/Beirut", RunAfter, Once,
			"2026-03-28T12:00:00Z", "2026-03-30T00:00:00Z", "03-28T22:00:00 03-29T21:00:00"},
		{"… run before is the day before", "0 0 * * *", "Asia/Beirut", RunBefore, Once,
			"2026-03-28T12:00:00Z", "2026-03-29T12:00:00Z", "03-28T21:59:00"},
		{"Cairo: midnight of a Friday is missing", "0 0 * * fri", "Africa/Cairo", RunAfter, Once,
			"2026-04-20T00:00:00Z", "2026-04-30T00:00:00Z", "04-23T22:00:00"},
		{"Havana: midnight is missing", "0 0 * * *", "America/Havana", RunAfter, Once,
			"2026-03-07T12:00:00Z", "2026-03-08T12:00:00Z", "03-08T05:00:00"},
		{"Havana: midnight comes twice", "0 0 * * *", "America/Havana", RunAfter, Both,
			"2025-11-01T12:00:00Z", "2025-11-02T12:00:00Z", "11-02T04:00:00 11-02T05:00:00"},
		{"São Paulo 2018: midnight is missing", "0 0 * * *", "America/Sao_Paulo", RunAfter, Once,
			"2018-11-03T12:00:00Z", "2018-11-04T12:00:00Z", "11-04T03:00:00"},
		{"São Paulo 2019: 23:30 of Saturday comes twice", "30 23 * * *", "America/Sao_Paulo", RunAfter, Second,
			"2019-02-16T12:00:00Z", "2019-02-17T12:00:00Z", "02-17T02:30:00"},
		{"Samoa 2011: a whole day is missing", "0 6,18 * * *", "Pacific/Apia", RunAfter, Once,
			"2011-12-29T12:00:00Z", "2011-12-31T12:00:00Z", "12-29T16:00:00 12-30T04:00:00 12-30T10:00:00 12-30T16:00:00 12-31T04:00:00"},
		{"… skipped", "0 6 30 12 *", "Pacific/Apia", SkipGap, Once,
			"2011-12-01T00:00:00Z", "2012-12-01T00:00:00Z", ""},
		{"Kwajalein 1993: 21 August is missing", "0 12 21 8 *", "Pacific/Kwajalein", RunAfter, Once,
			"1993-01-01T00:00:00Z", "1994-01-01T00:00:00Z", "08-21T12:00:00"},
		{"Caracas 2007: half an hour comes twice for good", "45 2 * * *", "America/Caracas", RunAfter, Both,
			"2007-12-09T00:00:00Z", "2007-12-10T00:00:00Z", "12-09T06:45:00 12-09T07:15:00"},
		{"Caracas 2016: half an hour is missing", "45 2 * * *", "America/Caracas", RunAfter, Once,
			"2016-05-01T00:00:00Z", "2016-05-02T00:00:00Z", "05-01T07:00:00"},
		{"Pyongyang 2018: half an hour before midnight is missing", "45 23 * * *", "Asia/Pyongyang", RunAfter, Once,
			"2018-05-04T00:00:00Z", "2018-05-05T00:00:00Z", "05-04T15:00:00"},
		{"Volgograd 2018 changes its standard time", "30 2 * * *", "Europe/Volgograd", RunAfter, Once,
			"2018-10-27T12:00:00Z", "2018-10-28T12:00:00Z", "10-27T23:00:00"},
		{"Troll: two hours are missing", "30 1,2 * * *", "Antarctica/Troll", RunAfter, Once,
			"2026-03-28T12:00:00Z", "2026-03-29T12:00:00Z", "03-29T01:00:00"},
		{"Dublin: summer is standard time", "30 1 * * *", "Europe/Dublin", RunAfter, Once,
			"2026-03-28T12:00:00Z", "2026-03-29T12:00:00Z", "03-29T01:00:00"},
		{"Casablanca: Ramadan 2026", "30 2 * * *", "Africa/Casablanca", RunAfter, Both,
			"2026-02-14T12:00:00Z", "2026-02-15T12:00:00Z", "02-15T01:30:00 02-15T02:30:00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := parse(t, c.text, Options{Zone: c.zone, Gap: c.gap, Repeat: c.repeat})
			if got := chain(t, s, c.from, c.to); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestDays checks the special forms of the day fields against printed calendars.
func TestDays(t *testing.T) {
	for _, c := range []struct{ text, from, to, want string }{
		{"0 0 L 2 *", "2027-01-01T00:00:00Z", "2029-01-01T00:00:00Z", "02-28T00:00:00 02-29T00:00:00"},
		{"0 0 L-3 1 *", "2027-01-01T00:00:00Z", "2027-12-31T00:00:00Z", "01-28T00:00:00"},
		{"0 0 LW 1,2 *", "2027-01-01T00:00:00Z", "2027-12-31T00:00:00Z", "01-29T00:00:00 02-26T00:00:00"},
		{"0 0 15W 5,8 *", "2027-01-01T00:00:00Z", "2027-12-31T00:00:00Z", "05-14T00:00:00 08-16T00:00:00"},
		{"0 0 1W 5,8 *", "2027-01-01T00:00:00Z", "2027-12-31T00:00:00Z", "05-03T00:00:00 08-02T00:00:00"},
		{"0 0 31W 1,4,10 *", "2027-01-01T00:00:01Z", "2027-12-31T00:00:00Z", "01-29T00:00:00 10-29T00:00:00"},
		{"0 0 * 1 5L", "2027-01-01T00:00:00Z", "2027-12-31T00:00:00Z", "01-29T00:00:00"},
		{"0 0 ? 1 fri#3", "2027-01-01T00:00:00Z", "2027-12-31T00:00:00Z", "01-15T00:00:00"},
		{"0 0 * * 5#5", "2027-01-01T00:00:00Z", "2027-06-01T00:00:00Z", "01-29T00:00:00 04-30T00:00:00"},
		{"0 0 13 1 5", "2027-01-01T00:00:00Z", "2027-02-01T00:00:00Z", "01-08T00:00:00 01-13T00:00:00 01-15T00:00:00 01-22T00:00:00 01-29T00:00:00"},
		{"0 0 */2 1 fri", "2027-01-01T00:00:00Z", "2027-02-01T00:00:00Z", "01-15T00:00:00 01-29T00:00:00"},
		{"0 0 29 2 *", "2096-01-01T00:00:00Z", "2105-01-01T00:00:00Z", "02-29T00:00:00 02-29T00:00:00"},
		{"0 0 1 1 7", "2027-01-01T00:00:00Z", "2027-01-11T00:00:00Z", "01-03T00:00:00 01-10T00:00:00"},
		{"0 0 * 1 fri-mon", "2027-01-03T00:00:00Z", "2027-01-11T00:00:00Z", "01-04T00:00:00 01-08T00:00:00 01-09T00:00:00 01-10T00:00:00"},
		{"0 0 * 1 5-7", "2027-01-03T00:00:00Z", "2027-01-11T00:00:00Z", "01-08T00:00:00 01-09T00:00:00 01-10T00:00:00"},
		{"0 22-2/2 1 1 *", "2026-12-31T23:00:00Z", "2027-01-03T00:00:00Z", "01-01T00:00:00 01-01T02:00:00 01-01T22:00:00"},
		{"0 12 31 12 ? ", "2199-01-01T00:00:00Z", "2200-06-01T00:00:00Z", "12-31T12:00:00"},
		{"5/15 1/6 1 1 *", "2027-01-01T00:00:00Z", "2027-01-01T08:00:00Z", "01-01T01:05:00 01-01T01:20:00 01-01T01:35:00 01-01T01:50:00 01-01T07:05:00 01-01T07:20:00 01-01T07:35:00 01-01T07:50:00"},
		{"15 30 6 1 1 ? 2028,2030", "2027-01-01T00:00:00Z", "2199-01-01T00:00:00Z", "01-01T06:30:15 01-01T06:30:15"},
		{"@yearly", "2027-06-01T00:00:00Z", "2029-06-01T00:00:00Z", "01-01T00:00:00 01-01T00:00:00"},
		{"@WEEKLY", "2027-06-01T00:00:00Z", "2027-06-10T00:00:00Z", "06-06T00:00:00"},
		{"@every 36h", "1970-01-01T00:00:00Z", "1970-01-05T00:00:00Z", "01-02T12:00:00 01-04T00:00:00"},
	} {
		if got := chain(t, parse(t, c.text, Options{}), c.from, c.to); got != c.want {
			t.Errorf("%s\ngot  %s\nwant %s", c.text, got, c.want)
		}
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		text  string
		kind  error
		field string
		pos   int
		says  string
	}{
		{"", ErrBad, "", 0, "there is no expression"},
		{"   ", ErrBad, "", 0, "there is no expression"},
		{"* * * *", ErrBad, "", 0, "4 fields"},
		{" * * * * * * * *", ErrBad, "", 1, "8 fields"},
		{"*/0 * * * *", ErrBad, "minute", 0, "a step cannot be 0"},
		{"*/90 * * * *", ErrBad, "minute", 0, "@every 90m"},
		{"*/x * * * *", ErrBad, "minute", 0, "is not a number"},
		{"61 * * * *", ErrBad, "minute", 0, "61 is out of range"},
		{"0 24 * * *", ErrBad, "hour", 2, "write 0 to 23"},
		{"0 0 32 * *", ErrBad, "day of month", 4, "32 is out of range"},
		{"0 0 * 13 *", ErrBad, "month", 6, "1 to 12 or jan to dec"},
		{"0 0 * * 8", ErrBad, "day of week", 8, "0 and 7 are Sunday"},
		{"50-10 * * * *", ErrBad, "minute", 0, "write 10-50, or 50-59,0-10"},
		{"1,,2 * * * *", ErrBad, "minute", 2, "an item of the list is empty"},
		{"1,2, * * * *", ErrBad, "minute", 4, "an item of the list is empty"},
		{"0 0 * * mon,foo", ErrBad, "day of week", 12, `"foo" is not a value`},
		{"1- * * * *", ErrBad, "minute", 0, "a value is missing"},
		{"-1 * * * *", ErrBad, "minute", 0, "a value is missing"},
		{"? * * * *", ErrBad, "minute", 0, "? is for the two day fields"},
		{"0 0 1,? * *", ErrBad, "day of month", 6, "? cannot be part of a list"},
		{"0 0 * * L", ErrBad, "day of week", 8, "6L for the last Saturday"},
		{"0 0 * * 5#6", ErrBad, "day of week", 8, "write #1 to #5"},
		{"0 0 5#3 * *", ErrBad, "day of month", 4, "belongs to the day of the week"},
		{"0 0 L-31 * *", ErrBad, "day of month", 4, "is not a day"},
		{"L 0 * * *", ErrBad, "minute", 0, "for days only"},
		{"H(5 * * * *", ErrBad, "minute", 0, "H(LOW-HIGH)"},
		{"0 0 0 1 1 ? 9999", ErrBad, "year", 12, "write 1970 to 2199"},
		{"0 0 0 1 1 ? H", ErrBad, "year", 12, "H has no meaning"},
		{"@fortnightly", ErrBad, "", 0, "is unknown"},
		{"@daily 5", ErrBad, "", 7, "write it alone"},
		{"@every", ErrBad, "every", 0, "one duration"},
		{"@every soon", ErrBad, "every", 7, "is not a duration"},
		{"@every 10ms", ErrBad, "every", 7, "whole number of seconds"},
		{"@reboot", ErrReboot, "", 0, "not a time"},
		{"CRON_TZ= * * * * *", ErrBad, "zone", 0, "the zone is empty"},
		{"CRON_TZ=berlin * * * * *", ErrBad, "zone", 0, "Europe/Berlin"},
		{"TZ=Local * * * * *", ErrBad, "zone", 0, "machines differ"},
		{"TZ=+02:00 * * * * *", ErrBad, "zone", 0, "Etc/GMT-2"},
		{"TZ=../../etc/passwd * * * * *", ErrBad, "zone", 0, "there is no time zone"},
		{strings.Repeat("1,", 600) + "1 * * * *", ErrBad, "", 0, "use at most 1,000"},
		{"0 0 30 2 *", ErrImpossible, "day of month", 4, "February never has a 30th"},
		{"0 0 31 4,6 *", ErrImpossible, "day of month", 4, "April and June never have a 31st"},
		{"0 0 0 29 2 ? 2027", ErrImpossible, "day of month", 6, "no day is the 29th in February in 2027"},
		{"0 0 L-30 2 *", ErrImpossible, "day of month", 4, "no day is"},
	} {
		_, err := Parse(c.text, Options{})
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		if !errors.Is(err, c.kind) || e.Field != c.field || e.Pos != c.pos || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: kind %v, field %q, pos %d: %v", c.text, e.kind, e.Field, e.Pos, err)
		}
		for _, k := range []error{ErrBad, ErrImpossible, ErrReboot} {
			if k != c.kind && errors.Is(err, k) {
				t.Errorf("%q is also %v", c.text, k)
			}
		}
	}
	if _, err := Parse("CRON_TZ=Europe/Berlin * * * * *", Options{Zone: "UTC"}); err == nil || !strings.Contains(err.Error(), "one of the two places") {
		t.Errorf("two zones: %v", err)
	}
	if _, err := Parse("0 30 2 29 3 ? 2026", Options{Zone: "Europe/Berlin", Gap: SkipGap}); !errors.Is(err, ErrImpossible) || !strings.Contains(err.Error(), "clock change") {
		t.Errorf("a single time that does not exist: %v", err)
	}
}

func TestDescribe(t *testing.T) {
	for _, c := range [][3]string{
		{"15 2 * * *", "Europe/Berlin", "at 02:15 every day, Europe/Berlin"},
		{"*/5 * * * *", "", "every 5 minutes, UTC"},
		{"* * * * *", "", "every minute, UTC"},
		{"* * * * * *", "", "every second, UTC"},
		{"0 9,17 * * 1-5", "", "at 09:00 and 17:00 on Monday to Friday, UTC"},
		{"*/15 9-17 * * sat,sun", "", "every 15 minutes from 09:00 to 17:45 on Saturday and Sunday, UTC"},
		{"0 * * * *", "", "at minute 0 of every hour, UTC"},
		{"0 */2 1 * *", "", "at minute 0 of every 2nd hour on the 1st of every month, UTC"},
		{"0 0 LW 3,6-8 ?", "", "at 00:00 on the last workday in March and June to August, UTC"},
		{"0 0 1,15 * 1", "", "at 00:00 on the 1st and 15th, or on Monday, UTC"},
		{"0 0 0 ? * 5#3 2027-2029", "", "at 00:00 on the 3rd Friday in 2027 to 2029, UTC"},
		{"@every 1h30m", "", "every 1 hour and 30 minutes"},
		{"*/10 22-2 * * *", "", "every 10 minutes from 22:00 to 02:50 every day, UTC"},
	} {
		if got := parse(t, c[0], Options{Zone: c[1]}).Describe(); got != c[2] {
			t.Errorf("%s\ngot  %s\nwant %s", c[0], got, c[2])
		}
	}
}

func TestString(t *testing.T) {
	for _, c := range [][3]string{
		{" 015  2 ? JAN-mar Fri-sunday", "", "15 2 * 1-3 5-0"},
		{"0-7/1 0 L,15W,lw,L-2 * 7,fri#2,1l", "", "0-7/1 0 L,15W,LW,L-2 * 0,5#2,1L"},
		{"TZ=Europe/Berlin @daily", "", "CRON_TZ=Europe/Berlin 0 0 * * *"},
		{"@every 90m", "Europe/Berlin", "CRON_TZ=Europe/Berlin @every 1h30m"},
	} {
		if got := parse(t, c[0], Options{Zone: c[1]}).String(); got != c[2] {
			t.Errorf("%s\ngot  %s\nwant %s", c[0], got, c[2])
		}
	}
}

// TestHash: the same seed gives the same value on every machine, and different seeds give different values.
func TestHash(t *testing.T) {
	if got := parse(t, "H H(0-5) H * *", Options{Seed: "shop/nightly-orders/nightly"}).String(); got != hashedOnce {
		t.Errorf("the values of H moved: %s; every schedule with H would", got)
	}
	minutes := map[string]int{}
	for i := range 600 {
		s := parse(t, "H(10-29) * * * *", Options{Seed: fmt.Sprint("default/w", i)})
		m, _, _ := strings.Cut(s.String(), " ")
		minutes[m]++
	}
	if len(minutes) != 20 {
		t.Errorf("600 seeds hit %d of 20 minutes", len(minutes))
	}
	for m, n := range minutes {
		if n > 60 {
			t.Errorf("minute %s has %d of 600", m, n)
		}
	}
	if got := parse(t, "H/15 H/3 * * *", Options{Seed: "x"}); !got.parts[0].source.(*wall).elapsed {
		t.Error("H/3 is a step: it follows elapsed time")
	}
	if got := parse(t, "0 H * * *", Options{}); got.parts[0].source.(*wall).elapsed {
		t.Error("H is a fixed hour")
	}
}

// hashedOnce is the text that the first version of this package computed for H. It must not change.
const hashedOnce = "39 3 24 * *"

func TestForms(t *testing.T) {
	at := []Clock{{6, 0, 0}, {18, 30, 15}}
	o := Options{Zone: "Europe/Berlin"}
	daily, err1 := Daily(at, o)
	weekly, err2 := Weekly([]time.Weekday{time.Monday, time.Friday}, at[:1], o)
	monthly, err3 := Monthly([]int{1, -1}, at[:1], o)
	annually, err4 := Annually([]time.Month{2, 12}, []int{-1}, at[:1], o)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		s                         *Schedule
		from, to, want, text, say string
	}{
		{daily, "2027-01-01T12:00:00Z", "2027-01-02T12:00:00Z", "01-01T17:30:15 01-02T05:00:00",
			"CRON_TZ=Europe/Berlin @daily at=06:00,18:30:15", "at 06:00 and 18:30:15 every day, Europe/Berlin"},
		{weekly, "2027-01-01T12:00:00Z", "2027-01-09T12:00:00Z", "01-04T05:00:00 01-08T05:00:00",
			"CRON_TZ=Europe/Berlin @weekly dow=1,5 at=06:00", "at 06:00 on Monday and Friday, Europe/Berlin"},
		{monthly, "2027-01-01T12:00:00Z", "2027-03-01T12:00:00Z", "01-31T05:00:00 02-01T05:00:00 02-28T05:00:00 03-01T05:00:00",
			"CRON_TZ=Europe/Berlin @monthly day=1,-1 at=06:00", "at 06:00 on the 1st and the last day of every month, Europe/Berlin"},
		{annually, "2027-01-01T12:00:00Z", "2028-03-01T12:00:00Z", "02-28T05:00:00 12-31T05:00:00 02-29T05:00:00",
			"CRON_TZ=Europe/Berlin @annually month=2,12 day=-1 at=06:00", "at 06:00 on the last day in February and December, Europe/Berlin"},
	} {
		if got := chain(t, c.s, c.from, c.to); got != c.want {
			t.Errorf("%s\ngot  %s\nwant %s", c.s, got, c.want)
		}
		if c.s.String() != c.text || c.s.Describe() != c.say {
			t.Errorf("got %q, %q\nwant %q, %q", c.s, c.s.Describe(), c.text, c.say)
		}
	}
	if _, err := Annually([]time.Month{2}, []int{30}, at, o); !errors.Is(err, ErrImpossible) {
		t.Errorf("30 February: %v", err)
	}
	for _, f := range []func() error{
		func() error { _, err := Daily(nil, o); return err },
		func() error { _, err := Daily([]Clock{{24, 0, 0}}, o); return err },
		func() error { _, err := Weekly(nil, at, o); return err },
		func() error { _, err := Weekly([]time.Weekday{7}, at, o); return err },
		func() error { _, err := Monthly([]int{0}, at, o); return err },
		func() error { _, err := Annually([]time.Month{13}, []int{1}, at, o); return err },
		func() error { _, err := Every(time.Millisecond, time.Time{}); return err },
		func() error { _, err := Every(1500*time.Millisecond, time.Time{}); return err },
		func() error { _, err := At(); return err },
		func() error { _, err := At(time.Date(2500, 1, 1, 0, 0, 0, 0, time.UTC)); return err },
		func() error { _, err := At(time.Date(2027, 1, 1, 0, 0, 0, 5, time.UTC)); return err },
		func() error { _, err := Union(); return err },
		func() error { _, err := ParseGap("run-after"); return err },
		func() error { _, err := ParseRepeat("twice"); return err },
		func() error { _, err := Daily(at, Options{Zone: "Mars/Olympus"}); return err },
	} {
		if err := f(); !errors.Is(err, ErrBad) {
			t.Errorf("%v is not ErrBad", err)
		}
	}
}

func TestParseClock(t *testing.T) {
	for text, want := range map[string]string{"06:00": "06:00", "6:30": "06:30", "23:59:59": "23:59:59", " 00:00 ": "00:00"} {
		if c, err := ParseClock(text); err != nil || c.String() != want {
			t.Errorf("%q: %v, %v", text, c, err)
		}
	}
	for _, text := range []string{"", "6", "24:00", "06:60", "06:5", "06:00:60", "a:b", "006:00", "06:00:00:00", "-6:00"} {
		if c, err := ParseClock(text); err == nil {
			t.Errorf("%q is %v", text, c)
		}
	}
}

func TestShifts(t *testing.T) {
	s := parse(t, "30 1,2 * * *", Options{Zone: "America/New_York"})
	from, to := instant(t, "2026-01-01T00:00:00Z"), instant(t, "2027-01-01T00:00:00Z")
	var got []string
	for _, x := range s.Shifts(from, to) {
		got = append(got, fmt.Sprintf("%s %v→%v %s", x.At.UTC().Format("01-02T15:04"), x.From, x.To, x.Effect))
	}
	want := []string{
		"03-08T07:00 -5h0m0s→-4h0m0s 2026-03-08 02:30:00 does not exist: fires after the change, at 2026-03-08T03:00:00-04:00",
		"11-01T06:00 -4h0m0s→-5h0m0s 2026-11-01 01:30:00 comes twice: fires the first time, at 2026-11-01T01:30:00-04:00",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	for _, text := range []string{"0 12 * * *", "@every 1h"} {
		if got := parse(t, text, Options{Zone: "America/New_York"}).Shifts(from, to); len(got) != 0 {
			t.Errorf("%s: %v", text, got)
		}
	}
	if got := parse(t, "0 * * * *", Options{Zone: "America/New_York"}).Shifts(from, to); len(got) != 2 || !strings.Contains(got[1].Effect, "elapsed") {
		t.Errorf("hourly: %v", got)
	}
}

// TestLimits checks distant instants, open ends and fractions of a second.
func TestLimits(t *testing.T) {
	s := parse(t, "* * * * * *", Options{})
	if at, ok := s.Next(time.Time{}); !ok || at.Unix() != 0 {
		t.Errorf("first: %v, %v", at, ok)
	}
	if at, ok := s.Prev(time.Unix(1<<60, 0)); !ok || at.Unix() != secondMax-1 {
		t.Errorf("last: %v, %v", at, ok)
	}
	if at, ok := s.Next(time.Unix(1<<60, 0)); ok {
		t.Errorf("after the end: %v", at)
	}
	if at, ok := s.Prev(time.Unix(0, 0)); ok {
		t.Errorf("before the beginning: %v", at)
	}
	if at, _ := s.Next(time.Unix(99, 5)); at.Unix() != 100 {
		t.Errorf("Next in the middle of a second: %v", at)
	}
	if at, _ := s.Prev(time.Unix(99, 5)); at.Unix() != 99 {
		t.Errorf("Prev in the middle of a second: %v", at)
	}
	if n := s.Count(time.Unix(99, 5), time.Unix(101, 5)); n != 2 {
		t.Errorf("Count in the middle of seconds: %d", n)
	}
	if n := s.Count(time.Unix(200, 0), time.Unix(100, 0)); n != 0 {
		t.Errorf("Count backwards: %d", n)
	}
	if n := s.Count(time.Time{}, time.Unix(1<<60, 0)); n != secondMax {
		t.Errorf("all: %d", n)
	}
	none, err := Days()
	if err != nil {
		t.Fatal(err)
	}
	if at, ok := s.On(none, nil).Next(time.Unix(0, 0)); ok {
		t.Errorf("no day: %v", at)
	}
	ends := s.Between(time.Time{}, time.Unix(1000, 0))
	if at, ok := ends.Next(time.Unix(999, 0)); !ok || at.Unix() != 1000 {
		t.Errorf("the end is included: %v, %v", at, ok)
	}
	if at, ok := ends.Next(time.Unix(1000, 0)); ok {
		t.Errorf("past the end: %v", at)
	}
}

// TestLastDayOfLeapYears: on 31 December of leap years package time returns a wrong end of a span: see
// zone.at.
func TestLastDayOfLeapYears(t *testing.T) {
	for _, name := range []string{"Europe/Berlin", "America/New_York", "Australia/Sydney"} {
		for _, text := range []string{"30 2 * * *", "30 * * * *"} {
			s := parse(t, text, Options{Zone: name, Repeat: Second})
			for _, year := range []int{2040, 2044, 2096, 2104} {
				from := time.Date(year, 12, 25, 0, 0, 0, 0, time.UTC)
				want := int64(10)
				if text == "30 * * * *" {
					want = 240
				}
				n := int64(0)
				for at, ok := s.Next(from); ok && !at.After(from.AddDate(0, 0, 10)); at, ok = s.Next(at) {
					n++
				}
				if c := s.Count(from, from.AddDate(0, 0, 10)); c != want || n != want {
					t.Errorf("%s in %s, %d: counted %d, walked %d, want %d", text, name, year, c, n, want)
				}
			}
		}
	}
}
