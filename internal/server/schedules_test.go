package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/workflow"
	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

const timed = `
name: timed
description: every kind
max_concurrent_runs: 4
params:
  day: {type: string, format: date, default: "${{ date(trigger.time) }}"}
triggers:
  - {name: nightly, cron: "15 2 * * *", timezone: Europe/Berlin, max_concurrent_runs: 1, overlap: queue, catchup: all, delay_tolerance: 30m, priority: high}
  - {name: 1..a_b-c, every: 3h, count: 2}
  - {name: once, at: 2199-01-01T06:00:00Z}
  - {name: weekly, weekly: {at: ["06:00"], on: [mon, fri]}, paused: true}
  - {name: hook, webhook: {secret: hook, filter: "event.body.ref == 'main'"}}
  - {name: lost, webhook: {secret: gone}}
  - {name: after, run_of: {workflow: feed, require: succeeded}}
tasks:
  a: {run: "true"}
`

// put applies a workflow of the default namespace.
func (b *bed) put(name, source string) api.Applied {
	b.t.Helper()
	a := b.do("PUT", "/api/v1/workflows/default/"+name, source, "Content-Type", "application/yaml")
	if a.status != 201 && a.status != 200 {
		b.t.Fatalf("apply: %d %s", a.status, a.body)
	}
	return want[api.Applied](b.t, a, a.status)
}

// eventually repeats a check until it succeeds.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !so(); {
		if time.Now().After(end) {
			t.Fatalf("it never came: %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

const oneSchedule = "/api/v1/schedules/default/timed/"

func TestSchedulesAreListed(t *testing.T) {
	b := newBed(t, true)
	if w := b.put("timed", timed); w.MaxRuns == nil || *w.MaxRuns != 4 {
		t.Errorf("max_concurrent_runs %v", w.MaxRuns)
	}
	b.apply("plain")
	all := want[api.List[api.Schedule]](t, b.get("/api/v1/schedules"), 200)
	if len(all.Items) != 7 || all.Next != nil {
		t.Fatalf("%d schedules, next %v", len(all.Items), all.Next)
	}
	s := want[api.Schedule](t, b.get(oneSchedule+"nightly"), 200)
	if s.Workflow != "timed" || s.Kind != "cron" || s.Expression != "15 2 * * *" || s.Timezone != "Europe/Berlin" || s.Description == "" ||
		s.State != "active" || s.Next == nil || s.LastFire != nil || s.Overlap != "queue" || *s.MaxConcurrentRuns != 1 || *s.Catchup != "all" ||
		*s.CatchupLimit != 100 || *s.DelayTolerance != "30m" || s.Version != 1 || s.Sensor || s.Fired != 0 {
		t.Errorf("%+v", s)
	}
	odd := want[api.Schedule](t, b.get(oneSchedule+url.PathEscape("1..a_b-c")), 200)
	if odd.Expression != "3h" || odd.CatchupLimit != nil || odd.DelayTolerance != nil {
		t.Errorf("%+v", odd)
	}
	paused := want[api.Schedule](t, b.get(oneSchedule+"weekly"), 200)
	if paused.State != "paused" || paused.PausedBy != nil || paused.Reason == nil || paused.Next != nil || paused.Expression != "mon fri 06:00" {
		t.Errorf("%+v", paused)
	}
	if hook := want[api.Schedule](t, b.get(oneSchedule+"hook"), 200); !hook.Sensor || hook.Catchup != nil || hook.Next != nil {
		t.Errorf("%+v", hook)
	}
	for query, n := range map[string]int{
		"namespace=default": 7, "namespace=other": 0, "workflow=timed": 7, "workflow=default/plain": 0, "state=paused": 1, "state=ended": 0,
		"kind=webhook": 2, "kind=webhook,cron": 3, "kind=cron&state=paused": 0, "workflow=timed&kind=every": 1,
	} {
		if got := want[api.List[api.Schedule]](t, b.get("/api/v1/schedules?"+query), 200); len(got.Items) != n {
			t.Errorf("%s: %d, want %d", query, len(got.Items), n)
		}
	}
	var names []string
	for s, err := range b.client.EachSchedule(t.Context(), skein.SchedulesQuery{Limit: 2}) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, s.Name)
	}
	if len(names) != 7 {
		t.Errorf("paged: %v", names)
	}
}

func TestBadQuestionsAboutSchedules(t *testing.T) {
	b := newBed(t, true)
	b.put("timed", timed)
	for _, c := range []struct {
		path   string
		status int
		say    string
	}{
		{"/schedules?state=asleep", 422, "state"},
		{"/schedules?kind=crone", 422, "kind"},
		{"/schedules?workflow=none", 404, "none"},
		{"/schedules?cursor=rubbish!", 422, "cursor"},
		{"/schedules?cursor=YWJj", 422, "cursor"},
		{"/schedules?limit=0", 422, "limit"},
		{"/schedules?limit=1001", 422, "limit"},
		{"/schedules?color=red", 422, "color"},
		{"/schedules/default/none/nightly", 404, "none"},
		{"/schedules/default/timed/nightli", 404, "nightly"},
		{"/schedules/default/timed/" + url.PathEscape("a/../b"), 404, ""},
		{"/schedules/default/timed/nightly/next?n=0", 422, "n"},
		{"/schedules/default/timed/nightly/next?n=-5", 422, "n"},
		{"/schedules/default/timed/nightly/next?n=1001", 422, "n"},
		{"/schedules/default/timed/nightly/next?n=many", 422, "n"},
		{"/schedules/default/timed/nightly/next?from=yesterday", 422, "from"},
		{"/schedules/next?from=2026-13-01T00:00:00Z", 422, "from"},
		{"/schedules/next?workflow=none", 404, "none"},
		{"/fires?trigger=nightly", 422, "workflow"},
		{"/fires?workflow=none", 404, "none"},
		{"/fires?outcome=lucky", 422, "outcome"},
		{"/fires?outcome=missed&unfired=true", 422, "unfired"},
		{"/fires?since=now", 422, "since"},
		{"/fires?since=2026-02-01T00:00:00Z&until=2026-01-01T00:00:00Z", 422, "since"},
		{"/fires?cursor=e30", 422, "cursor"},
		{"/fires?cursor=W10", 422, "cursor"},
		{"/schedules/default/timed/none/fires", 404, ""},
	} {
		a := b.get("/api/v1" + c.path)
		kind := api.ProblemInvalid
		if c.status == 404 {
			kind = api.ProblemNotFound
		}
		if p := wantProblem(t, a, c.status, kind); !strings.Contains(p.Detail, c.say) {
			t.Errorf("%s: %s", c.path, p.Detail)
		}
	}
	if a := b.get("/api/v1/schedules/default/timed/.."); a.status == 200 && strings.Contains(a.body, "nightly") {
		t.Errorf("..: %s", a.body)
	}
}

func TestNextFires(t *testing.T) {
	b := newBed(t, true)
	b.put("timed", timed)
	n := want[api.NextFires](t, b.get(oneSchedule+"nightly/next?n=3&from=2027-03-26T12:00:00Z"), 200)
	var got []string
	for _, at := range n.Items {
		got = append(got, at.Time.UTC().Format(time.RFC3339)+" "+at.Local)
	}
	wanted := "2027-03-27T01:15:00Z 2027-03-27T02:15:00+01:00, 2027-03-28T01:00:00Z 2027-03-28T03:00:00+02:00, 2027-03-29T00:15:00Z 2027-03-29T02:15:00+02:00"
	if strings.Join(got, ", ") != wanted {
		t.Errorf("%v", got)
	}
	if len(n.Shifts) != 1 || n.Shifts[0].From != "+01:00" || n.Shifts[0].To != "+02:00" || n.Shifts[0].Effect == "" || n.Shifts[0].Trigger != "nightly" {
		t.Errorf("shifts %+v", n.Shifts)
	}
	if n := must(b.client.NextFires(t.Context(), "timed", "nightly", skein.NextQuery{})); len(n.Items) != 20 || !n.Items[0].Time.After(time.Now()) {
		t.Errorf("%d instants", len(n.Items))
	}
	for trigger, wanted := range map[string]int{"1..a_b-c": 2, "once": 1, "weekly": 20, "hook": 0, "after": 0} {
		if n := must(b.client.NextFires(t.Context(), "timed", trigger, skein.NextQuery{})); len(n.Items) != wanted {
			t.Errorf("%s: %d instants, want %d", trigger, len(n.Items), wanted)
		}
	}
	for _, from := range []string{"9999-12-31T23:59:59Z", "2199-12-31T23:59:59Z"} {
		if n := want[api.NextFires](t, b.get(oneSchedule+"nightly/next?from="+from), 200); len(n.Items) != 0 {
			t.Errorf("%s: %v", from, n.Items)
		}
	}
	want[api.NextFires](t, b.get(oneSchedule+"nightly/next?from=0001-01-01T00:00:01Z"), 200)

	all := must(b.client.AllNextFires(t.Context(), skein.NextQuery{N: 10}))
	seen := map[string]int{}
	for i, at := range all.Items {
		seen[at.Trigger]++
		if i > 0 && at.Time.Before(all.Items[i-1].Time.Time) {
			t.Errorf("out of order: %v", all.Items)
		}
	}
	if len(all.Items) != 10 || seen["1..a_b-c"] != 2 || seen["nightly"] != 8 || seen["weekly"] != 0 {
		t.Errorf("%v", seen)
	}
	later := must(b.client.AllNextFires(t.Context(), skein.NextQuery{N: 1000, From: time.Date(2198, 12, 30, 0, 0, 0, 0, time.UTC), Namespace: "default"}))
	seen = map[string]int{}
	for _, at := range later.Items {
		seen[at.Trigger]++
	}
	if seen["once"] != 1 || seen["nightly"] < 360 {
		t.Errorf("%v", seen)
	}
	if none := must(b.client.AllNextFires(t.Context(), skein.NextQuery{Namespace: "other"})); none.Items == nil || len(none.Items) != 0 {
		t.Errorf("%v", none.Items)
	}
}

func TestSchedulePauseAndResume(t *testing.T) {
	b := newBed(t, true)
	b.put("timed", timed)
	body := `{"reason":"stock taking"}`
	p := want[api.Schedule](t, b.post(oneSchedule+"nightly:pause", body, api.HeaderClaimedBy, "ada", api.HeaderIdempotencyKey, "k1"), 200)
	if p.State != "paused" || *p.PausedBy != "local (ada)" || *p.Reason != "stock taking" || p.Next != nil {
		t.Errorf("%+v", p)
	}
	again := want[api.Schedule](t, b.post(oneSchedule+"nightly:pause", `{"reason":"me too"}`, api.HeaderClaimedBy, "bob"), 200)
	if *again.PausedBy != "local (ada)" || again.ModifiedAt != p.ModifiedAt {
		t.Errorf("paused twice: %+v", again)
	}
	want[api.Schedule](t, b.post(oneSchedule+"nightly:resume", ""), 200)
	// The key was used before, so this call does not pause the trigger again.
	if s := want[api.Schedule](t, b.post(oneSchedule+"nightly:pause", body, api.HeaderIdempotencyKey, "k1"), 200); s.State != "active" || s.PausedBy != nil {
		t.Errorf("%+v", s)
	}
	wantProblem(t, b.post(oneSchedule+"nightly:pause", `{"reason":"other"}`, api.HeaderIdempotencyKey, "k1"), 409, api.ProblemIdempotency)
	if s := must(b.client.ResumeSchedule(t.Context(), "timed", "weekly", "")); s.State != "active" || s.Next == nil {
		t.Errorf("%+v", s)
	}
	wantProblem(t, b.post(oneSchedule+"none:pause", ""), 404, api.ProblemNotFound)
	wantProblem(t, b.post(oneSchedule+"nightly:dance", ""), 404, api.ProblemNotFound)
	wantProblem(t, b.post(oneSchedule+"nightly:pause", `{"reason":"`+strings.Repeat("x", 1001)+`"}`), 422, api.ProblemInvalid)
	wantProblem(t, b.post(oneSchedule+"nightly:pause", `{"because":"x"}`), 422, api.ProblemInvalid)

	b.restart()
	if s := must(b.client.Schedule(t.Context(), "timed", "weekly")); s.State != "active" {
		t.Errorf("after a restart: %+v", s)
	}
}

// TestPlannedPauseOfSchedule: the range is shown by the trigger, its next instants, a forecast and explain.
func TestPlannedPauseOfSchedule(t *testing.T) {
	b := newBed(t, true)
	b.put("timed", timed)
	first := must(b.client.NextFires(t.Context(), "timed", "nightly", skein.NextQuery{N: 3}))
	from, until := first.Items[0].Time, first.Items[2].Time
	body := fmt.Sprintf(`{"reason":"holidays","until":%q}`, until)
	p := want[api.Schedule](t, b.post(oneSchedule+"nightly:pause", body, api.HeaderClaimedBy, "ada", api.HeaderIdempotencyKey, "k9"), 200)
	if p.State != "active" || len(p.PlannedPauses) != 1 || *p.PlannedPauses[0].By != "local (ada)" || *p.PlannedPauses[0].Reason != "holidays" ||
		p.Next == nil || !p.Next.Equal(until.Time) || !p.PlannedPauses[0].Until.Equal(until.Time) {
		t.Errorf("%+v", p)
	}
	want[api.Schedule](t, b.post(oneSchedule+"nightly:pause", body, api.HeaderIdempotencyKey, "k9"), 200)
	wantProblem(t, b.post(oneSchedule+"nightly:pause", `{"reason":"holidays"}`, api.HeaderIdempotencyKey, "k9"), 409, api.ProblemIdempotency)
	wantProblem(t, b.post(oneSchedule+"nightly:pause", body), 409, api.ProblemConflict)
	wantProblem(t, b.post(oneSchedule+"nightly:pause", fmt.Sprintf(`{"from":%q}`, from)), 422, api.ProblemInvalid)
	wantProblem(t, b.post(oneSchedule+"nightly:pause", `{"until":"2020-01-01T00:00:00Z"}`), 422, api.ProblemInvalid)
	wantProblem(t, b.post(oneSchedule+"nightly:pause", `{"until":"soon"}`), 422, api.ProblemInvalid)

	if next := must(b.client.NextFires(t.Context(), "timed", "nightly", skein.NextQuery{N: 1})); !next.Items[0].Time.Equal(until.Time) {
		t.Errorf("next: %+v", next.Items)
	}
	for _, i := range must(b.client.AllNextFires(t.Context(), skein.NextQuery{N: 1000})).Items {
		if i.Trigger == "nightly" && i.Time.Before(until.Time) {
			t.Errorf("among all: %+v", i)
		}
	}
	sim := must(b.client.Simulate(t.Context(), api.SimulateRequest{Workflow: "timed", To: until}))
	for _, is := range sim.Triggers {
		if is.Trigger == "nightly" && is.Fires != 1 {
			t.Errorf("forecast: %+v", is)
		}
	}
	e := want[api.Explanation](t, b.get("/api/v1/workflows/default/timed/explain"), 200)
	if !slices.ContainsFunc(e.Reasons, func(r api.Reason) bool {
		return r.Code == "trigger_pause_planned" && r.Args["user"] == "local (ada)" && r.Args["reason"] == "holidays"
	}) {
		t.Errorf("explain: %+v", e.Reasons)
	}
	b.restart()
	end := api.PauseRequest{Until: &p.PlannedPauses[0].Until}
	if s := must(skein.EndPause(t.Context(), b.client, "timed", "nightly", end)); len(s.PlannedPauses) != 0 || !s.Next.Equal(from.Time) {
		t.Errorf("ended: %+v", s)
	}
	if _, err := skein.EndPause(t.Context(), b.client, "timed", "nightly", end); err == nil {
		t.Error("ended twice")
	}
	end.From = &api.Time{Time: from.Time}
	if s := must(skein.PlanPause(t.Context(), b.client, "timed", "nightly", end)); s.Next == nil || len(s.PlannedPauses) != 1 || !s.PlannedPauses[0].From.Equal(from.Time) {
		t.Errorf("from the first instant: %+v", s)
	}
}

const brief = `
name: brief
triggers:
  - {name: tick, every: 1s, count: 2, overlap: allow}
tasks: {a: {run: "true"}}
`

func TestEndedScheduleIsNotResumed(t *testing.T) {
	b := newBed(t, true)
	b.put("brief", brief)
	eventually(t, "the trigger ends", func() bool { return must(b.client.Schedule(t.Context(), "brief", "tick")).State == "ended" })
	s := must(b.client.Schedule(t.Context(), "brief", "tick"))
	if s.Fired != 2 || s.Next != nil || s.Reason == nil || s.LastFire == nil || s.LastFire.Outcome != "fired" || s.LastFire.Run == nil {
		t.Errorf("%+v", s)
	}
	for _, verb := range []string{"pause", "resume"} {
		wantProblem(t, b.post("/api/v1/schedules/default/brief/tick:"+verb, ""), 409, api.ProblemConflict)
	}
	if n := must(b.client.NextFires(t.Context(), "brief", "tick", skein.NextQuery{})); len(n.Items) != 0 {
		t.Errorf("%v", n.Items)
	}
	run := must(b.client.Run(t.Context(), *s.LastFire.Run))
	if run.Origin != "schedule" || *run.Trigger != "tick" || run.Instant != s.LastFire.At || run.Backfill != nil {
		t.Errorf("%+v", run)
	}
	if run := b.run("brief"); run.Trigger != nil || run.Backfill != nil || run.Instant != run.CreatedAt {
		t.Errorf("%+v", run)
	}
}

func TestFireByHand(t *testing.T) {
	b := newBed(t, true)
	b.put("timed", timed)
	a := b.post(oneSchedule+"weekly:trigger", `{"reason":"to see"}`, api.HeaderClaimedBy, "ada", api.HeaderIdempotencyKey, "one")
	o := want[api.Occurrence](t, a, 202)
	if o.Outcome != "fired" || o.Run == nil || o.Existing || a.header.Get("Location") != "/api/v1/runs/"+*o.Run || o.Trigger != "weekly" {
		t.Errorf("%+v %v", o, a.header)
	}
	again := want[api.Occurrence](t, b.post(oneSchedule+"weekly:trigger", `{"reason":"to see"}`, api.HeaderClaimedBy, "ada", api.HeaderIdempotencyKey, "one"), 200)
	if !again.Existing || *again.Run != *o.Run {
		t.Errorf("%+v", again)
	}
	wantProblem(t, b.post(oneSchedule+"weekly:trigger", `{"reason":"other"}`, api.HeaderClaimedBy, "ada", api.HeaderIdempotencyKey, "one"), 409, api.ProblemIdempotency)
	long := strings.Repeat("因", 1000) // the ledger keeps the first 1,024 bytes
	first := want[api.Occurrence](t, b.post(oneSchedule+"weekly:trigger", `{"reason":"`+long+`"}`, api.HeaderIdempotencyKey, "long"), 202)
	again = want[api.Occurrence](t, b.post(oneSchedule+"weekly:trigger", `{"reason":"`+long+`"}`, api.HeaderIdempotencyKey, "long"), 200)
	if !again.Existing || *again.Run != *first.Run || *again.Reason != *first.Reason {
		t.Errorf("%+v, then %+v", first, again)
	}
	wantProblem(t, b.post(oneSchedule+"weekly:trigger", `{"reason":"other"}`, api.HeaderIdempotencyKey, "long"), 409, api.ProblemIdempotency)
	run := must(b.client.Run(t.Context(), *o.Run, skein.Wait(30*time.Second)))
	if run.Origin != "manual" || run.User != "local (ada)" || *run.Trigger != "weekly" || run.State != "succeeded" {
		t.Errorf("%+v", run)
	}
	if s := must(b.client.Schedule(t.Context(), "timed", "weekly")); s.State != "paused" || s.Fired != 2 {
		t.Errorf("%+v", s)
	}
	other := must(b.client.FireSchedule(t.Context(), "timed", "weekly", "")) // without a key, each call is a fire of its own
	if other.Run == nil || *other.Run == *o.Run {
		t.Errorf("%+v", other)
	}
	must(b.client.PauseWorkflow(t.Context(), "timed"))
	none := want[api.Occurrence](t, b.post(oneSchedule+"weekly:trigger", ""), 200)
	if none.Run != nil || none.Outcome != "skipped" || *none.Reason != "the workflow is paused, when local asked for it" ||
		len(none.Reasons) != 2 || none.Reasons[0].Code != "workflow_state" || none.Reasons[0].Args["state"] != "paused" || none.Reasons[1].Args["actor"] != "local" {
		t.Errorf("%+v", none)
	}
}

func TestFires(t *testing.T) {
	b := newBed(t, true)
	b.put("timed", timed)
	b.put("brief", brief)
	for i := range 5 {
		must(b.client.FireSchedule(t.Context(), "timed", "nightly", "", skein.Key(fmt.Sprint(i))))
	}
	must(b.client.PauseWorkflow(t.Context(), "timed"))
	must(b.client.FireSchedule(t.Context(), "timed", "weekly", ""))
	eventually(t, "two fires of brief", func() bool { return must(b.client.Schedule(t.Context(), "brief", "tick")).Fired == 2 })
	for query, n := range map[string]int{
		"": 8, "workflow=timed": 6, "workflow=timed&trigger=nightly": 5, "outcome=skipped": 1, "unfired=true": 1, "workflow=timed&unfired=true": 1,
		"workflow=brief&outcome=fired": 2, "until=2020-01-01T00:00:00Z": 0, "since=9999-01-01T00:00:00Z": 0, "workflow=timed&trigger=gone": 0,
	} {
		if got := want[api.List[api.Fire]](t, b.get("/api/v1/fires?"+query), 200); len(got.Items) != n {
			t.Errorf("%s: %d, want %d", query, len(got.Items), n)
		}
	}
	seen := map[string]bool{}
	for f, err := range b.client.EachFire(t.Context(), skein.FiresQuery{Limit: 3}) {
		if err != nil {
			t.Fatal(err)
		}
		id := f.Workflow + f.Trigger + f.At.String()
		if f.Key != nil {
			id += *f.Key
		}
		if seen[id] || f.Count != 1 || f.At.After(f.Last.Time) {
			t.Errorf("%+v", f)
		}
		seen[id] = true
	}
	if len(seen) != 8 {
		t.Errorf("paged: %d", len(seen))
	}
	if own := want[api.List[api.Fire]](t, b.get(oneSchedule+"nightly/fires?limit=2"), 200); len(own.Items) != 2 || own.Next == nil {
		t.Errorf("%+v", own)
	}
	// The ledger of a trigger outlives its declaration.
	must(b.client.ResumeWorkflow(t.Context(), "timed"))
	b.put("timed", strings.Replace(timed, "name: nightly", "name: dawn", 1))
	wantProblem(t, b.get(oneSchedule+"nightly"), 404, api.ProblemNotFound)
	if own := want[api.List[api.Fire]](t, b.get(oneSchedule+"nightly/fires"), 200); len(own.Items) < 5 {
		t.Errorf("%d lines", len(own.Items))
	}
}

func TestTriggersAreApplied(t *testing.T) {
	b := newBed(t, true)
	apply := func(body string) answer {
		return b.do("PUT", "/api/v1/workflows/default/cal", body, "Content-Type", "application/json")
	}
	file := func(trigger string) string {
		return `{"source":"name: cal\ntriggers:\n  - ` + trigger + `\ntasks: {a: {run: \"true\"}}\n"`
	}
	const daily = `{name: d, daily: {at: \"06:00\"}, calendar: {exclude: days.txt}}`
	p := wantProblem(t, apply(file(daily)+`}`), 422, api.ProblemInvalidWorkflow)
	if !strings.Contains(p.Detail, "days.txt") || p.Errors[0].Line != 3 {
		t.Errorf("%+v", p)
	}
	want[api.Applied](t, apply(file(daily)+`,"files":[{"name":"days.txt","mode":420,"data":"MjAyNy0wMS0wMQo="}]}`), http.StatusCreated)
	n := want[api.NextFires](t, b.get("/api/v1/schedules/default/cal/d/next?n=1&from=2026-12-31T12:00:00Z"), 200)
	if n.Items[0].Time.String() != "2027-01-02T06:00:00.000000Z" {
		t.Errorf("%v", n.Items)
	}
	const watch = `{name: f, file: {path: in, pattern: \"*.csv\"}}`
	wantProblem(t, apply(file(watch)+`}`), 422, api.ProblemInvalidWorkflow) // the folder is relative
	want[api.Applied](t, apply(file(watch)+`,"dir":"/srv/cal"}`), 200)
	if s := must(b.client.Schedule(t.Context(), "cal", "f")); s.Expression != "/srv/cal/in/*.csv" {
		t.Errorf("%+v", s)
	}
	for _, bad := range []string{`{cron: \"0 0 30 2 *\"}`, `{cron: \"*/0 * * * *\"}`, `{cron: \"0 9 * * *\", timezone: Europe/Atlantis}`,
		`{at: 9999-12-31T00:00:00Z}`, `{every: 0s}`} {
		wantProblem(t, apply(file(bad)+`}`), 422, api.ProblemInvalidWorkflow)
	}
}

func TestWaitingRunsSayWhy(t *testing.T) {
	b := newBed(t, false)
	b.put("timed", strings.NewReplacer("max_concurrent_runs: 4", "max_concurrent_runs: 1", "delay_tolerance: 30m", "delay_tolerance: 1s").Replace(timed))
	first := must(b.client.FireSchedule(t.Context(), "timed", "once", ""))
	held := <-b.exec.got
	waits := must(b.client.FireSchedule(t.Context(), "timed", "weekly", ""))
	run := must(b.client.Run(t.Context(), *waits.Run))
	if run.State != "waiting" || run.StartedAt != nil {
		t.Errorf("%+v", run)
	}
	if x := must(b.client.Explain(t.Context(), *waits.Run, "")); len(x.Reasons) == 0 || x.State != "waiting" {
		t.Errorf("%+v", x)
	}
	// The instant of another trigger may be due at this moment.
	if page := want[api.List[api.Run]](t, b.get("/api/v1/runs?state=waiting&workflow=timed"), 200); !slices.ContainsFunc(page.Items, func(r api.Run) bool { return r.ID == *waits.Run }) {
		t.Errorf("%+v", page.Items)
	}
	b.exec.end(held, succeeded())
	b.exec.end(<-b.exec.got, succeeded())
	for _, id := range []string{*first.Run, *waits.Run} {
		if run := must(b.client.Run(t.Context(), id, skein.Wait(30*time.Second))); run.State != "succeeded" {
			t.Errorf("%+v", run)
		}
	}
}

const impatient = `
name: impatient
max_concurrent_runs: 1
triggers:
  - {name: tick, every: 1s, overlap: allow, delay_tolerance: 1s}
tasks: {a: {run: "true"}}
`

func TestMissedRunsSayWhy(t *testing.T) {
	b := newBed(t, false)
	b.put("impatient", impatient)
	held := <-b.exec.got
	var missed api.Run
	eventually(t, "a run that did not begin in time", func() bool {
		page := want[api.List[api.Run]](t, b.get("/api/v1/runs?state=skipped"), 200)
		if len(page.Items) > 0 {
			missed = page.Items[len(page.Items)-1]
		}
		return len(page.Items) > 0
	})
	if missed.Cause == nil || *missed.Cause != "missed" || missed.Message == nil {
		t.Errorf("%+v", missed)
	}
	must(b.client.PauseSchedule(t.Context(), "impatient", "tick", ""))
	lines := want[api.List[api.Fire]](t, b.get("/api/v1/fires?outcome=missed"), 200)
	if len(lines.Items) == 0 || lines.Items[0].Reason == nil || lines.Items[0].Run == nil ||
		len(lines.Items[0].Reasons) != 1 || lines.Items[0].Reasons[0].Code != "not_begun" || *missed.Message != "did not begin by "+lines.Items[0].Reasons[0].Args["until"] {
		t.Errorf("%+v", lines.Items)
	}
	b.exec.end(held, succeeded())
}

// TestFilesOfTheNodeAreNotWatched: apply and validate refuse a trigger that watches the folder of the node.
func TestFilesOfTheNodeAreNotWatched(t *testing.T) {
	b := newBed(t, true)
	for _, trigger := range []string{"{name: f, file: {path: %s/secrets}}", "{name: f, absent: {file: %s/a.csv, by: 1h}}"} {
		source := "name: w\ntriggers:\n  - " + fmt.Sprintf(trigger, b.dir) + "\ntasks: {a: {run: x}}\n"
		p := wantProblem(t, b.do("PUT", "/api/v1/workflows/default/w", source, "Content-Type", "application/yaml"), 422, api.ProblemInvalidWorkflow)
		if len(p.Errors) != 1 || p.Errors[0].Key != "triggers.f" {
			t.Errorf("%s: %+v", trigger, p.Errors)
		}
		v := want[api.Validation](t, b.do("POST", "/api/v1/validate", source, "Content-Type", "application/yaml"), 200)
		if len(v.Errors) != 1 {
			t.Errorf("%s: validate: %+v", trigger, v.Errors)
		}
	}
}

// TestSchedulesOfEachKind: the API accepts each kind of trigger that a workflow file can have, and returns
// it.
func TestSchedulesOfEachKind(t *testing.T) {
	b := newBed(t, true)
	b.put("fed", `
name: fed
triggers:
  - {name: a, poll: {url: "http://127.0.0.1:1/orders"}}
  - {name: b, query: {connection: shop, query: "SELECT id FROM o WHERE id > :cursor ORDER BY id LIMIT 5", cursor: id}}
  - {name: c, object: {url: "file:///srv/in"}}
tasks: {a: {run: "true"}}
`)
	var schema struct {
		Properties struct {
			Triggers struct {
				Items struct {
					OneOf []struct{ Required []string }
				}
			}
		}
	}
	if err := json.Unmarshal(workflow.Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	kinds := []string{workflow.KindStart}
	for _, form := range schema.Properties.Triggers.Items.OneOf {
		kinds = append(kinds, form.Required...)
	}
	field, _ := reflect.TypeFor[api.Schedule]().FieldByName("Kind")
	answered := strings.Split(field.Tag.Get("enum"), ",")
	for _, kind := range kinds {
		few := 0
		if slices.Contains([]string{workflow.KindPoll, workflow.KindQuery, workflow.KindObject}, kind) {
			few = 1
		}
		if page := want[api.List[api.Schedule]](t, b.get("/api/v1/schedules?kind="+kind), 200); len(page.Items) != few {
			t.Errorf("%s: %d triggers, want %d", kind, len(page.Items), few)
		}
		if !slices.Contains(answered, kind) {
			t.Errorf("the answer of the API has no kind %s", kind)
		}
	}
}
