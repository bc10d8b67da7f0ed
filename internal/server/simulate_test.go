package server_test

import (
	"strings"
	"testing"
	"time"

	api "skein.dev/skein/sdk/api/v1"
)

const overlapping = `
name: over
max_concurrent_runs: 2
triggers:
  - {name: a, cron: "0 * * * *", timezone: Europe/Berlin}
  - {name: b, daily: {at: "02:30"}, timezone: Europe/Berlin}
tasks: {t: {run: "true"}}
`

func TestSimulate(t *testing.T) {
	b := newBed(t, true)
	b.put("over", overlapping)
	b.put("timed", timed)
	b.run("over")
	ask := func(body string) api.Simulation {
		t.Helper()
		return want[api.Simulation](t, b.post("/api/v1/schedules:simulate", body), 200)
	}
	const span = `"from":"2027-03-27T12:00:00Z","to":"2027-03-28T12:00:00Z"` // the span includes both ends
	s := ask(`{` + span + `,"workflow":"over"}`)
	if s.Fires != 26 || len(s.Triggers) != 2 || s.Triggers[0].Measured != 1 || s.Triggers[0].Median == nil || s.Changes != nil {
		t.Errorf("%+v", s)
	}
	if len(s.Shifts) == 0 || s.Shifts[0].Workflow != "over" || s.Shifts[0].From != "+01:00" {
		t.Errorf("shifts %+v", s.Shifts)
	}
	hours := int64(0)
	for _, h := range s.Hours {
		hours += h.Fires
	}
	if hours != s.Fires {
		t.Errorf("hours have %d of %d", hours, s.Fires)
	}
	if all := ask(`{` + span + `}`); len(all.Triggers) != 6 || len(all.Notes) == 0 {
		t.Errorf("%d triggers, %v", len(all.Triggers), all.Notes)
	}
	if own, other := ask(`{`+span+`,"namespace":"default"}`), ask(`{`+span+`,"namespace":"other"}`); len(own.Triggers) != 6 || len(other.Triggers) != 0 {
		t.Errorf("%d triggers in the namespace, %d in another one", len(own.Triggers), len(other.Triggers))
	}
	same := must(b.client.Simulate(t.Context(), api.SimulateRequest{From: &api.Time{Time: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)},
		To: api.Time{Time: time.Date(2027, 1, 2, 0, 0, 0, 0, time.UTC)}, Workflow: "over", With: &api.ApplyRequest{Source: overlapping}}))
	for _, c := range same.Changes {
		if c.Change != "unchanged" {
			t.Errorf("%+v", c)
		}
	}
	if len(same.Changes) != 2 {
		t.Errorf("%+v", same.Changes)
	}
	edit := strings.NewReplacer(`"0 * * * *"`, `"0,30 * * * *"`, "name: b", "name: c").Replace(overlapping)
	after := must(b.client.Simulate(t.Context(), api.SimulateRequest{From: &same.From, To: same.To, Workflow: "over", With: &api.ApplyRequest{Source: edit + "---" + strings.Replace(brief, "brief", "fresh", 1)}}))
	is := map[string]string{}
	for _, c := range after.Changes {
		is[c.Workflow+"/"+c.Trigger] = c.Change
	}
	if len(is) != 4 || is["over/a"] != "changed" || is["over/b"] != "removed" || is["over/c"] != "added" || is["fresh/tick"] != "added" {
		t.Errorf("%v", is)
	}
	if w := want[api.Workflow](t, b.get("/api/v1/workflows/default/over"), 200); w.Version != 1 {
		t.Errorf("it was applied: %+v", w)
	}
}

func TestBadSimulations(t *testing.T) {
	b := newBed(t, true)
	b.put("over", overlapping)
	for _, c := range []struct {
		body, kind, say string
		status          int
	}{
		{`{"from":"2027-03-02T00:00:00Z","to":"2027-03-01T00:00:00Z"}`, api.ProblemInvalid, "", 422},
		{`{"to":"2020-03-01T00:00:00Z"}`, api.ProblemInvalid, "", 422},
		{`{"to":"9999-12-31T00:00:00Z"}`, api.ProblemInvalid, "366", 422},
		{`{}`, api.ProblemInvalid, "to", 422},
		{`{"to":"soon"}`, api.ProblemInvalid, "to", 422},
		{`{"from":"2027-03-01T00:00:00Z","to":"2027-03-02T00:00:00Z","workflow":"none"}`, api.ProblemNotFound, "none", 404},
		{`{"from":"2027-03-01T00:00:00Z","to":"2027-03-02T00:00:00Z","with":{"source":"name: x\ntriggers: [{cron: '* * * *'}]\ntasks: {a: {run: a}}"}}`, api.ProblemInvalidWorkflow, "", 422},
		{`{"from":"2027-03-01T00:00:00Z","to":"2027-03-02T00:00:00Z","with":{"source":"","files":[{"name":"../x","mode":1,"data":""}]}}`, api.ProblemInvalid, "../x", 422},
	} {
		p := wantProblem(t, b.post("/api/v1/schedules:simulate", c.body), c.status, c.kind)
		if !strings.Contains(p.Detail, c.say) {
			t.Errorf("%s: %s", c.body, p.Detail)
		}
	}
	b.put("over", strings.Replace(overlapping, `cron: "0 * * * *"`, "every: 1s", 1))
	began := time.Now()
	s := want[api.Simulation](t, b.post("/api/v1/schedules:simulate", `{"from":"2027-01-01T00:00:00Z","to":"2028-01-01T00:00:00Z"}`), 200)
	if s.Fires < 31_000_000 || len(s.Notes) == 0 {
		t.Errorf("%d fires, %v", s.Fires, s.Notes)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %s", took)
	}
}
