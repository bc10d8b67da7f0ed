package cron

import (
	"testing"
	"time"
)

var sink int64

func BenchmarkNext(b *testing.B) {
	for _, bench := range []struct{ name, text, zone string }{
		{"minutely-utc", "* * * * *", ""},
		{"minutely-berlin", "* * * * *", "Europe/Berlin"},
		{"daily-utc", "15 2 * * *", ""},
		{"daily-berlin", "15 2 * * *", "Europe/Berlin"},
		{"workdays-newyork", "0 9-17 * * mon-fri", "America/New_York"},
		{"last-workday-berlin", "0 6 LW * *", "Europe/Berlin"},
		{"leap-day-berlin", "0 0 29 2 *", "Europe/Berlin"},
	} {
		b.Run(bench.name, func(b *testing.B) {
			s, err := Parse(bench.text, Options{Zone: bench.zone})
			if err != nil {
				b.Fatal(err)
			}
			start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			end := start.AddDate(10, 0, 0)
			at := start
			b.ReportAllocs()
			for b.Loop() {
				at, _ = s.Next(at)
				if at.After(end) {
					at = start
				}
			}
		})
	}
}

func BenchmarkPrev(b *testing.B) {
	s, err := Parse("15 2 * * *", Options{Zone: "Europe/Berlin"})
	if err != nil {
		b.Fatal(err)
	}
	end := time.Date(2036, 1, 1, 0, 0, 0, 0, time.UTC)
	at := end
	for b.Loop() {
		if at, _ = s.Prev(at); at.Year() < 2026 {
			at = end
		}
	}
}

func BenchmarkCountYear(b *testing.B) {
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	to := from.AddDate(1, 0, 0)
	parse := func(text string) *Schedule {
		s, err := Parse(text, Options{Zone: "Europe/Berlin"})
		if err != nil {
			b.Fatal(err)
		}
		return s
	}
	weekends, err := Days("sat/sun")
	if err != nil {
		b.Fatal(err)
	}
	both, err := Union(parse("*/2 * * * * *"), parse("*/3 * * * * *"))
	if err != nil {
		b.Fatal(err)
	}
	for name, s := range map[string]*Schedule{
		"every-second":          parse("* * * * * *"),
		"daily":                 parse("15 2 * * *"),
		"every-second-workdays": parse("* * * * * *").On(nil, weekends),
		"union-of-seconds":      both,
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				sink += s.Count(from, to)
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	for b.Loop() {
		if _, err := Parse("15 2 * * *", Options{Zone: "Europe/Berlin"}); err != nil {
			b.Fatal(err)
		}
	}
}
