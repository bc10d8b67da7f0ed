package trigger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
)

func runOfDecl(change func(*workflow.RunOf), names ...string) *workflow.Trigger {
	return decl(workflow.KindRunOf, func(d *workflow.Trigger) {
		d.RunOf = &workflow.RunOf{Workflows: names, Require: "succeeded"}
		if change != nil {
			change(d.RunOf)
		}
	})
}

// heard is the end of one run, and the expected plan.
type heard struct {
	at, workflow string
	run          byte
	state        dag.RunState
	successor    bool
	want         string
}

func hear(t *testing.T, d *workflow.Trigger, since string, all []heard) store.Trigger {
	t.Helper()
	p := New(noDefinitions{})
	row := declaredAt(t, p, d, at(t, since))
	for i, h := range all {
		now := at(t, h.at)
		if h.workflow == "" { // no run has ended, and only time passes
			plan, err := p.Plan(&row, now)
			if err != nil {
				t.Fatal(err)
			}
			if got := shown(&plan); got != h.want {
				t.Errorf("%d: got:\n%swant:\n%s", i, got, h.want)
			}
			carry(&row, &plan)
			continue
		}
		plan, err := p.Heard(&row, &engine.Ended{Run: dag.RunID{15: h.run}, Workflow: h.workflow, State: h.state, Finished: now,
			Instant: now - hour, Successor: h.successor}, now)
		if err != nil {
			t.Fatal(err)
		}
		if got := short(shown(&plan)); got != h.want {
			t.Errorf("%d: got:\n%swant:\n%s", i, got, h.want)
		}
		carry(&row, &plan)
	}
	return row
}

// short removes the constant part of run ids.
func short(s string) string { return strings.ReplaceAll(s, "00000000-0000-0000-0000-0000000000", "") }

func TestRunOf(t *testing.T) {
	const ok = dag.RunSucceeded
	t.Run("any", func(t *testing.T) {
		hear(t, runOfDecl(nil, "a/x", "a/y"), "2026-01-01T00:00:00Z", []heard{
			{"2026-01-01T01:00:00Z", "a/x", 1, ok, false, "start 2026-01-01T01:00:00Z key 01: a/x succeeded\n"},
			{"2026-01-01T01:10:00Z", "a/y", 2, ok, false, "start 2026-01-01T01:10:00Z key 02: a/y succeeded\n"},
			{"2026-01-01T01:20:00Z", "a/x", 3, dag.RunFailed, false, ""},
			{"2026-01-01T01:30:00Z", "a/z", 4, ok, false, ""},
			{"2026-01-01T01:40:00Z", "a/x", 5, ok, true, ""},
		})
	})
	t.Run("require", func(t *testing.T) {
		for _, c := range []struct {
			require string
			state   dag.RunState
			starts  bool
		}{{"succeeded", ok, true}, {"succeeded", dag.RunStopped, false}, {"failed", dag.RunFailed, true}, {"failed", ok, false}, {"failed", dag.RunStopped, false},
			{"ended", ok, true}, {"ended", dag.RunFailed, true}, {"ended", dag.RunStopped, true}, {"ended", dag.RunSkipped, false}} {
			p := New(noDefinitions{})
			row := declaredAt(t, p, runOfDecl(func(r *workflow.RunOf) { r.Require = c.require }, "a/x"), 1)
			plan, err := p.Heard(&row, &engine.Ended{Workflow: "a/x", State: c.state, Finished: 2}, 2)
			if err != nil || len(plan.Starts) == 1 != c.starts {
				t.Errorf("%s, %s: %s%v", c.require, c.state, shown(&plan), err)
			}
		}
	})
	t.Run("all", func(t *testing.T) {
		row := hear(t, runOfDecl(func(r *workflow.RunOf) { r.All = true }, "a/x", "a/y"), "2026-01-01T00:00:00Z", []heard{
			{"2026-01-01T01:00:00Z", "a/x", 1, ok, false, ""},
			{"2026-01-01T02:00:00Z", "a/x", 2, ok, false, ""},
			{"2026-01-09T03:00:00Z", "a/y", 3, ok, false, "start 2026-01-09T03:00:00Z key all/d5083a5bccdf4b9b61b8af29d72c271d: a/x succeeded, a/y succeeded\n"},
			{"2026-01-09T04:00:00Z", "a/y", 4, ok, false, ""},
		})
		if m, err := remembered(&row); err != nil || len(m.Runs) != 1 || m.Runs["a/y"].Run[35] != '4' {
			t.Errorf("it remembers %s", row.Data)
		}
	})
	t.Run("all within a day of Berlin", func(t *testing.T) {
		d := runOfDecl(func(r *workflow.RunOf) { r.All, r.Within = true, "day" }, "a/x", "a/y")
		d.Timezone = "Europe/Berlin"
		row := hear(t, d, "2026-01-01T00:00:00Z", []heard{
			{"2026-01-01T22:59:59Z", "a/x", 1, ok, false, ""}, // 23:59:59 there
			{"2026-01-01T23:00:00Z", "a/y", 2, ok, false, ""}, // the next day
			{"2026-01-02T22:59:59Z", "a/x", 3, ok, false, "start 2026-01-02T22:59:59Z key all/d5083a5bccdf4b9b61b8af29d72c271d: a/x succeeded, a/y succeeded\n"},
		})
		if m, err := remembered(&row); err != nil || len(m.Runs) != 0 {
			t.Errorf("it remembers %s", row.Data)
		}
	})
	t.Run("spans", func(t *testing.T) {
		for _, c := range []struct{ within, zone, at, want string }{
			{"hour", "Asia/Kolkata", "2026-01-01T10:45:30.5Z", "2026-01-01T10:30:00Z"},
			{"day", "Asia/Kolkata", "2026-01-01T10:45:00Z", "2025-12-31T18:30:00Z"},
			{"week", "UTC", "2026-01-04T10:00:00Z", "2025-12-29T00:00:00Z"},
			{"week", "UTC", "2026-01-05T10:00:00Z", "2026-01-05T00:00:00Z"},
			{"month", "UTC", "2026-03-31T10:00:00Z", "2026-03-01T00:00:00Z"},
			{"2h", "UTC", "2026-03-31T10:00:00Z", "2026-03-31T08:00:00Z"},
		} {
			d := declared{Trigger: runOfDecl(func(r *workflow.RunOf) { r.Within = c.within }, "a/x")}
			d.Timezone = c.zone
			if got, err := d.spanStart(at(t, c.at)); err != nil || clock(got) != c.want {
				t.Errorf("%s in %s: %s, want %s: %v", c.within, c.zone, clock(got), c.want, err)
			}
		}
	})
	t.Run("what the event tells", func(t *testing.T) {
		p := New(noDefinitions{})
		row := declaredAt(t, p, runOfDecl(nil, "a/x"), 1)
		now := at(t, "2026-01-01T01:00:00Z")
		plan, err := p.Heard(&row, &engine.Ended{Workflow: "a/x", State: ok, Finished: now, Instant: now - hour}, now)
		if err != nil {
			t.Fatal(err)
		}
		const id = "00000000-0000-0000-0000-000000000000"
		const one = `"workflow":"a/x","run":"` + id + `","state":"succeeded","time":"2026-01-01T00:00:00Z","finished":"2026-01-01T01:00:00Z"`
		if want := "{" + one + `,"runs":[{` + one + "}]}"; string(plan.Starts[0].Event) != want {
			t.Errorf("%s", plan.Starts[0].Event)
		}
	})
	t.Run("after its end", func(t *testing.T) {
		d := runOfDecl(nil, "a/x")
		d.Start, d.End = "2026-01-02", "2026-01-03"
		hear(t, d, "2026-01-01T00:00:00Z", []heard{
			{"2026-01-01T01:00:00Z", "a/x", 1, ok, false, ""},
			{"2026-01-03T23:59:59Z", "a/x", 2, ok, false, "start 2026-01-03T23:59:59Z key 02: a/x succeeded\n"},
			{"2026-01-04T00:00:00Z", "a/x", 3, ok, false, "ended: its end is past\n"},
		})
	})
}

func TestAgain(t *testing.T) {
	const ok, stopped = dag.RunSucceeded, dag.RunStopped
	d := decl(workflow.KindAgain, func(d *workflow.Trigger) { d.Again = &workflow.Again{Workflow: "a/x", MaxPerHour: 2} })
	row := hear(t, d, "2026-01-01T00:00:00Z", []heard{
		{"2026-01-01T01:00:00.5Z", "a/x", 1, ok, false, "start 2026-01-01T01:00:00Z key 01: run 01 succeeded\n"},
		{"2026-01-01T01:10:00Z", "a/x", 2, dag.RunFailed, true, "start 2026-01-01T01:10:00Z key 02: run 02 failed\n"},
		{"2026-01-01T01:20:00Z", "a/x", 3, ok, true, "next 2026-01-01T02:00:01Z\n"},
		{"2026-01-01T01:30:00Z", "a/x", 4, ok, false,
			"skipped 2026-01-01T01:30:00Z..2026-01-01T01:30:00Z 1 key 04: another start is waiting for max_per_hour, until 2026-01-01T02:00:01Z\nnext 2026-01-01T02:00:01Z\n"},
		{"2026-01-01T01:31:00Z", "a/x", 3, ok, false, "next 2026-01-01T02:00:01Z\n"},
		{"2026-01-01T02:00:00Z", "", 0, 0, false, "next 2026-01-01T02:00:01Z\n"},
	})
	p := New(noDefinitions{})
	edited := row
	if err := p.Begin(&edited, at(t, "2026-01-01T01:45:00Z")); err != nil || edited.Next != row.Next || string(edited.Data) != string(row.Data) {
		t.Errorf("an edit makes of %+v: %+v %v", row, edited, err)
	}
	plan, err := p.Plan(&row, at(t, "2026-01-01T02:00:01.2Z"))
	if got := short(shown(&plan)); err != nil || got != "start 2026-01-01T02:00:01Z key 03: run 03 ended; max_per_hour: 2\n" {
		t.Errorf("%s%v", got, err)
	}
	late, err := p.Plan(&row, at(t, "2026-01-01T04:00:01Z"))
	if got := short(shown(&late)); err != nil || got != "start 2026-01-01T02:00:01Z key 03 late: started 2h late: nothing ran to start it\n" {
		t.Errorf("%s%v", got, err)
	}
	passed, err := p.Passed(&row, at(t, "2026-01-01T04:00:00Z"), "paused by ann")
	if got := short(shown(&passed)); err != nil || got != "next 2026-01-01T04:00:00Z\n" {
		t.Errorf("%s%v", got, err)
	}
	stop, err := p.Heard(&row, &engine.Ended{Run: dag.RunID{15: 9}, Workflow: "a/x", State: stopped, Finished: row.Decided}, at(t, "2026-01-01T01:50:00Z"))
	if got := short(shown(&stop)); err != nil || got != "skipped 2026-01-01T01:50:00Z..2026-01-01T01:50:00Z 1 key 03: run 09 was stopped, so the trigger starts no other run\n" {
		t.Errorf("%s%v", got, err)
	}
	carry(&row, &stop)
	if again, err := p.Plan(&row, at(t, "2026-01-01T05:00:00Z")); err != nil || shown(&again) != "" {
		t.Errorf("after a stop: %s%v", shown(&again), err)
	}
}

// TestRefusedEnds: the end of a run of a workflow that is not offered starts nothing, and is no arrival.
func TestRefusedEnds(t *testing.T) {
	both := func(r *workflow.RunOf) { r.All = true }
	for _, d := range []*workflow.Trigger{runOfDecl(nil, "a/x"), runOfDecl(both, "a/x", "a/y"), absentDecl("24h", &workflow.RunOf{Workflows: []string{"a/x"}, Require: "succeeded"})} {
		p := New(noDefinitions{})
		row := declaredAt(t, p, d, 1)
		for state, starts := range map[dag.RunState]int{dag.RunSucceeded: 1, dag.RunFailed: 0} {
			plan, err := p.Heard(&row, &engine.Ended{Run: dag.RunID{15: 7}, Workflow: "a/x", State: state, Finished: 9, Refused: "offers: no"}, 9)
			if err != nil || len(plan.Starts) != starts || plan.Data != nil || plan.Next != row.Next {
				t.Fatalf("%s, %s: %+v, %v", d.Kind, state, plan, err)
			}
			if starts > 0 && (plan.Starts[0].Refused.String() != "offers: no" || plan.Starts[0].Key != (dag.RunID{15: 7}).String()) {
				t.Errorf("%s: %+v", d.Kind, plan.Starts[0])
			}
		}
	}
}

// TestAgainNeverStartsMoreThanItMay: although runs end as fast as they start, the trigger never starts more
// runs than max_per_hour allows.
func TestAgainNeverStartsMoreThanItMay(t *testing.T) {
	for _, limit := range []int32{1, 2, 7, 3600} {
		p := New(noDefinitions{})
		d := decl(workflow.KindAgain, func(d *workflow.Trigger) { d.Again = &workflow.Again{Workflow: "a/x", MaxPerHour: limit} })
		now := at(t, "2026-01-01T00:00:00.3Z")
		row := declaredAt(t, p, d, now)
		var starts []dag.Micros
		for i := 0; now < at(t, "2026-01-01T03:00:00Z"); i++ {
			plan, err := p.Heard(&row, &engine.Ended{Run: dag.RunID{14: byte(i >> 8), 15: byte(i)}, Workflow: "a/x", State: dag.RunFailed, Finished: now}, now)
			if err != nil {
				t.Fatal(err)
			}
			if carry(&row, &plan); len(plan.Starts) == 0 {
				now = row.Next
				if plan, err = p.Plan(&row, now); err != nil || len(plan.Starts) != 1 {
					t.Fatalf("%s%v", shown(&plan), err)
				}
				carry(&row, &plan)
			}
			starts = append(starts, now)
			now += 200_000 // duration of a run
			if len(row.Data) > 64<<10 {
				t.Fatalf("it remembers %d bytes", len(row.Data))
			}
		}
		for i := int(limit); i < len(starts); i++ {
			if starts[i]-starts[i-int(limit)] < hour {
				t.Fatalf("%d starts from %s to %s", limit+1, clock(starts[i-int(limit)]), clock(starts[i]))
			}
		}
		if len(starts) < 3*int(limit) {
			t.Errorf("limit %d: %d starts in three hours", limit, len(starts))
		}
	}
}

func absentDecl(by string, r *workflow.RunOf) *workflow.Trigger {
	return decl(workflow.KindAbsent, func(d *workflow.Trigger) { d.Absent = &workflow.Absent{RunOf: r, By: by} })
}

func TestAbsent(t *testing.T) {
	const ok = dag.RunSucceeded
	x := &workflow.RunOf{Workflows: []string{"a/x"}, Require: "succeeded"}
	t.Run("by a time of day", func(t *testing.T) {
		hear(t, absentDecl("06:00", x), "2026-01-01T00:00:00Z", []heard{
			{"2026-01-01T05:00:00Z", "a/x", 1, ok, false, "next 2026-01-01T06:00:00Z\n"},
			{"2026-01-01T06:00:00Z", "", 0, 0, false, "skipped 2026-01-01T06:00:00Z..2026-01-01T06:00:00Z 1: a run of a/x came\nnext 2026-01-02T06:00:00Z\n"},
			{"2026-01-02T05:00:00Z", "a/x", 2, dag.RunFailed, false, "next 2026-01-02T06:00:00Z\n"},
			{"2026-01-02T06:00:00.1Z", "", 0, 0, false, "start 2026-01-02T06:00:00Z: a run of a/x did not come by 2026-01-02T06:00:00Z\nnext 2026-01-03T06:00:00Z\n"},
			// This arrival comes after the instant and before the next plan, so it belongs to the next
			// instant.
			{"2026-01-03T05:59:59Z", "a/x", 3, ok, false, "next 2026-01-03T06:00:00Z\n"},
			{"2026-01-03T06:00:01Z", "a/x", 4, ok, false, "next 2026-01-03T06:00:00Z\n"},
			{"2026-01-03T06:00:02Z", "", 0, 0, false, "skipped 2026-01-03T06:00:00Z..2026-01-03T06:00:00Z 1: a run of a/x came\nnext 2026-01-04T06:00:00Z\n"},
			{"2026-01-04T06:00:02Z", "", 0, 0, false, "skipped 2026-01-04T06:00:00Z..2026-01-04T06:00:00Z 1: a run of a/x came\nnext 2026-01-05T06:00:00Z\n"},
			{"2026-01-08T07:00:00Z", "", 0, 0, false,
				"merged 2026-01-05T06:00:00Z..2026-01-05T06:00:00Z 1: nothing ran to start it; the run for 2026-01-08T06:00:00Z stands for it\n" +
					"merged 2026-01-06T06:00:00Z..2026-01-06T06:00:00Z 1: nothing ran to start it; the run for 2026-01-08T06:00:00Z stands for it\n" +
					"merged 2026-01-07T06:00:00Z..2026-01-07T06:00:00Z 1: nothing ran to start it; the run for 2026-01-08T06:00:00Z stands for it\n" +
					"start 2026-01-08T06:00:00Z late: a run of a/x did not come by 2026-01-08T06:00:00Z; started 1h late: nothing ran to start it\nnext 2026-01-09T06:00:00Z\n"},
		})
	})
	t.Run("at the very instant", func(t *testing.T) {
		hear(t, absentDecl("06:00", x), "2026-01-01T00:00:00Z", []heard{
			{"2026-01-01T06:00:00Z", "a/x", 1, ok, false, "next 2026-01-01T06:00:00Z\n"},
			{"2026-01-01T06:00:00Z", "", 0, 0, false, "skipped 2026-01-01T06:00:00Z..2026-01-01T06:00:00Z 1: a run of a/x came\nnext 2026-01-02T06:00:00Z\n"},
			{"2026-01-02T06:00:00Z", "", 0, 0, false, "start 2026-01-02T06:00:00Z: a run of a/x did not come by 2026-01-02T06:00:00Z\nnext 2026-01-03T06:00:00Z\n"},
		})
		d := declared{Trigger: absentDecl("06:00", x)}
		m := memory{Came: map[string][]dag.Micros{"a/x": {5}}}
		if d.came(&m, 5, 9) || !d.came(&m, 4, 5) {
			t.Error("what came at an instant belongs to it, not to the next one")
		}
	})
	t.Run("all of them", func(t *testing.T) {
		both := &workflow.RunOf{Workflows: []string{"a/x", "a/y"}, Require: "succeeded", All: true}
		hear(t, absentDecl("06:00", both), "2026-01-01T00:00:00Z", []heard{
			{"2026-01-01T05:00:00Z", "a/x", 1, ok, false, "next 2026-01-01T06:00:00Z\n"},
			{"2026-01-01T06:00:00Z", "", 0, 0, false, "start 2026-01-01T06:00:00Z: a run of a/x and a/y did not come by 2026-01-01T06:00:00Z\nnext 2026-01-02T06:00:00Z\n"},
			{"2026-01-02T05:00:00Z", "a/y", 2, ok, false, "next 2026-01-02T06:00:00Z\n"},
			{"2026-01-02T05:00:00Z", "a/x", 3, ok, false, "next 2026-01-02T06:00:00Z\n"},
			{"2026-01-02T06:00:00Z", "", 0, 0, false, "skipped 2026-01-02T06:00:00Z..2026-01-02T06:00:00Z 1: a run of a/x and a/y came\nnext 2026-01-03T06:00:00Z\n"},
		})
	})
	t.Run("by an instant", func(t *testing.T) {
		hear(t, absentDecl("2026-01-01T06:00:00Z", x), "2026-01-01T00:00:00Z", []heard{
			{"2026-01-01T06:00:00Z", "", 0, 0, false,
				"start 2026-01-01T06:00:00Z: a run of a/x did not come by 2026-01-01T06:00:00Z\nended: no further instant: the last was 2026-01-01T06:00:00Z\n"},
		})
	})
	t.Run("for a span", func(t *testing.T) {
		hear(t, absentDecl("24h", x), "2026-01-01T00:00:00Z", []heard{
			{"2026-01-01T05:00:00Z", "a/x", 1, ok, false, "next 2026-01-02T05:00:00Z\n"},
			{"2026-01-02T00:00:00Z", "", 0, 0, false, "next 2026-01-02T05:00:00Z\n"},
			{"2026-01-02T05:00:01Z", "", 0, 0, false, "start 2026-01-02T05:00:00Z: a run of a/x did not come for 24h\nnext 2026-01-03T05:00:01Z\n"},
			{"2026-01-02T07:00:00Z", "a/x", 2, ok, false, "next 2026-01-03T07:00:00Z\n"},
			{"2026-01-09T07:00:00Z", "", 0, 0, false, "start 2026-01-03T07:00:00Z late: a run of a/x did not come for 24h; started 6d late: nothing ran to start it\nnext 2026-01-10T07:00:00Z\n"},
		})
	})
	t.Run("a file", func(t *testing.T) {
		p := New(noDefinitions{})
		d := decl(workflow.KindAbsent, func(d *workflow.Trigger) {
			d.Absent = &workflow.Absent{File: &workflow.FileWatch{Path: "/in", Pattern: "*.csv"}, By: "06:00"}
		})
		row := declaredAt(t, p, d, at(t, "2026-01-01T00:00:00Z"))
		for _, when := range []string{"2025-12-31T23:00:00Z", "2026-01-01T05:00:00Z"} {
			plan, err := p.Heard(&row, &engine.Ended{Finished: at(t, when)}, at(t, "2026-01-01T05:00:00Z"))
			if err != nil || plan.Data == nil != strings.HasPrefix(when, "2025") {
				t.Errorf("%s: %s %v", when, plan.Data, err)
			}
			carry(&row, &plan)
		}
		plan, err := p.Plan(&row, at(t, "2026-01-01T06:00:00Z"))
		if err != nil || len(plan.Lines) != 1 || plan.Lines[0].Reason.String() != "a file *.csv in /in came" {
			t.Errorf("%s%v", shown(&plan), err)
		}
	})
	t.Run("bounded", func(t *testing.T) {
		p := New(noDefinitions{})
		row := declaredAt(t, p, absentDecl("06:00", x), at(t, "2020-01-01T00:00:00Z"))
		for i := range dag.Micros(2000) {
			now := row.Since + i*hour*6
			plan, err := p.Heard(&row, &engine.Ended{Workflow: "a/x", State: ok, Finished: now}, now)
			if err != nil {
				t.Fatal(err)
			}
			if carry(&row, &plan); len(row.Data) > 1000 {
				t.Fatalf("it remembers %d bytes", len(row.Data))
			}
		}
		plan, err := p.Plan(&row, at(t, "2026-01-01T00:00:00Z"))
		if err != nil || len(plan.Lines) > judgedMax+1 || len(plan.Starts) > 1 {
			t.Errorf("%d lines, %d runs: %v", len(plan.Lines), len(plan.Starts), err)
		}
	})
}

// definitions is a store of one version that counts how often it is read.
type definitions struct {
	def   []byte
	err   error
	reads int
}

func (d *definitions) Version(context.Context, dag.WorkflowID, int32) (store.Version, error) {
	d.reads++
	return store.Version{Def: d.def}, d.err
}

func TestParams(t *testing.T) {
	def := &definitions{def: []byte(`{"namespace":"a","name":"x","params":[{"name":"day","type":"string","default":"${{ date(trigger.time) }}"},` +
		`{"name":"n","type":"int","default":1}],"tasks":[{"name":"t","run":{"shell":"true"}}]}`)}
	p := New(def)
	day := at(t, "2026-03-04T05:00:00Z")
	for _, c := range []struct{ given, event, want string }{
		{"", "", `{"day":"2026-03-04","n":1}`},
		{`{"n":7}`, "", `{"day":"2026-03-04","n":7}`},
		{`{"day":"x","n":7}`, "", `{"day":"x","n":7}`},
		{`{"day":"${{ trigger.event.name }}"}`, `{"name":"f.csv"}`, `{"day":"f.csv","n":1}`},
	} {
		for range 2 {
			got, err := p.Params(t.Context(), engine.ParamsQuery{Workflow: 1, Version: 1, Given: []byte(c.given), Instant: day, Event: []byte(c.event)})
			if err != nil || string(got) != c.want {
				t.Errorf("%s %s: %s %v", c.given, c.event, got, err)
			}
		}
	}
	if got, err := p.Params(t.Context(), engine.ParamsQuery{Workflow: 1, Version: 1, Instant: day + 24*hour}); err != nil || string(got) != `{"day":"2026-03-05","n":1}` {
		t.Errorf("the next day: %s %v", got, err)
	}
	if def.reads != 1 {
		t.Errorf("the definition was read %d times", def.reads)
	}
	if _, err := p.Params(t.Context(), engine.ParamsQuery{Workflow: 1, Version: 1, Given: []byte(`{"nobody":1}`)}); !errors.Is(err, errkind.ErrInvalid) {
		t.Error(err)
	}
	for want, is := range map[error]error{errkind.ErrInvalid: store.ErrNotFound, errkind.ErrUnavailable: store.ErrUnavailable} {
		if _, err := New(&definitions{err: is}).Params(t.Context(), engine.ParamsQuery{}); !errors.Is(err, want) {
			t.Errorf("%v: %v", is, err)
		}
	}
	if _, err := New(&definitions{def: []byte("{")}).Params(t.Context(), engine.ParamsQuery{}); !errors.Is(err, errkind.ErrInvalid) {
		t.Error(err)
	}
}

func TestDeclaredAndPolicy(t *testing.T) {
	trig := cronDecl("0 * * * *", func(d *workflow.Trigger) {
		d.Overlap, d.MaxConcurrent, d.QueueMax, d.IfLost, d.Params = "queue", 2, 5, "fail", json.RawMessage(`{"a":"1"}`)
	})
	high := runOfDecl(nil, "a/y")
	high.Name, high.Priority = "u", "highest"
	def := mustJSON(t, map[string]any{"namespace": "a", "name": "x", "priority": "low", "max_concurrent_runs": 4, "triggers": []any{trig, high}, "tasks": []any{}})
	p := New(noDefinitions{})
	d, err := p.Declared("a", "x", def)
	if err != nil || d.MaxRuns != 4 || len(d.Triggers) != 2 || d.Triggers[0].MaxRuns != 2 || d.Triggers[1].On[0] != "a/y" || d.Triggers[0].Kind != "cron" {
		t.Fatalf("%+v %v", d, err)
	}
	got, err := p.Policy(&d.Triggers[0])
	want := engine.Policy{Overlap: "queue", MaxRuns: 2, QueueMax: 5, Priority: dag.Low, FailLost: true, Params: json.RawMessage(`{"a":"1"}`)}
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%+v %v", got, err)
	}
	if got, err := p.Policy(&d.Triggers[1]); err != nil || got.Priority != dag.Highest {
		t.Errorf("%+v %v", got, err)
	}
	if _, err := p.Declared("a", "x", []byte("{")); err == nil || !strings.Contains(err.Error(), "a/x") {
		t.Error(err)
	}
}

func TestWhatIsKeptIsBounded(t *testing.T) {
	p := New(noDefinitions{})
	for i := range keptMax + 100 {
		row := store.Trigger{Spec: cronDecl("0 0 * * *", func(d *workflow.Trigger) { d.Name = fmt.Sprint(i) }).Encode(), Decided: 1}
		if _, err := p.Plan(&row, dag.Micro(time.Unix(1, 0))); err != nil {
			t.Fatal(err)
		}
	}
	if n := p.declared.Len(); n != keptMax {
		t.Errorf("%d declarations are kept", n)
	}
}
