package server_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

const daily = `
name: daily
priority: low
params:
  day: {type: string, format: date, default: "${{ date(trigger.time) }}"}
  n: {type: int, default: 1}
triggers:
  - {name: d, daily: {at: "06:00"}, params: {n: 2}}
  - {name: hook, webhook: {secret: hook}}
tasks:
  a: {run: "true"}
`

func (b *bed) backfill(body string, status int, header ...string) api.Backfill {
	b.t.Helper()
	return want[api.Backfill](b.t, b.post("/api/v1/backfills", body, header...), status)
}

func (b *bed) backfillEnds(id int64) api.Backfill {
	b.t.Helper()
	var is api.Backfill
	eventually(b.t, "the backfill ends", func() bool {
		is = must(b.client.Backfill(b.t.Context(), id))
		return is.Over()
	})
	return is
}

const january = `"from":"2026-01-01T00:00:00Z","to":"2026-01-05T23:00:00Z"`

func TestBackfill(t *testing.T) {
	b := newBed(t, true)
	b.put("daily", daily)
	plan := b.backfill(`{"workflow":"daily","dry_run":true,`+january+`}`, 200)
	if plan.ID != 0 || plan.State != "planned" || plan.Total != 5 || len(plan.Samples) != 5 || plan.CreatedAt != nil ||
		plan.First.String() != "2026-01-01T06:00:00.000000Z" || plan.Last.String() != "2026-01-05T06:00:00.000000Z" {
		t.Errorf("%+v", plan)
	}
	if page := must(b.client.Backfills(t.Context(), skein.BackfillsQuery{})); len(page.Items) != 0 {
		t.Errorf("a dry run is kept: %+v", page.Items)
	}
	a := b.post("/api/v1/backfills", `{"workflow":"daily","order":"descending","parallel":2,"params":{"n":3},`+january+`}`, api.HeaderClaimedBy, "ada")
	made := want[api.Backfill](t, a, 202)
	if made.ID == 0 || made.Total != 5 || *made.Trigger != "d" || made.Order != "descending" || made.Parallel != 2 || made.Only != "all" || made.User != "local (ada)" ||
		made.Priority != "low" || made.Params["n"] != int64(3) || made.From.String() != "2026-01-01T00:00:00.000000Z" || made.First.Day() != 5 || made.Samples != nil {
		t.Errorf("%+v", made)
	}
	if a.header.Get("Location") != fmt.Sprintf("/api/v1/backfills/%d", made.ID) {
		t.Errorf("%v", a.header)
	}
	end := b.backfillEnds(made.ID)
	if end.State != "done" || end.Started != 5 || end.Ended != 5 || end.Failed != 0 || end.Active != 0 || end.NextInstant != nil {
		t.Errorf("%+v", end)
	}
	var days []string
	for r, err := range b.client.EachBackfillRun(t.Context(), made.ID) {
		if err != nil {
			t.Fatal(err)
		}
		run := must(b.client.Run(t.Context(), r.Run))
		if run.Origin != "backfill" || *run.Backfill != made.ID || run.Instant != r.Instant || *r.State != "succeeded" || run.Params["n"] != int64(3) || run.Priority != "low" {
			t.Errorf("%+v %+v", run, r)
		}
		days = append(days, run.Params["day"].(string))
	}
	if strings.Join(days, " ") != "2026-01-01 2026-01-02 2026-01-03 2026-01-04 2026-01-05" {
		t.Errorf("%v", days)
	}
	wantProblem(t, b.post("/api/v1/backfills", `{"workflow":"daily","only":"missing",`+january+`}`), 422, api.ProblemNothing)
	if more := b.backfill(`{"workflow":"daily","only":"failed_or_missing","from":"2026-01-04T00:00:00Z","to":"2026-01-08T00:00:00Z","dry_run":true}`, 200); more.Total != 2 {
		t.Errorf("%+v", more)
	}
}

func TestBackfillOfFailedOnes(t *testing.T) {
	b := newBed(t, false)
	b.put("daily", daily)
	first := b.backfill(`{"workflow":"daily","parallel":5,`+january+`}`, 202)
	for i := range 5 {
		r := succeeded()
		if i < 2 {
			r = dag.Result{State: dag.AttemptFailed, ExitCode: 1}
		}
		b.exec.end(<-b.exec.got, r)
	}
	if end := b.backfillEnds(first.ID); end.Failed != 2 {
		t.Errorf("%+v", end)
	}
	again := b.backfill(`{"workflow":"daily","parallel":5,"only":"failed",`+january+`}`, 202)
	if again.Total != 2 || again.Only != "failed" {
		t.Errorf("%+v", again)
	}
	for range 2 {
		b.exec.end(<-b.exec.got, succeeded())
	}
	b.backfillEnds(again.ID)
	// Only the newest run of each instant matters, and none of these has failed.
	wantProblem(t, b.post("/api/v1/backfills", `{"workflow":"daily","only":"failed",`+january+`}`), 422, api.ProblemNothing)
}

func TestBackfillVerbs(t *testing.T) {
	b := newBed(t, false)
	b.put("daily", daily)
	made := b.backfill(`{"workflow":"daily",`+january+`}`, 202)
	one := fmt.Sprintf("/api/v1/backfills/%d", made.ID)
	held := <-b.exec.got
	if is := must(b.client.Backfill(t.Context(), made.ID)); is.Active != 1 || is.NextInstant.Day() != 2 {
		t.Errorf("%+v", is)
	}
	p := want[api.Backfill](t, b.post(one+":pause", "", api.HeaderIdempotencyKey, "p"), 200)
	if p.State != "paused" {
		t.Errorf("%+v", p)
	}
	if p := want[api.Backfill](t, b.post(one+":pause", ""), 200); p.State != "paused" {
		t.Errorf("%+v", p)
	}
	b.exec.end(held, succeeded())
	eventually(t, "its run ends", func() bool { return must(b.client.Backfill(t.Context(), made.ID)).Ended == 1 })
	b.restart()
	if is := must(b.client.Backfill(t.Context(), made.ID)); is.State != "paused" || is.Started != 1 {
		t.Errorf("after a restart: %+v", is)
	}
	if p := must(b.client.ResumeBackfill(t.Context(), made.ID)); p.State != "running" {
		t.Errorf("%+v", p)
	}
	if p := want[api.Backfill](t, b.post(one+":pause", "", api.HeaderIdempotencyKey, "p"), 200); p.State != "running" {
		t.Errorf("a key that was used: %+v", p)
	}
	b.exec.end(<-b.exec.got, succeeded())
	held = <-b.exec.got
	c := must(b.client.CancelBackfill(t.Context(), made.ID))
	if c.State != "cancelled" || c.Active != 1 || c.Over() || c.NextInstant != nil {
		t.Errorf("%+v", c)
	}
	b.exec.end(held, succeeded())
	if end := b.backfillEnds(made.ID); end.Started != 3 || end.Ended != 3 {
		t.Errorf("%+v", end)
	}
	for _, verb := range []string{"pause", "resume"} {
		wantProblem(t, b.post(one+":"+verb, ""), 409, api.ProblemConflict)
	}
	want[api.Backfill](t, b.post(one+":cancel", ""), 200)
	wantProblem(t, b.post("/api/v1/backfills/1:pause", ""), 404, api.ProblemNotFound)
}

func TestBackfillUnderAKey(t *testing.T) {
	b := newBed(t, true)
	b.put("daily", daily)
	body := `{"workflow":"daily",` + january + `}`
	first := b.backfill(body, 202, api.HeaderIdempotencyKey, "k")
	b.backfill(body, 202)
	b.backfillEnds(first.ID)
	b.restart()
	again := b.backfill(body, 200, api.HeaderIdempotencyKey, "k")
	if again.ID != first.ID {
		t.Errorf("%d, %d", first.ID, again.ID)
	}
	wantProblem(t, b.post("/api/v1/backfills", `{"workflow":"daily","parallel":3,`+january+`}`, api.HeaderIdempotencyKey, "k"), 409, api.ProblemIdempotency)

	ids := make(chan int64, 8)
	for range cap(ids) {
		go func() {
			m, _, err := b.client.StartBackfill(t.Context(), api.BackfillRequest{Workflow: "daily", Instants: []api.Time{{Time: time.Unix(1e9, 0)}}}, skein.Key("together"))
			if err != nil {
				t.Error(err)
			}
			ids <- m.ID
		}()
	}
	seen := map[int64]bool{}
	for range cap(ids) {
		seen[<-ids] = true
	}
	if len(seen) != 1 {
		t.Errorf("one key made %v", seen)
	}
	var all []int64
	for m, err := range b.client.EachBackfill(t.Context(), skein.BackfillsQuery{Workflow: "daily", Limit: 2}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m.ID)
	}
	if len(all) != 3 || all[0] < all[1] {
		t.Errorf("%v", all)
	}
}

func TestBackfillOfAList(t *testing.T) {
	b := newBed(t, true)
	b.apply("plain")
	list := `"instants":["2026-01-03T00:00:00Z","2026-01-01T00:00:00+01:00","2026-01-03T00:00:00Z"]`
	made := b.backfill(`{"workflow":"plain",`+list+`}`, 202)
	if made.Total != 2 || made.Trigger != nil || made.From != nil || made.First.String() != "2025-12-31T23:00:00.000000Z" {
		t.Errorf("%+v", made)
	}
	b.backfillEnds(made.ID)
	runs := must(b.client.BackfillRuns(t.Context(), made.ID, "", 1))
	if len(runs.Items) != 1 || runs.Next == nil || runs.Items[0].FinishedAt == nil {
		t.Errorf("%+v", runs)
	}
	b.put("daily", strings.Replace(daily, "  - {name: hook", "  - {name: second, every: 1h}\n  - {name: hook", 1))
	if two := b.backfill(`{"workflow":"daily","dry_run":true,`+list+`}`, 200); two.Trigger != nil {
		t.Errorf("%+v", two)
	}
	p := wantProblem(t, b.post("/api/v1/backfills", `{"workflow":"daily",`+january+`}`), 422, api.ProblemInvalid)
	if !strings.Contains(p.Detail, "d, second") || strings.Contains(p.Detail, "hook") {
		t.Errorf("%+v", p)
	}
}

func TestBadBackfills(t *testing.T) {
	b := newBed(t, true)
	b.put("daily", daily)
	b.apply("plain")
	many := make([]string, 100_001)
	for i := range many {
		many[i] = time.Unix(int64(i+1), 0).UTC().Format(time.RFC3339)
	}
	tooMany, _ := json.Marshal(many)
	for _, c := range []struct {
		body, kind, say string
		status          int
	}{
		{`{"workflow":"none",` + january + `}`, api.ProblemNotFound, "none", 404},
		{`{"workflow":"daily","trigger":"x",` + january + `}`, api.ProblemNotFound, "hook", 404},
		{`{"workflow":"daily","trigger":"hook",` + january + `}`, api.ProblemInvalid, "hook", 422},
		{`{"workflow":"plain",` + january + `}`, api.ProblemInvalid, "instants", 422},
		{`{"workflow":"daily"}`, api.ProblemInvalid, "from", 422},
		{`{"workflow":"daily","instants":["2026-01-01T00:00:00Z"],` + january + `}`, api.ProblemInvalid, "from", 422},
		{`{"workflow":"daily","from":"2026-01-01T00:00:00Z"}`, api.ProblemInvalid, "from", 422},
		{`{"workflow":"daily","from":"2026-02-01T00:00:00Z","to":"2026-01-01T00:00:00Z"}`, api.ProblemInvalid, "", 422},
		{`{"workflow":"daily","from":"9999-01-01T00:00:00Z","to":"9999-12-31T00:00:00Z"}`, api.ProblemInvalid, "", 422},
		{`{"workflow":"daily","only":"failed",` + january + `}`, api.ProblemNothing, "", 422},
		{`{"workflow":"daily","instants":["9999-01-01T00:00:00Z"]}`, api.ProblemInvalid, "", 422},
		{`{"workflow":"daily","instants":["0001-01-02T00:00:00Z"]}`, api.ProblemInvalid, "", 422},
		{`{"workflow":"daily","instants":["tomorrow"]}`, api.ProblemInvalid, "", 422},
		{`{"workflow":"daily","from":"tomorrow","to":"2026-01-01T00:00:00Z"}`, api.ProblemInvalid, "from", 422},
		{`{"workflow":"daily","instants":` + string(tooMany) + `}`, api.ProblemInvalid, "instants", 422},
		{`{"workflow":"daily","parallel":-1,` + january + `}`, api.ProblemInvalid, "parallel", 422},
		{`{"workflow":"daily","parallel":10001,` + january + `}`, api.ProblemInvalid, "parallel", 422},
		{`{"workflow":"daily","order":"random",` + january + `}`, api.ProblemInvalid, "order", 422},
		{`{"workflow":"daily","only":"some",` + january + `}`, api.ProblemInvalid, "only", 422},
		{`{"workflow":"daily","priority":"urgent",` + january + `}`, api.ProblemInvalid, "priority", 422},
		{`{"workflow":"daily","params":{"x":1},` + january + `}`, api.ProblemInvalidParams, "x", 422},
		{`{"workflow":"daily","params":{"n":"many"},` + january + `}`, api.ProblemInvalidParams, "n", 422},
		{`{"workflow":"daily","colour":"red",` + january + `}`, api.ProblemInvalid, "colour", 422},
	} {
		p := wantProblem(t, b.post("/api/v1/backfills", c.body), c.status, c.kind)
		if !strings.Contains(p.Detail, c.say) {
			t.Errorf("%.100s: %s", c.body, p.Detail)
		}
	}
	secondly := strings.Replace(daily, `daily: {at: "06:00"}`, "every: 1m", 1)
	b.put("daily", secondly)
	p := wantProblem(t, b.post("/api/v1/backfills", `{"workflow":"daily","from":"2020-01-01T00:00:00Z","to":"2026-01-01T00:00:00Z"}`), 422, api.ProblemInvalid)
	if !strings.Contains(p.Detail, strconv.Itoa(dag.InstantsMax)) {
		t.Errorf("%+v", p)
	}
	for path, status := range map[string]int{"/backfills/0": 422, "/backfills/x": 422, "/backfills/5": 404, "/backfills/5/runs": 404, "/backfills?cursor=!": 422,
		"/backfills?state=odd": 422, "/backfills?workflow=none": 404, "/backfills/99999999999999999999": 422} {
		if a := b.get("/api/v1" + path); a.status != status {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	if page := must(b.client.Backfills(t.Context(), skein.BackfillsQuery{State: "running"})); page.Items == nil || len(page.Items) != 0 {
		t.Errorf("%+v", page)
	}
}
