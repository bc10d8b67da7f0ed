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

// TestDue checks the deadlines that stored rules give to one run. The run's instant is 01:15; it was made at
// 01:20 and began at 01:30.
func TestDue(t *testing.T) {
	for name, c := range map[string]struct {
		rule   string
		course func(*alert.Course)
		want   string
	}{
		"after the instant":            {`"deadline":{"after":7200000000}`, nil, "03:15"},
		"after the creation":           {`"deadline":{"after":7200000000,"from":"queued"}`, nil, "03:20"},
		"after the start":              {`"deadline":{"after":7200000000,"from":"started"}`, nil, "03:30"},
		"not started":                  {`"deadline":{"after":7200000000,"from":"started"}`, func(c *alert.Course) { c.Started = 0 }, "at its start"},
		"without an instant":           {`"deadline":{"after":7200000000}`, func(c *alert.Course) { c.Instant = 0 }, "03:20"},
		"recovered":                    {`"deadline":{"after":7200000000}`, func(c *alert.Course) { c.Recovered = c.Started }, "03:30"},
		"by a time":                    {`"deadline":{"by":"07:30"}`, nil, "07:30"},
		"by a time of a zone":          {`"deadline":{"by":"07:30","timezone":"Europe/Berlin"}`, nil, "05:30"},
		"by a time that has passed":    {`"deadline":{"by":"01:00"}`, nil, "01:00 of 2"},
		"by the instant's time":        {`"deadline":{"by":"01:15"}`, nil, "01:15 of 2"},
		"by a time without an instant": {`"deadline":{"by":"07:30"}`, func(c *alert.Course) { c.Instant = 0 }, "none"},
		"slow":                         {`"than":{"fixed":600000000}`, nil, "01:40"},
		"slow, usually":                {`"than":{"times":2,"percentile":95}`, nil, "01:50"},
		"slow, nobody knows":           {`"than":{"times":2,"percentile":50}`, nil, "none"},
		"slow, not started":            {`"than":{"fixed":600000000}`, func(c *alert.Course) { c.Started = 0 }, "at its start"},
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
			due, ahead := rules[0].Due(&is, usual)
			got := "none"
			switch {
			case due != 0:
				got = strings.TrimSuffix(due.Time().UTC().Format("15:04 of 2"), " of 1")
			case ahead:
				got = "at its start"
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

// TestDueAtAChangeOfClocks checks deadlines at 02:30, which does not exist on the day on which Berlin's
// clocks go forward.
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
		due, _ := rules[0].Due(&alert.Course{Instant: at(from)}, nil)
		if got := due.Time().UTC().Format(time.RFC3339); got != want {
			t.Errorf("after %s: %s, want %s", from, got, want)
		}
	}
}

// TestCourseOfRecovered: a recovered run that waits has not started. Its deadline counts from its recovery.
func TestCourseOfRecovered(t *testing.T) {
	r := &dag.Header{Created: 1_000_000}
	c := alert.CourseOf(r, dag.RunWaiting, 50_000_000, 2)
	start := alert.Rule{Deadline: &alert.Deadline{After: 10_000_000, For: alert.ForStart}}
	if due, _ := start.Due(&c, nil); start.Met(&c) || due != 60_000_000 {
		t.Errorf("it has begun: %t; its deadline is %d", start.Met(&c), due)
	}
	slow := alert.Rule{Than: &alert.Than{Fixed: 5_000_000}}
	if due, ahead := slow.Due(&c, nil); due != 0 || !ahead {
		t.Errorf("its time counts while it waits: %d", due)
	}
	if c = alert.CourseOf(r, dag.RunRunning, 70_000_000, 2); !start.Met(&c) {
		t.Error("it has not begun")
	}
}

// TestPercentile checks the ends of the range of percentiles, and values beyond them: a stored definition can
// name any percentile.
func TestPercentile(t *testing.T) {
	for p, want := range map[int]dag.Micros{-7: 1, 0: 1, 1: 1, 50: 3, 95: 5, 100: 5, 400: 5} {
		if got := alert.Percentile([]dag.Micros{5, 1, 4, 2, 3}, p); got != want {
			t.Errorf("percentile %d is %d, want %d", p, got, want)
		}
	}
}
