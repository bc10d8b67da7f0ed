package trigger

import (
	"errors"
	"strings"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
)

// pausedRow returns the row of a trigger with planned pauses: pairs of the beginning and the end.
func pausedRow(t *testing.T, p *Planner, d *workflow.Trigger, from string, pairs ...string) store.Trigger {
	t.Helper()
	row := declaredAt(t, p, d, at(t, from))
	var all []engine.PlannedPause
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, engine.PlannedPause{From: at(t, pairs[i]), Until: at(t, pairs[i+1]), Actor: "ada"})
	}
	var err error
	if row.Data, err = p.WithPauses(&row, all); err != nil {
		t.Fatal(err)
	}
	return row
}

// TestPlannedPause: the instants of a range are skipped in their turn, the others fire.
func TestPlannedPause(t *testing.T) {
	p := New(noDefinitions{})
	row := pausedRow(t, p, cronDecl("0 * * * *", nil), "2026-12-24T08:30:00Z", "2026-12-24T10:00:00Z", "2026-12-24T12:00:00Z")
	var all strings.Builder
	for _, now := range []string{"09:00:01", "10:00:00", "11:00:30", "11:59:59", "12:00:00"} {
		plan, err := p.Plan(&row, at(t, "2026-12-24T"+now+"Z"))
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString(now + "\n" + shown(&plan))
		carry(&row, &plan)
	}
	want := `09:00:01
start 2026-12-24T09:00:00Z
next 2026-12-24T10:00:00Z
10:00:00
skipped 2026-12-24T10:00:00Z..2026-12-24T10:00:00Z 1: paused from 2026-12-24T10:00:00Z until 2026-12-24T12:00:00Z by ada
next 2026-12-24T11:00:00Z
11:00:30
skipped 2026-12-24T11:00:00Z..2026-12-24T11:00:00Z 1: paused from 2026-12-24T10:00:00Z until 2026-12-24T12:00:00Z by ada
next 2026-12-24T12:00:00Z
11:59:59
next 2026-12-24T12:00:00Z
12:00:00
start 2026-12-24T12:00:00Z
next 2026-12-24T13:00:00Z
`
	if all.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", all.String(), want)
	}
}

// TestPlannedPauseAfterOutage: no node ran before, during and after a pause. The rule of catchup applies to
// the instants outside of the pause.
func TestPlannedPauseAfterOutage(t *testing.T) {
	for catchup, want := range map[string]string{
		"none": `missed 2026-12-24T09:00:00Z..2026-12-24T09:00:00Z 1: nothing ran to start it; catchup is none
skipped 2026-12-24T10:00:00Z..2026-12-24T11:00:00Z 2: paused from 2026-12-24T10:00:00Z until 2026-12-24T12:00:00Z by ada
missed 2026-12-24T12:00:00Z..2026-12-24T14:00:00Z 3: nothing ran to start it; catchup is none
next 2026-12-24T15:00:00Z
`,
		"latest": `merged 2026-12-24T09:00:00Z..2026-12-24T09:00:00Z 1: nothing ran to start it; the run for 2026-12-24T14:00:00Z stands for it
skipped 2026-12-24T10:00:00Z..2026-12-24T11:00:00Z 2: paused from 2026-12-24T10:00:00Z until 2026-12-24T12:00:00Z by ada
merged 2026-12-24T12:00:00Z..2026-12-24T13:00:00Z 2: nothing ran to start it; the run for 2026-12-24T14:00:00Z stands for it
start 2026-12-24T14:00:00Z late: started 30m late: nothing ran to start it
next 2026-12-24T15:00:00Z
`,
		"all": `start 2026-12-24T09:00:00Z late: started 5h30m late: nothing ran to start it
next 2026-12-24T10:00:00Z
skipped 2026-12-24T10:00:00Z..2026-12-24T11:00:00Z 2: paused from 2026-12-24T10:00:00Z until 2026-12-24T12:00:00Z by ada
start 2026-12-24T12:00:00Z late: started 2h30m late: nothing ran to start it
start 2026-12-24T13:00:00Z late: started 1h30m late: nothing ran to start it
start 2026-12-24T14:00:00Z late: started 30m late: nothing ran to start it
next 2026-12-24T15:00:00Z
`,
	} {
		p := New(noDefinitions{})
		d := cronDecl("0 * * * *", func(d *workflow.Trigger) { d.Catchup = catchup })
		row := pausedRow(t, p, d, "2026-12-24T08:30:00Z", "2026-12-24T10:00:00Z", "2026-12-24T12:00:00Z")
		got := ""
		for now := at(t, "2026-12-24T14:30:00Z"); row.Next <= now; {
			plan, err := p.Plan(&row, now)
			if err != nil {
				t.Fatal(err)
			}
			got += shown(&plan)
			carry(&row, &plan)
		}
		if got != want {
			t.Errorf("catchup %s:\n%s\nwant:\n%s", catchup, got, want)
		}
	}
}

// TestPlannedPauseOfAll: a trigger whose last instants are paused ends only after them.
func TestPlannedPauseOfAll(t *testing.T) {
	p := New(noDefinitions{})
	d := cronDecl("0 * * * *", func(d *workflow.Trigger) { d.End = "2026-12-24T11:00:00Z" })
	row := pausedRow(t, p, d, "2026-12-24T08:30:00Z", "2026-12-24T09:00:00Z", "2026-12-26T00:00:00Z")
	if next, err := NextOpen(&row); err != nil || next != 0 {
		t.Errorf("next %s %v", clock(next), err)
	}
	for _, now := range []string{"09:00:00", "10:00:00", "11:00:00"} {
		if row.State != store.TriggerActive {
			t.Fatalf("before %s: %s %s", now, row.State, row.Reason)
		}
		plan, err := p.Plan(&row, at(t, "2026-12-24T"+now+"Z"))
		if err != nil || len(plan.Lines) != 1 || plan.Lines[0].Outcome != store.OutcomeSkipped {
			t.Fatalf("%s: %+v %v", now, plan, err)
		}
		carry(&row, &plan)
	}
	if row.State != store.TriggerEnded {
		t.Errorf("%+v", row)
	}
}

// TestPausesOfAnEdit: an edit keeps the pauses that have not ended, also if the kind changes to another kind
// with instants. A sensor has no pauses.
func TestPausesOfAnEdit(t *testing.T) {
	p := New(noDefinitions{})
	row := pausedRow(t, p, cronDecl("0 * * * *", nil), "2026-12-24T08:30:00Z",
		"2026-12-24T09:00:00Z", "2026-12-24T10:00:00Z", "2026-12-25T00:00:00Z", "2026-12-26T00:00:00Z")
	edit := func(d *workflow.Trigger) store.Trigger {
		next := store.Trigger{Workflow: 1, Name: d.Name, Kind: d.Kind, Spec: d.Encode(), Data: row.Data}
		if err := p.Begin(&next, at(t, "2026-12-24T12:00:00Z")); err != nil {
			t.Fatal(err)
		}
		return next
	}
	next := edit(everyDecl(3600e9, nil))
	if all, err := p.Pauses(&next); err != nil || len(all) != 1 || all[0].From != at(t, "2026-12-25T00:00:00Z") {
		t.Errorf("%+v %v", all, err)
	}
	next = edit(decl(workflow.KindWebhook, func(d *workflow.Trigger) { d.Webhook = &workflow.Webhook{Secret: "s"} }))
	if all, err := p.Pauses(&next); !errors.Is(err, errkind.ErrInvalid) || len(next.Data) != 0 {
		t.Errorf("%+v %v %s", all, err, next.Data)
	}
}

// TestSimulatedPause: a simulation leaves out the instants of planned pauses.
func TestSimulatedPause(t *testing.T) {
	pause := []engine.PlannedPause{{From: at(t, "2026-12-24T10:00:00Z"), Until: at(t, "2026-12-24T12:00:00Z")}}
	r, err := Simulate(&SimulateInput{From: at(t, "2026-12-24T08:30:00Z"), To: at(t, "2026-12-24T14:00:00Z"),
		Planned: []PlannedWorkflow{{Name: "default/w", Triggers: []PlannedTrigger{{Trigger: cronDecl("0 * * * *", nil), Pauses: pause}}}}})
	if err != nil {
		t.Fatal(err)
	}
	var hours []dag.Micros
	for _, h := range r.Hours {
		hours = append(hours, h.At)
	}
	if r.Fires != 4 || len(hours) != 4 || hours[1] != at(t, "2026-12-24T12:00:00Z") {
		t.Errorf("%d fires: %v", r.Fires, r.Hours)
	}
}
