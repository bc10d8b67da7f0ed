package crontab

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/cron"
)

// TestWhen checks the conversion of expressions, zones and policies.
func TestWhen(t *testing.T) {
	for _, c := range []struct{ line, cron, zone, repeat string }{
		{"0 2 * * *", "0 2 * * *", "Europe/Berlin", "once"},
		{"*/10 2 * * *", "*/10 2 * * *", "Europe/Berlin", "both"},   // cron treats it as a wildcard because the minutes begin with *
		{"*/10 12 * * *", "*/10 12 * * *", "Europe/Berlin", "once"}, // no clock changes at noon
		{"0 1-23/2 * * *", "0 1-23/2 * * *", "Europe/Berlin", "once"},
		{"0 0-22/2 * * *", "0 0,2,4,6,8,10,12,14,16,18,20,22 * * *", "Europe/Berlin", "once"},
		{"CRON_TZ=Asia/Kolkata\n0 0-22/2 * * *", "0 0-22/2 * * *", "Asia/Kolkata", "once"},
		{"CRON_TZ=:Asia/Kolkata\n* 2 * * *", "* 2 * * *", "Asia/Kolkata", "once"},
		{"TZ=Asia/Kolkata\n0 1 * * *", "0 1 * * *", "Europe/Berlin", "once"},
		{"10~20 5 * * *", "H(10-20) 5 * * *", "Europe/Berlin", "once"},
		{"~ ~5 20~ * *", "H(0-59) H(0-5) H(20-31) * *", "Europe/Berlin", "once"},
		{"RANDOM_DELAY=10\n5 5 * * *", "H(5-15) 5 * * *", "Europe/Berlin", "once"},
		{"RANDOM_DELAY=45\n@daily", "H(0-45) 0 * * *", "Europe/Berlin", "once"},
		{"RANDOM_DELAY=45\n30 5 * * *", "30 5 * * *", "Europe/Berlin", "once"},
		{"@weekly", "@weekly", "Europe/Berlin", "once"},
		{"  1,2-3 * * jan,FEB-mar Sun", "1,2-3 * * jan,FEB-mar Sun", "Europe/Berlin", ""},
	} {
		w := only(t, c.line+" a\n", Options{Format: User, Zone: "Europe/Berlin"})
		tr := w.Triggers[0]
		if tr.Cron != c.cron || tr.Timezone != c.zone || c.repeat != "" && tr.Repeat != c.repeat || tr.Overlap != "allow" || tr.Catchup != "none" {
			t.Errorf("%q: %+v", c.line, tr)
		}
	}
	if w := only(t, "@reboot a\n", Options{}); w.Triggers[0].Kind != "start" || w.Triggers[0].Overlap != "allow" {
		t.Errorf("%+v", w.Triggers)
	}
	if w := only(t, "START_HOURS_RANGE=3-22\n3 70 job a\n", Options{Format: Anacron}); w.Triggers[0].Kind != "every" || w.Name != "job" {
		t.Errorf("%+v", w.Triggers)
	}
	if w := only(t, "START_HOURS_RANGE=3-22\n@monthly 70 job a\n", Options{Format: Anacron}); w.Triggers[0].Cron != "10 4 1 * *" || w.Triggers[0].Catchup != "latest" {
		t.Errorf("%+v", w.Triggers)
	}
}

// vixie runs the main loop of cron 3.0pl1 minute by minute, as in cron.c with Debian's handling of clock
// changes. It returns the minutes in which cron starts an entry.
func vixie(fields [5]string, loc *time.Location, from time.Time, minutes int) []int64 {
	all := specs()
	var on [5][60]bool
	for n, text := range fields {
		items, f := all[n].items(field{text: text})
		if f != nil {
			panic(f)
		}
		for _, it := range items {
			for v := it.low; v <= it.high; v += it.step {
				on[n][v] = true
			}
		}
	}
	on[dayOfWeek][0] = on[dayOfWeek][0] || on[dayOfWeek][7]
	star := func(n int) bool { return fields[n][0] == '*' }
	wild := star(minute) || star(hour)
	clock := func(t int64) int64 {
		_, off := time.Unix(t*60, 0).In(loc).Zone()
		return (t*60 + int64(off)) / 60
	}
	due := func(virtual int64) bool {
		at := time.Unix(virtual*60, 0).UTC()
		dom, dow := on[dayOfMonth][at.Day()], on[dayOfWeek][int(at.Weekday())]
		day := dom || dow
		if star(dayOfMonth) || star(dayOfWeek) {
			day = dom && dow
		}
		return on[minute][at.Minute()] && on[hour][at.Hour()] && on[month][int(at.Month())] && day
	}
	var fires []int64
	start := from.Unix() / 60
	virtual := clock(start) - 1
	for t := start; t < start+int64(minutes); t++ {
		now, fire := clock(t), false
		switch diff := now - virtual; {
		case diff > 3*60 || diff <= -3*60: // a large change of the clock
			virtual = now
			fire = due(now)
		case diff == 1:
			virtual = now
			fire = due(now)
		case diff > 0:
			fire = wild && due(now)
			for virtual < now {
				virtual++
				fire = fire || !wild && due(virtual)
			}
		default:
			fire = wild && due(now)
		}
		if fire {
			fires = append(fires, t*60)
		}
	}
	return fires
}

// TestAsCronDoes compares the triggers of random entries with cron's own loop, around clock changes and at
// other times.
func TestAsCronDoes(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 8))
	pick := func(from ...string) string { return from[rng.IntN(len(from))] }
	zones := map[string][]time.Time{
		"Europe/Berlin":       {time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC), time.Date(2026, 10, 24, 0, 0, 0, 0, time.UTC)},
		"America/New_York":    {time.Date(2027, 3, 13, 0, 0, 0, 0, time.UTC), time.Date(2027, 11, 6, 0, 0, 0, 0, time.UTC)},
		"Australia/Lord_Howe": {time.Date(2026, 4, 3, 0, 0, 0, 0, time.UTC), time.Date(2026, 10, 2, 0, 0, 0, 0, time.UTC)},
		"Asia/Kolkata":        {time.Date(2026, 2, 27, 0, 0, 0, 0, time.UTC)},
	}
	const days = 3
	for n := range 1000 {
		fields := [5]string{
			pick("*", "*/7", "0", "30", "59", "0,30", "5-55/10", "*/30", "15,45", "0-29"),
			pick("*", "*/2", "*/3", "0", "1", "2", "3", "1-3", "0-4/2", "1-23/2", "2,14", "0-23"),
			pick("*", "*", "*", "*/2", "28", "1-15", "24,25", "29-31"),
			pick("*", "*", "*", "mar,oct,nov", "*/2"),
			pick("*", "*", "*", "0", "7", "sun", "1-5", "sat-sun", "*/3", "6,7"),
		}
		zone := pick("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata")
		text := strings.Join(fields[:], " ")
		r := converted(t, text+" a\n", Options{Format: User, Zone: zone})
		if len(r.Workflows) == 0 {
			continue // this entry never fires
		}
		tr := parsed(t, r.Workflows[0].Source).Triggers[0]
		o := cron.Options{Zone: tr.Timezone}
		if tr.Gap == "skip" {
			o.Gap, o.Repeat = cron.SkipGap, cron.Both
		}
		s, err := cron.Parse(tr.Cron, o)
		if err != nil {
			t.Fatal(err)
		}
		loc, err := cron.LoadZone(zone)
		if err != nil {
			t.Fatal(err)
		}
		for _, from := range zones[zone] {
			want := vixie(fields, loc, from, days*24*60)
			var got []int64
			for at, ok := s.Next(from.Add(-time.Second)); ok && at.Before(from.AddDate(0, 0, days)); at, ok = s.Next(at) {
				got = append(got, at.Unix())
			}
			if !slices.Equal(got, want) {
				t.Fatalf("case %d, %s in %s from %s, as %q %+v:\nskein %s\ncron  %s", n, text, zone, from, tr.Cron, o, clocks(got, loc), clocks(want, loc))
			}
		}
	}
}

func clocks(secs []int64, loc *time.Location) string {
	var b strings.Builder
	for i, s := range secs {
		if i == 200 {
			b.WriteString(" …")
			break
		}
		fmt.Fprint(&b, " ", time.Unix(s, 0).In(loc).Format("02T15:04Z07"))
	}
	return b.String()
}
