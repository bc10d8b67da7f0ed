package trigger

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/workflow"
)

func flow(name string, maxRuns int32, median time.Duration, triggers ...*workflow.Trigger) PlannedWorkflow {
	w := PlannedWorkflow{Name: name, MaxRuns: maxRuns, Median: median, P95: 2 * median, Measured: 20}
	for i, t := range triggers {
		c := *t
		c.Name = string(rune('a' + i))
		w.Triggers = append(w.Triggers, PlannedTrigger{Trigger: &c})
	}
	return w
}

func simulated(t *testing.T, in SimulateInput) *Report {
	t.Helper()
	if in.From == 0 {
		in.From, in.To = at(t, "2026-01-01T00:00:00Z"), at(t, "2026-01-02T00:00:00Z")
	}
	r, err := Simulate(&in)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := json.Marshal(r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSimulateCountsFires(t *testing.T) {
	counted := everyDecl(time.Hour, func(d *workflow.Trigger) { d.Count = 10 })
	w := flow("a/x", 0, 10*time.Minute, cronDecl("30 * * * *", nil), counted, cronDecl("0 0 1 7 *", nil), cronDecl("* * * * *", nil), runOfDecl(nil, "a/y"))
	w.Triggers[1].Fired = 4
	w.Triggers[3].Paused = true
	r := simulated(t, SimulateInput{Planned: []PlannedWorkflow{w}})
	var got []string
	for _, x := range r.Triggers {
		got = append(got, fmt.Sprintf("%s %d %s..%s %.3f", x.Trigger, x.Fires, clock(x.First), clock(x.Last), x.PerHour))
	}
	want := []string{"a 24 2026-01-01T00:30:00Z..2026-01-01T23:30:00Z 1.000", "b 6 2026-01-01T01:00:00Z..2026-01-01T06:00:00Z 0.250",
		"c 0 1970-01-01T00:00:00Z..1970-01-01T00:00:00Z 0.000", "d 0 1970-01-01T00:00:00Z..1970-01-01T00:00:00Z 0.000"}
	if !slices.Equal(got, want) || r.Fires != 30 {
		t.Errorf("%d fires: %q", r.Fires, got)
	}
	if n := strings.Join(r.Notes, "; "); !strings.Contains(n, "1 sensor is left out") || !strings.Contains(n, "1 trigger is paused") || r.Changes != nil {
		t.Errorf("notes: %s", n)
	}
	if h := r.Hours[1]; len(r.Hours) != 24 || h.At != at(t, "2026-01-01T01:00:00Z") || h.Fires != 2 || h.Active != 1 || h.Mean < 0.333 || h.Mean > 0.334 {
		t.Errorf("%d hours, the second %+v", len(r.Hours), h)
	}
}

// TestSimulateBeginsWithMidnight: the first instant of a requested day belongs to it.
func TestSimulateBeginsWithMidnight(t *testing.T) {
	in := SimulateInput{From: at(t, "2027-01-01T00:00:00Z"), To: at(t, "2027-01-02T00:00:00Z") - 1, FromToo: true,
		Planned: []PlannedWorkflow{flow("a/x", 0, time.Minute, cronDecl("0 0 * * *", nil))},
		Edit:    []PlannedWorkflow{flow("a/x", 0, time.Minute, cronDecl("0 1 * * *", nil))}}
	r := simulated(t, in)
	if c := r.Changes[0]; r.Fires != 1 || c.Fires != [2]int64{1, 1} || len(c.Lost) != 1 || c.Lost[0] != in.From {
		t.Errorf("%d fires, %+v", r.Fires, c)
	}
	in.Edit = nil
	if r := simulated(t, in); r.Fires != 1 || r.Triggers[0].First != in.From || len(r.Hours) == 0 || r.Hours[0].At != in.From || r.Hours[0].Fires != 1 {
		t.Errorf("%+v", r)
	}
	if in.FromToo = false; simulated(t, in).Fires != 0 {
		t.Error("from now on begins after now")
	}
}

func TestSimulateOverlaps(t *testing.T) {
	limited := func(overlap string, n int32) func(*workflow.Trigger) {
		return func(d *workflow.Trigger) { d.Overlap, d.MaxConcurrent, d.QueueMax = overlap, n, 2 }
	}
	// A run of 25 minutes starts every ten minutes: at two of three instants the previous run is active.
	for _, c := range []struct {
		overlap                           string
		all, skipped, waiting, cancelled  int64
		active, peak, hits, firstInMinute int64
	}{
		{engine.OverlapSkip, 96, 96, 0, 0, 1, 3, 96, 20},
		{engine.OverlapQueue, 143, 84, 59, 0, 1, 3, 143, 20},
		{engine.OverlapCancel, 143, 0, 0, 143, 1, 3, 143, 20},
		{engine.OverlapAllow, 143, 0, 143, 0, 1, 3, 143, 20},
	} {
		t.Run(c.overlap, func(t *testing.T) {
			r := simulated(t, SimulateInput{Planned: []PlannedWorkflow{flow("a/x", 0, 25*time.Minute, everyDecl(10*time.Minute, limited(c.overlap, 1)))}})
			x := r.Triggers[0]
			if x.Fires != 144 || x.Overlaps != c.all || x.Skipped != c.skipped || x.Waiting != c.waiting || x.Cancelled != c.cancelled {
				t.Errorf("%+v", x)
			}
			l := r.Limits[0]
			if len(r.Limits) != 1 || l.Kind != LimitTrigger || l.Limit != 1 || l.Peak != c.peak || l.Hits != c.hits || (l.First-r.From)/(60*second) != dag.Micros(c.firstInMinute) || len(l.Instants) != examplesMax {
				t.Errorf("%+v", r.Limits)
			}
			if r.Hours[5].Active != c.active {
				t.Errorf("%+v", r.Hours[5])
			}
		})
	}
	t.Run("only if slow", func(t *testing.T) {
		r := simulated(t, SimulateInput{Planned: []PlannedWorkflow{flow("a/x", 0, 8*time.Minute, everyDecl(10*time.Minute, limited(engine.OverlapSkip, 1)))}})
		if len(r.Limits) != 1 || !strings.Contains(r.Limits[0].What, "slowest twentieth") || r.Triggers[0].Overlaps != 0 {
			t.Errorf("%+v", r.Limits)
		}
	})
	t.Run("workflow and slots", func(t *testing.T) {
		w := flow("a/x", 2, 25*time.Minute, everyDecl(time.Hour, nil), everyDecl(time.Hour, nil), everyDecl(time.Hour, nil))
		r := simulated(t, SimulateInput{Planned: []PlannedWorkflow{w, flow("a/y", 0, time.Minute, everyDecl(time.Hour, nil))}, Slots: 2})
		if len(r.Limits) != 2 || r.Limits[0].Kind != LimitWorkflow || r.Limits[0].Peak != 3 || r.Limits[0].Hits != 24 ||
			r.Limits[1].Kind != LimitSlots || r.Limits[1].Peak != 4 || r.Limits[1].Hits != 24 {
			t.Errorf("%+v", r.Limits)
		}
		if h := r.Hours[3]; h.Fires != 4 || h.Active != 3 || h.Mean < 1.26 || h.Mean > 1.27 {
			t.Errorf("%+v", h)
		}
	})
}

func TestSimulateClockChanges(t *testing.T) {
	d := cronDecl("30 2 * * *", func(d *workflow.Trigger) { d.Timezone = "Europe/Berlin" })
	r := simulated(t, SimulateInput{From: at(t, "2026-03-01T00:00:00Z"), To: at(t, "2026-11-01T00:00:00Z"),
		Planned: []PlannedWorkflow{flow("a/x", 0, time.Minute, d, cronDecl("30 2 * * *", nil))}})
	if len(r.Shifts) != 2 || !strings.Contains(r.Shifts[0].Effect, "does not exist") || !strings.Contains(r.Shifts[1].Effect, "comes twice") || r.Shifts[0].Trigger != "a" {
		t.Errorf("%+v", r.Shifts)
	}
}

func TestSimulateAnEdit(t *testing.T) {
	before := flow("a/x", 0, time.Minute, cronDecl("0 * * * *", nil), cronDecl("30 12 * * *", nil), cronDecl("15 * * * *", nil), cronDecl("45 12 * * *", nil))
	after := PlannedWorkflow{Name: "a/x", Triggers: slices.Clone(before.Triggers[:3])}
	changed := *after.Triggers[0].Trigger
	changed.Cron = "0 */2 * * *"
	after.Triggers[0].Trigger = &changed
	policy := *after.Triggers[1].Trigger
	policy.Catchup = "none"
	after.Triggers[1].Trigger = &policy
	added := *cronDecl("5 0 * * *", nil)
	added.Name = "z"
	after.Triggers = append(after.Triggers, PlannedTrigger{Trigger: &added})
	r := simulated(t, SimulateInput{Planned: []PlannedWorkflow{before, flow("a/y", 0, 0, cronDecl("0 0 * * *", nil))}, Edit: []PlannedWorkflow{after}})
	var got []string
	for _, c := range r.Changes {
		got = append(got, fmt.Sprintf("%s %s %v +%d -%d", c.Trigger, c.Change, c.Fires, len(c.Gained), len(c.Lost)))
	}
	want := []string{"a changed [24 12] +0 -12", "b changed [1 1] +0 -0", "c unchanged [24 24] +0 -0", "d removed [1 0] +0 -1", "z added [0 1] +1 -0"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if r.Fires != 12+1+24+1+1 || r.Triggers[0].Measured != 20 {
		t.Errorf("%d fires, %+v", r.Fires, r.Triggers[0])
	}
	if c := r.Changes[1]; c.Before == c.After || !strings.HasSuffix(c.After, "catchup: none") || r.Changes[3].After != "" || r.Changes[4].Before != "" {
		t.Errorf("%+v", c)
	}
	fresh := simulated(t, SimulateInput{Edit: []PlannedWorkflow{flow("b/new", 0, 0, cronDecl("0 * * * *", nil))}})
	if len(fresh.Changes) != 1 || fresh.Changes[0].Change != ChangeAdded || fresh.Fires != 24 || len(fresh.Changes[0].Gained) != examplesMax {
		t.Errorf("%+v", fresh.Changes)
	}
}

func TestSimulateIsBounded(t *testing.T) {
	from := at(t, "2026-01-01T00:00:00Z")
	for _, to := range []dag.Micros{from, from - 1, from + simulateSpanMax + 1} {
		if _, err := Simulate(&SimulateInput{From: from, To: to}); !errors.Is(err, errkind.ErrInvalid) {
			t.Error(err)
		}
	}
	bad := *cronDecl("nonsense", nil)
	if _, err := Simulate(&SimulateInput{From: from, To: from + 1, Planned: []PlannedWorkflow{flow("a/x", 0, 0, &bad)}}); !errors.Is(err, errkind.ErrInvalid) {
		t.Error(err)
	}
	edit := *everyDecl(time.Second, nil)
	edit.Every = workflow.Duration(2 * time.Second)
	r := simulated(t, SimulateInput{From: from, To: from + simulateSpanMax, Planned: []PlannedWorkflow{flow("a/x", 1, 90*time.Second, everyDecl(time.Second, func(d *workflow.Trigger) { d.Overlap, d.MaxConcurrent = "allow", 3 }))},
		Edit: []PlannedWorkflow{flow("a/y", 0, 0, &edit)}})
	if r.Fires != 366*86400*3/2 || len(r.Hours) > 366*24+1 || !strings.Contains(strings.Join(r.Notes, "; "), "of the first 1000000, up to 2026-01-08T") {
		t.Errorf("%d fires, %d hours, %v", r.Fires, len(r.Hours), r.Notes)
	}
}

func BenchmarkSimulate(b *testing.B) {
	var w []PlannedWorkflow
	for i := range 1000 {
		w = append(w, flow(fmt.Sprintf("a/w%d", i), 1, 5*time.Minute, cronDecl(fmt.Sprintf("%d * * * *", i%60), func(d *workflow.Trigger) { d.Overlap, d.MaxConcurrent = "skip", 1 })))
	}
	from := at(b, "2026-01-01T00:00:00Z")
	for b.Loop() {
		if _, err := Simulate(&SimulateInput{From: from, To: from + 41*24*hour, Planned: w, Slots: 64}); err != nil {
			b.Fatal(err)
		}
	}
}
