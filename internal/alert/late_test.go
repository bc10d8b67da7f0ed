package alert_test

import (
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/alert"
	"skein.dev/skein/internal/dag"
)

func at(text string) dag.Micros {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return dag.Micros(t.UnixMicro())
}

// TestDue has deadlines of rules as they are stored, of a run with an instant at 01:15 that was made at
// 01:20 and has begun at 01:30.
func TestDue(t *testing.T) {
	for name, c := range map[string]struct {
		rule   string
		course func(*alert.Course)
		want   string
	}{
		"after the instant":            {`"deadline":{"after":7200000000}`, nil, "03:15"},
		"after the creation":           {`"deadline":{"after":7200000000,"from":"queued"}`, nil, "03:20"},
		"after the start":              {`"deadline":{"after":7200000000,"from":"started"}`, nil, "03:30"},
		"not started":                  {`"deadline":{"after":7200000000,"from":"started"}`, func(c *alert.Course) { c.Started = 0 }, "ask at 04:00"},
		"without an instant":           {`"deadline":{"after":7200000000}`, func(c *alert.Course) { c.Instant = 0 }, "03:20"},
		"recovered":                    {`"deadline":{"after":7200000000}`, func(c *alert.Course) { c.Again = true }, "03:30"},
		"by a time":                    {`"deadline":{"by":"07:30"}`, nil, "07:30"},
		"by a time of a zone":          {`"deadline":{"by":"07:30","timezone":"Europe/Berlin"}`, nil, "05:30"},
		"by a time that has passed":    {`"deadline":{"by":"01:00"}`, nil, "01:00 of 2"},
		"by the instant's time":        {`"deadline":{"by":"01:15"}`, nil, "01:15 of 2"},
		"by a time without an instant": {`"deadline":{"by":"07:30"}`, func(c *alert.Course) { c.Instant = 0 }, "none"},
		"slow":                         {`"than":{"fixed":600000000}`, nil, "01:40"},
		"slow, usually":                {`"than":{"times":2,"percentile":95}`, nil, "01:50"},
		"slow, nobody knows":           {`"than":{"times":2,"percentile":50}`, nil, "none"},
		"slow, not started":            {`"than":{"fixed":600000000}`, func(c *alert.Course) { c.Started = 0 }, "ask at 02:10"},
	} {
		t.Run(name, func(t *testing.T) {
			rules, err := alert.Rules([]byte(`{"alerts":[{"name":"r","on":["late"],` + c.rule + `}]}`))
			if err != nil {
				t.Fatal(err)
			}
			is := alert.Course{Instant: at("2026-07-01T01:15:00Z"), Created: at("2026-07-01T01:20:00Z"), Started: at("2026-07-01T01:30:00Z")}
			if c.course != nil {
				c.course(&is)
			}
			usual := func(p int) (dag.Micros, bool) { return 600_000_000, p == 95 }
			due, again := rules[0].Due(&is, usual, at("2026-07-01T02:00:00Z"))
			got := "none"
			switch {
			case due != 0:
				got = strings.TrimSuffix(due.Time().UTC().Format("15:04 of 2"), " of 1")
			case again != 0:
				got = "ask at " + again.Time().UTC().Format("15:04")
			}
			if got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
	if _, err := alert.Rules([]byte(`{"alerts":[{"deadline":{"by":"07:30","timezone":"Nowhere"}}]}`)); err == nil {
		t.Error("a zone that does not exist is taken")
	}
}

// TestDueAtAChangeOfClocks: 02:30 does not exist on the day on which Berlin's clocks go forward.
func TestDueAtAChangeOfClocks(t *testing.T) {
	rules, err := alert.Rules([]byte(`{"alerts":[{"deadline":{"by":"02:30","timezone":"Europe/Berlin"}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for from, want := range map[string]string{
		"2026-03-28T23:00:00Z": "2026-03-29T01:30:00Z", // 03:30 in summer time
		"2026-10-24T23:00:00Z": "2026-10-25T01:30:00Z", // the second of two
		"2026-10-25T01:30:00Z": "2026-10-26T01:30:00Z",
	} {
		due, _ := rules[0].Due(&alert.Course{Instant: at(from)}, nil, 0)
		if got := due.Time().UTC().Format(time.RFC3339); got != want {
			t.Errorf("after %s: %s, want %s", from, got, want)
		}
	}
}
