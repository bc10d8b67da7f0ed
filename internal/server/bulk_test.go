package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/server"
	api "skein.dev/skein/sdk/api/v1"
)

// TestBulk: a verb is applied once to exactly the chosen runs, after the caller has agreed to their number.
// Each run has its outcome.
func TestBulk(t *testing.T) {
	b := newBed(t, false)
	b.apply("hold")
	b.apply("shape")
	var ids []string
	for range 3 {
		ids = append(ids, want[api.Run](t, b.post("/api/v1/runs", `{"workflow":"hold"}`, api.HeaderClaimedBy, "ada"), 202).ID)
	}
	other := want[api.Run](t, b.post("/api/v1/runs", `{"workflow":"shape"}`), 202).ID
	intent := func(id string) string { return want[api.Run](t, b.get("/api/v1/runs/"+id), 200).Intent }

	dry := want[api.BulkResult](t, b.post("/api/v1/runs:pause", `{"workflow":"hold","dry_run":true}`), 200)
	if dry.Count != 3 || dry.Done != 0 || len(dry.Items) != 3 || dry.Items[0].ID != ids[2] || dry.Items[0].Outcome != "would" || dry.Items[0].Run.Workflow != "hold" {
		t.Errorf("%+v", dry)
	}
	for body, says := range map[string]string{
		`{"workflow":"hold"}`:               "give expect: 3",
		`{}`:                                "no runs are selected",
		`{"state":"active","confirm":true}`: "no runs are selected",
		`{"runs":["x"]}`:                    `no run \"x\"`,
		`{"runs":["` + ids[0] + `"],"user":"ada"}`:     "ids of runs or a filter",
		`{"all":true,"limit":1001,"confirm":true}`:     "1000",
		`{"all":true,"confirm":true,"since":"monday"}`: "RFC 3339",
	} {
		if a := b.post("/api/v1/runs:pause", body); !strings.Contains(a.body, says) {
			t.Errorf("%s: %s", body, a.body)
		} else {
			wantProblem(t, a, 422, api.ProblemInvalid)
		}
	}
	wantProblem(t, b.post("/api/v1/runs:pause", `{"workflow":"nowhere","confirm":true}`), 404, api.ProblemNotFound)
	wantProblem(t, b.post("/api/v1/runs:pause", `{"workflow":"hold","expect":2}`), 409, api.ProblemConflict)
	wantProblem(t, b.post("/api/v1/runs:pause", `{"workflow":"hold","limit":2,"expect":2}`), 409, api.ProblemConflict)
	for _, id := range ids {
		if got := intent(id); got != "run" {
			t.Fatalf("%s although it was refused", got)
		}
	}

	// Each filter of the list of runs selects the same runs as there.
	b.post("/api/v1/runs", `{"workflow":"hold","tags":{"team":"data"}}`)
	for _, f := range []struct{ query, body string }{
		{"ns=default", `"ns":"default"`}, {"ns=nowhere", `"ns":"nowhere"`}, {"tag=team%3Ddata", `"tag":["team=data"]`},
		{"origin=api", `"run_origin":"api"`}, {"origin=schedule", `"run_origin":"schedule"`}, {"trigger=daily", `"trigger":"daily"`}, {"cause=exit", `"cause":"exit"`},
		{"backfill=7", `"backfill":7`}, {"node=n1", `"node":"n1"`}, {"node=other", `"node":"other"`}, {"parent=" + other, `"parent":"` + other + `"`},
		{"q=" + ids[1], `"q":"` + ids[1] + `"`}, {"until=2020-01-01T00:00:00Z", `"until":"2020-01-01T00:00:00Z"`},
		{"ns=default&tag=team%3Ddata&q=hold", `"ns":"default","tag":["team=data"],"q":"hold"`},
	} {
		listed := want[api.List[api.Run]](t, b.get("/api/v1/runs?state=active&"+f.query), 200)
		chosen := want[api.BulkResult](t, b.post("/api/v1/runs:pause", `{"dry_run":true,`+f.body+`}`), 200)
		if len(listed.Items) != chosen.Count {
			t.Errorf("%s: %d runs are listed, and %d chosen", f.query, len(listed.Items), chosen.Count)
		}
		for i := range min(len(listed.Items), chosen.Count) {
			if listed.Items[i].ID != chosen.Items[i].ID {
				t.Errorf("%s: run %d is %s, and %s is chosen", f.query, i, listed.Items[i].ID, chosen.Items[i].ID)
			}
		}
		wantProblem(t, b.post("/api/v1/runs:pause", `{`+f.body+`}`), 422, api.ProblemInvalid)
	}
	wantProblem(t, b.post("/api/v1/runs:pause", `{"tag":["team"],"dry_run":true}`), 422, api.ProblemInvalid)
	wantProblem(t, b.post("/api/v1/runs:pause", `{"label":"x","dry_run":true}`), 422, api.ProblemInvalid)

	page := want[api.BulkResult](t, b.post("/api/v1/runs:pause", `{"user":"ada","limit":2,"confirm":true}`, api.HeaderClaimedBy, "eve"), 200)
	if page.Done != 2 || page.Next == nil || intent(ids[0]) != "run" || intent(ids[1]) != "pause" {
		t.Errorf("%+v", page)
	}
	rest := want[api.BulkResult](t, b.post("/api/v1/runs:pause", fmt.Sprintf(`{"user":"ada","limit":2,"confirm":true,"cursor":%q}`, *page.Next)), 200)
	if rest.Done != 1 || rest.Next != nil || rest.Items[0].ID != ids[0] || rest.Items[0].Run.Intent != "pause" {
		t.Errorf("%+v", rest)
	}
	if a := b.get("/api/v1/runs/" + ids[1] + "/events"); !strings.Contains(a.body, "eve") {
		t.Errorf("nobody did it: %s", a.body)
	}
	if got := intent(other); got != "run" {
		t.Errorf("another workflow's run is to %s", got)
	}

	// The runs are selected by id. One of the ids belongs to no run. With the same key again, the answer is the
	// same.
	nobody := "0190a0b0-0000-7000-8000-000000000000"
	body := fmt.Sprintf(`{"runs":[%q,%q,%q],"reason":"enough"}`, ids[0], nobody, ids[0])
	for range 2 {
		res := want[api.BulkResult](t, b.post("/api/v1/runs:stop", body, "Idempotency-Key", "k"), 200)
		if res.Count != 2 || res.Done != 1 || res.Refused != 1 || res.Items[1].Problem.Type != api.ProblemNotFound || res.Items[1].Run != nil {
			t.Errorf("%+v", res)
		}
	}
	if a := b.get("/api/v1/runs/" + ids[0] + "/events"); strings.Count(a.body, "enough") != 1 {
		t.Errorf("not once: %s", a.body)
	}

	// A verb that does not fit the state of a run is refused for that run. rerun makes one new run, however often
	// the call is sent.
	res := want[api.BulkResult](t, b.post("/api/v1/runs:recover", fmt.Sprintf(`{"runs":[%q]}`, other)), 200)
	if res.Refused != 1 || res.Items[0].Problem.Type != api.ProblemConflict || res.Items[0].Run.ID != other {
		t.Errorf("%+v", res)
	}
	var again [2]string
	for i := range again {
		res := want[api.BulkResult](t, b.post("/api/v1/runs:rerun", fmt.Sprintf(`{"runs":[%q],"priority":"high"}`, other), "Idempotency-Key", "r"), 200)
		if res.Done != 1 || res.Items[0].ID != other || res.Items[0].Run.ID == other || *res.Items[0].Run.RerunOf != other || res.Items[0].Run.Priority != "high" {
			t.Errorf("%+v", res)
		}
		again[i] = res.Items[0].Run.ID
	}
	if again[0] != again[1] {
		t.Errorf("two new runs: %v", again)
	}
	got, err := b.client.VerbRuns(t.Context(), "kill", api.BulkVerb{BulkRequest: api.BulkRequest{All: true, DryRun: true}})
	if err != nil || got.Count < 4 {
		t.Errorf("%+v %v", got, err)
	}
}

// TestBulkThrough: the verb for each run is sent to the node that has the run, on behalf of the caller. If a
// node breaks the connection, only its run fails.
func TestBulkThrough(t *testing.T) {
	b := newBed(t, false)
	b.apply("hold")
	var ids []string
	for range 40 {
		ids = append(ids, want[api.Run](t, b.post("/api/v1/runs", `{"workflow":"hold"}`), 202).ID)
	}
	var mu sync.Mutex
	keys, traces := map[string]bool{}, 0
	gateway := func(own http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/runs:stop") {
				own.ServeHTTP(w, r)
				return
			}
			mu.Lock()
			keys[r.Header.Get("Idempotency-Key")] = true
			traces += len(r.Header.Values("Traceparent"))
			mu.Unlock()
			switch {
			case r.Header.Get("Authorization") != "Bearer t" || r.Header.Get(api.HeaderClaimedBy) != "eve":
				http.Error(w, "who?", http.StatusUnauthorized)
			case strings.Contains(r.URL.Path, ids[3]):
				panic(http.ErrAbortHandler)
			case strings.Contains(r.URL.Path, ids[5]):
				http.Error(w, "not JSON", http.StatusBadGateway)
			default:
				own.ServeHTTP(w, r)
			}
		})
	}
	srv := must(server.New(server.Config{Engine: b.engine, Logs: b.logs, Tokens: b.tokens, Access: b.tokens, Classes: b.tokens, Gateway: gateway}))
	req := httptest.NewRequest("POST", "http://localhost/api/v1/runs:stop", strings.NewReader(`{"workflow":"hold","expect":40}`))
	for _, h := range [][2]string{{"Content-Type", "application/json"}, {"Authorization", "Bearer t"}, {api.HeaderClaimedBy, "eve"},
		{"Traceparent", "one"}, {"Traceparent", "two"}} {
		req.Header.Add(h[0], h[1])
	}
	w := httptest.NewRecorder()
	auth.AsLocal(srv.Handler()).ServeHTTP(w, req)
	var res api.BulkResult
	if err := json.Unmarshal(w.Body.Bytes(), &res); err != nil || w.Code != 200 {
		t.Fatal(w.Code, w.Body, err)
	}
	if res.Done != 38 || res.Refused != 2 || len(keys) != 40 || traces != 80 {
		t.Errorf("%d done, %d refused, %d keys, %d headers Traceparent", res.Done, res.Refused, len(keys), traces)
	}
	for _, item := range res.Items {
		if bad := item.ID == ids[3] || item.ID == ids[5]; bad != (item.Outcome == "refused") || bad && item.Problem.Type != api.ProblemUnavailable {
			t.Errorf("%s: %s %+v", item.ID, item.Outcome, item.Problem)
		}
	}
}
