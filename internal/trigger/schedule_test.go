package trigger

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
)

func TestPlanOfASchedule(t *testing.T) {
	catchup := func(how string, limit int32) func(*workflow.Trigger) {
		return func(d *workflow.Trigger) { d.Catchup, d.CatchupLimit = how, limit }
	}
	tolerance := func(how string, d time.Duration) func(*workflow.Trigger) {
		return func(t *workflow.Trigger) {
			t.Catchup, t.CatchupLimit, t.DelayTolerance = how, 100, workflow.Duration(d)
		}
	}
	hourly, secondly := "0 * * * *", time.Second
	for _, c := range []struct {
		name     string
		decl     *workflow.Trigger
		from, to string
		want     string
	}{
		{"nothing is due", cronDecl(hourly, nil), "2026-01-01T00:00:00Z", "2026-01-01T00:59:59.999999Z",
			"next 2026-01-01T01:00:00Z\n"},
		{"due in this very microsecond", cronDecl(hourly, nil), "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z",
			"start 2026-01-01T01:00:00Z\nnext 2026-01-01T02:00:00Z\n"},
		{"a minute old is on time", cronDecl(hourly, catchup("none", 0)), "2026-01-01T00:00:00Z", "2026-01-01T01:01:00Z",
			"start 2026-01-01T01:00:00Z\nnext 2026-01-01T02:00:00Z\n"},
		{"older is not: none", cronDecl(hourly, catchup("none", 0)), "2026-01-01T00:00:00Z", "2026-01-01T03:01:00.000001Z",
			"missed 2026-01-01T01:00:00Z..2026-01-01T03:00:00Z 3: nothing ran to start it; catchup is none\nnext 2026-01-01T04:00:00Z\n"},
		{"none, and the newest on time", cronDecl(hourly, catchup("none", 0)), "2026-01-01T00:00:00Z", "2026-01-01T03:00:01Z",
			"missed 2026-01-01T01:00:00Z..2026-01-01T02:00:00Z 2: nothing ran to start it; catchup is none\n" +
				"start 2026-01-01T03:00:00Z\nnext 2026-01-01T04:00:00Z\n"},
		{"latest", cronDecl(hourly, nil), "2026-01-01T00:00:00Z", "2026-01-01T03:30:00Z",
			"merged 2026-01-01T01:00:00Z..2026-01-01T02:00:00Z 2: nothing ran to start it; the run for 2026-01-01T03:00:00Z stands for it\n" +
				"start 2026-01-01T03:00:00Z late: started 30m late: nothing ran to start it\nnext 2026-01-01T04:00:00Z\n"},
		{"latest, one only", cronDecl(hourly, nil), "2026-01-01T00:00:00Z", "2026-01-01T01:30:00Z",
			"start 2026-01-01T01:00:00Z late: started 30m late: nothing ran to start it\nnext 2026-01-01T02:00:00Z\n"},
		{"latest, and the newest on time", cronDecl(hourly, nil), "2026-01-01T00:00:00Z", "2026-01-01T03:00:30Z",
			"merged 2026-01-01T01:00:00Z..2026-01-01T02:00:00Z 2: nothing ran to start it; the run for 2026-01-01T03:00:00Z stands for it\n" +
				"start 2026-01-01T03:00:00Z\nnext 2026-01-01T04:00:00Z\n"},
		{"all", cronDecl(hourly, catchup("all", 2)), "2026-01-01T00:00:00Z", "2026-01-01T05:00:30Z",
			"missed 2026-01-01T01:00:00Z..2026-01-01T02:00:00Z 2: nothing ran to start it; catchup_limit is 2\n" +
				"start 2026-01-01T03:00:00Z late: started 2h30s late: nothing ran to start it\n" +
				"start 2026-01-01T04:00:00Z late: started 1h30s late: nothing ran to start it\n" +
				"start 2026-01-01T05:00:00Z\nnext 2026-01-01T06:00:00Z\n"},
		{"all within the limit", cronDecl(hourly, catchup("all", 2)), "2026-01-01T00:00:00Z", "2026-01-01T02:30:00Z",
			"start 2026-01-01T01:00:00Z late: started 1h30m late: nothing ran to start it\n" +
				"start 2026-01-01T02:00:00Z late: started 30m late: nothing ran to start it\nnext 2026-01-01T03:00:00Z\n"},
		{"a slow tick of a fast interval", everyDecl(secondly, catchup("none", 0)), "2026-01-01T00:00:00Z", "2026-01-01T00:00:03.5Z",
			"start 2026-01-01T00:00:01Z\nstart 2026-01-01T00:00:02Z\nstart 2026-01-01T00:00:03Z\nnext 2026-01-01T00:00:04Z\n"},
		{"a second, down for a year: none", everyDecl(secondly, catchup("none", 0)), "2025-01-01T00:00:00Z", "2026-01-01T00:00:00.5Z",
			"missed 2025-01-01T00:00:01Z..2025-12-31T23:59:59Z 31535999: nothing ran to start it; catchup is none\n" +
				"start 2026-01-01T00:00:00Z\nnext 2026-01-01T00:00:01Z\n"},
		{"a second, down for a year: latest", everyDecl(secondly, nil), "2025-01-01T00:00:00Z", "2026-01-01T00:00:00.5Z",
			"merged 2025-01-01T00:00:01Z..2025-12-31T23:59:59Z 31535999: nothing ran to start it; the run for 2026-01-01T00:00:00Z stands for it\n" +
				"start 2026-01-01T00:00:00Z\nnext 2026-01-01T00:00:01Z\n"},
		{"tolerance: in time", cronDecl(hourly, tolerance("latest", 10*time.Minute)), "2026-01-01T00:00:00Z", "2026-01-01T01:10:00Z",
			"start 2026-01-01T01:00:00Z late by 2026-01-01T01:10:00Z: started 10m late: nothing ran to start it\nnext 2026-01-01T02:00:00Z\n"},
		{"tolerance: too late, whatever catchup says", cronDecl(hourly, tolerance("all", 10*time.Minute)), "2026-01-01T00:00:00Z", "2026-01-01T02:10:00.000001Z",
			"missed 2026-01-01T01:00:00Z..2026-01-01T02:00:00Z 2: nothing started it within its delay tolerance of 10m\nnext 2026-01-01T03:00:00Z\n"},
		{"tolerance: too late by a microsecond", cronDecl(hourly, tolerance("latest", 10*time.Minute)), "2026-01-01T00:00:00Z", "2026-01-01T01:10:00.000001Z",
			"missed 2026-01-01T01:00:00Z..2026-01-01T01:00:00Z 1: nothing started it within its delay tolerance of 10m\nnext 2026-01-01T02:00:00Z\n"},
		{"nothing is older than a minute", everyDecl(30*time.Second, nil), "2026-01-01T00:00:00Z", "2026-01-01T00:01:30Z",
			"start 2026-01-01T00:00:30Z\nstart 2026-01-01T00:01:00Z\nstart 2026-01-01T00:01:30Z\nnext 2026-01-01T00:02:00Z\n"},
		{"tolerance: the rest by catchup", cronDecl(hourly, tolerance("latest", 90*time.Minute)), "2026-01-01T00:00:00Z", "2026-01-01T05:30:00Z",
			"missed 2026-01-01T01:00:00Z..2026-01-01T03:00:00Z 3: nothing started it within its delay tolerance of 1h30m\n" +
				"merged 2026-01-01T04:00:00Z..2026-01-01T04:00:00Z 1: nothing ran to start it; the run for 2026-01-01T05:00:00Z stands for it\n" +
				"start 2026-01-01T05:00:00Z late by 2026-01-01T06:30:00Z: started 30m late: nothing ran to start it\nnext 2026-01-01T06:00:00Z\n"},
		{"tolerance below a minute", cronDecl(hourly, tolerance("latest", 10*time.Second)), "2026-01-01T00:00:00Z", "2026-01-01T01:00:11Z",
			"missed 2026-01-01T01:00:00Z..2026-01-01T01:00:00Z 1: nothing started it within its delay tolerance of 10s\nnext 2026-01-01T02:00:00Z\n"},
		{"once", decl(workflow.KindAt, func(d *workflow.Trigger) { d.At = []string{"2026-01-01T06:00:00Z"} }), "2026-01-01T00:00:00Z", "2026-01-01T06:00:00.2Z",
			"start 2026-01-01T06:00:00Z\nended: no further instant: the last was 2026-01-01T06:00:00Z\n"},
		{"the last before its end", cronDecl(hourly, func(d *workflow.Trigger) { d.End = "2026-01-01T02:30:00Z" }), "2026-01-01T01:30:00Z", "2026-01-01T02:00:00Z",
			"start 2026-01-01T02:00:00Z\nended: no further instant: the last was 2026-01-01T02:00:00Z\n"},
		{"the clock went back", cronDecl(hourly, nil), "2026-01-01T02:00:00Z", "2026-01-01T01:00:00Z", "next 2026-01-01T03:00:00Z\n"},
		{"over a gap of the clock", cronDecl("30 2 * * *", func(d *workflow.Trigger) { d.Timezone = "Europe/Berlin" }), "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z",
			"start 2026-03-29T01:00:00Z\nnext 2026-03-30T00:30:00Z\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := New(noDefinitions{})
			row := declaredAt(t, p, c.decl, at(t, c.from))
			got, err := p.Plan(&row, at(t, c.to))
			if err != nil {
				t.Fatal(err)
			}
			if s := shown(&got); s != c.want {
				t.Errorf("got:\n%swant:\n%s", s, c.want)
			}
			if want := max(at(t, c.from), at(t, c.to)); got.Decided != want {
				t.Errorf("decided up to %s, not %s", clock(got.Decided), clock(want))
			}
		})
	}
}

func TestPlanGoesOnWhereItWasCut(t *testing.T) {
	p := New(noDefinitions{})
	d := everyDecl(time.Minute, func(d *workflow.Trigger) { d.Catchup, d.CatchupLimit = "all", 2500 })
	row := declaredAt(t, p, d, at(t, "2026-01-01T00:00:00Z"))
	now := at(t, "2026-01-03T00:00:30Z") // 2,880 instants are due
	var starts []engine.Start
	var lines []store.Fire
	for range 10 {
		plan, err := p.Plan(&row, now)
		if err != nil {
			t.Fatal(err)
		}
		if len(plan.Starts) > startsMax {
			t.Fatalf("%d runs in one plan", len(plan.Starts))
		}
		starts, lines = append(starts, plan.Starts...), append(lines, plan.Lines...)
		if carry(&row, &plan); row.Next > now {
			break
		}
	}
	if len(starts) != 2501 || len(lines) != 1 || lines[0].Count != 2880-2501 {
		t.Fatalf("%d runs, lines %v", len(starts), lines)
	}
	for i := range starts[1:] {
		if starts[i+1].Instant-starts[i].Instant != 60*second {
			t.Fatalf("%s follows %s", clock(starts[i+1].Instant), clock(starts[i].Instant))
		}
	}
	if last := starts[len(starts)-1]; last.Late || last.Instant != now-30*second || row.Decided != now {
		t.Errorf("the last: %+v, decided %s", last, clock(row.Decided))
	}
}

func TestCountEndsATrigger(t *testing.T) {
	p := New(noDefinitions{})
	d := everyDecl(time.Second, func(d *workflow.Trigger) { d.Count = 3 })
	row := declaredAt(t, p, d, at(t, "2026-01-01T00:00:00Z"))
	now := at(t, "2026-01-01T00:00:05Z") // five are due on time
	plan, err := p.Plan(&row, now)
	if err != nil || len(plan.Starts) != 3 || plan.Next != at(t, "2026-01-01T00:00:04Z") || plan.Decided != at(t, "2026-01-01T00:00:03Z") {
		t.Fatalf("%s%v", shown(&plan), err)
	}
	skipped := row
	carry(&skipped, &plan)
	skipped.Fired = 2 // the engine skipped one instant, so another run is allowed
	plan2, err := p.Plan(&skipped, now)
	if err != nil || len(plan2.Starts) != 1 || plan2.Starts[0].Instant != at(t, "2026-01-01T00:00:04Z") {
		t.Fatalf("%s%v", shown(&plan2), err)
	}
	carry(&row, &plan)
	plan, err = p.Plan(&row, now)
	if err != nil || shown(&plan) != "ended: count: it has started 3 of 3 runs\n" {
		t.Fatalf("%s%v", shown(&plan), err)
	}
	carry(&row, &plan)
	if row.Decided != at(t, "2026-01-01T00:00:03Z") || row.State != store.TriggerEnded || row.Next != 0 {
		t.Errorf("%+v", row)
	}
	if passed, err := p.Passed(&row, now, "paused"); err != nil || len(passed.Lines) != 0 {
		t.Errorf("what comes after the last run is an instant: %s%v", shown(&passed), err)
	}
}

func TestPassedIsOneLine(t *testing.T) {
	p := New(noDefinitions{})
	row := declaredAt(t, p, cronDecl("*/5 * * * *", nil), at(t, "2026-01-01T00:00:00Z"))
	plan, err := p.Passed(&row, at(t, "2026-01-02T00:02:00Z"), "paused by ann")
	if err != nil {
		t.Fatal(err)
	}
	const want = "skipped 2026-01-01T00:05:00Z..2026-01-02T00:00:00Z 288: paused by ann\nnext 2026-01-02T00:05:00Z\n"
	if got := shown(&plan); got != want || plan.Decided != at(t, "2026-01-02T00:02:00Z") {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
	if plan, err := p.Passed(&row, at(t, "2026-01-01T00:04:00Z"), "x"); err != nil || len(plan.Lines) != 0 {
		t.Errorf("%s%v", shown(&plan), err)
	}
	last := declaredAt(t, p, decl(workflow.KindAt, func(d *workflow.Trigger) { d.At = []string{"2026-01-01T06:00:00Z"} }), at(t, "2026-01-01T00:00:00Z"))
	plan, err = p.Passed(&last, at(t, "2026-01-01T07:00:00Z"), "paused")
	if err != nil || plan.State != store.TriggerEnded || len(plan.Lines) != 1 {
		t.Errorf("%s%v", shown(&plan), err)
	}
}

func TestBegin(t *testing.T) {
	p := New(noDefinitions{})
	const now = "2026-01-01T00:00:00.5Z"
	for _, c := range []struct {
		name        string
		decl        *workflow.Trigger
		next, state string
		reason      string
	}{
		{"a schedule", cronDecl("0 * * * *", nil), "2026-01-01T01:00:00Z", "active", ""},
		{"paused", cronDecl("0 * * * *", func(d *workflow.Trigger) { d.Paused = true }), "", "paused", "declared as paused"},
		{"once, in the past", decl(workflow.KindAt, func(d *workflow.Trigger) { d.At = []string{"2025-06-01T06:00:00Z"} }), "", "ended",
			"no further instant: the last was 2025-06-01T06:00:00Z"},
		{"once, in this second", decl(workflow.KindAt, func(d *workflow.Trigger) { d.At = []string{"2026-01-01T00:00:00Z"} }), "", "ended",
			"no further instant: the last was 2026-01-01T00:00:00Z"},
		{"after its end", cronDecl("0 * * * *", func(d *workflow.Trigger) { d.End = "2025-12-31" }), "", "ended",
			"no further instant: the last was 2025-12-31T23:00:00Z"},
		{"before its start", cronDecl("0 * * * *", func(d *workflow.Trigger) { d.Start = "2026-02-01" }), "2026-02-01T00:00:00Z", "active", ""},
		{"nothing between start and end", cronDecl("0 0 1 * *", func(d *workflow.Trigger) { d.Start, d.End = "2026-02-02", "2026-02-03" }), "", "ended",
			"it has no instant at all"},
		{"a hook", decl(workflow.KindWebhook, func(d *workflow.Trigger) { d.Webhook = &workflow.Webhook{Secret: "s"} }), "", "active", ""},
		{"a hook after its end", decl(workflow.KindWebhook, func(d *workflow.Trigger) {
			d.Webhook, d.End = &workflow.Webhook{Secret: "s"}, "2025-12-31"
		}), "", "ended", "its end is past"},
		{"at start", decl(workflow.KindStart, nil), "", "active", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			row := declaredAt(t, p, c.decl, at(t, now))
			next := ""
			if row.Next != 0 {
				next = clock(row.Next)
			}
			if next != c.next || row.State != c.state || row.Reason != c.reason || row.Decided != at(t, now) || row.Since != at(t, now) {
				t.Errorf("%+v", row)
			}
		})
	}
}

func TestDamagedRowsNameTheirTrigger(t *testing.T) {
	p := New(noDefinitions{})
	for _, spec := range []string{"", "{", `{"kind":"cron","cron":"nonsense","timezone":"UTC"}`, `{"kind":"cron","cron":"0 0 * * *","timezone":"No/Where"}`} {
		row := store.Trigger{Name: "nightly", Spec: []byte(spec)}
		_, err := p.Plan(&row, 1)
		if err == nil || !strings.Contains(err.Error(), "nightly") {
			t.Errorf("%q: %v", spec, err)
		}
	}
	row := declaredAt(t, p, decl(workflow.KindAgain, func(d *workflow.Trigger) { d.Again = &workflow.Again{Workflow: "a/b", MaxPerHour: 3} }), 5)
	row.Data = []byte("{")
	if _, err := p.Heard(&row, &engine.Ended{Workflow: "a/b"}, 6); err == nil || !strings.Contains(err.Error(), "trigger t") {
		t.Error(err)
	}
}

// BenchmarkPlan plans 10,000 different triggers that are due in one second. None of their declarations is
// in the cache. One operation is one trigger.
func BenchmarkPlan(b *testing.B) {
	const triggers = 10_000
	for _, c := range []struct {
		name string
		decl func(i int) *workflow.Trigger
	}{
		{"UTC", func(i int) *workflow.Trigger { return cronDecl("15 2 * * *", nil) }},
		{"Berlin", func(i int) *workflow.Trigger {
			return cronDecl("15 2 * * *", func(d *workflow.Trigger) { d.Timezone = "Europe/Berlin" })
		}},
		{"each its own schedule", func(i int) *workflow.Trigger {
			return cronDecl("15 2 * * *", func(d *workflow.Trigger) { d.Timezone, d.Seed = "Europe/Berlin", fmt.Sprint(i) })
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			p := New(noDefinitions{})
			rows := make([]store.Trigger, triggers)
			now := at(b, "2026-01-01T02:15:00.2Z")
			for i := range rows {
				d := c.decl(i)
				d.Name, d.Params = fmt.Sprintf("t%d", i), fmt.Appendf(nil, `{"shop":"s%d"}`, i)
				rows[i] = store.Trigger{Name: d.Name, Kind: d.Kind, Spec: d.Encode(), State: store.TriggerActive, Decided: now - 61*60*second}
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				row := &rows[i%triggers]
				plan, err := p.Plan(row, now)
				if err != nil || len(plan.Starts) != 1 {
					b.Fatal(len(plan.Starts), err)
				}
				if _, err := p.Policy(row); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
