package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"skein.dev/skein/internal/server"
	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

// TestStartAnswersAsAccepted starts workflows whose runs do not change after their acceptance. The answer
// to the start, which reads nothing from the store, must equal a later read.
func TestStartAnswersAsAccepted(t *testing.T) {
	b := newBed(t, false)
	for name, source := range map[string]string{
		"running": `tasks: {a: {run: "true"}, b: {needs: a, run: "true"}}`,
		"ended":   `tasks: {a: {run: "true", if: "false"}, b: {needs: a, run: "true"}}`,
		"failed":  "params: {n: {type: int, default: 0}}\ntasks: {a: {run: \"true\", if: \"1 / params.n == 1\"}}",
		"gated":   "max_concurrent_runs: 1\ntasks: {a: {run: \"true\"}}",
		"locked":  "locks: [one]\ntasks: {a: {run: \"true\"}}",
		"urgent":  "priority: high\nparams: {n: {type: int, default: 7}}\ntasks: {a: {run: \"true\"}}",
	} {
		t.Run(name, func(t *testing.T) {
			a := b.do("PUT", "/api/v1/workflows/default/"+name, "name: "+name+"\n"+source, "Content-Type", "application/yaml")
			if a.status != 201 {
				t.Fatalf("apply: %d %s", a.status, a.body)
			}
			first := want[api.Run](t, b.post("/api/v1/runs", `{"workflow":"`+name+`"}`), 202)
			for deadline := time.Now().Add(time.Minute); first.SplitAt == nil; { // the graph is read outside of the shard's writer
				if time.Now().After(deadline) {
					t.Fatalf("it is not split: %+v", first)
				}
				first = want[api.Run](t, b.get("/api/v1/runs/"+first.ID), 200)
			}
			for i := range 2 {
				started := b.post("/api/v1/runs", fmt.Sprintf(`{"workflow":%q,"idempotency_key":"k%d"}`, name, i))
				run := want[api.Run](t, started, 202)
				var was, is any
				if err := json.Unmarshal([]byte(started.body), &was); err != nil {
					t.Fatal(err)
				}
				read := b.get("/api/v1/runs/" + run.ID)
				if err := json.Unmarshal([]byte(read.body), &is); err != nil {
					t.Fatal(err)
				}
				if !reflect.DeepEqual(was, is) {
					t.Errorf("the start answered\n%s\nand then there is\n%s", started.body, read.body)
				}
			}
		})
	}
}

// TestStartSeesEveryChange starts a workflow directly after each change of it. The node caches workflows
// for starts, and must never use an outdated one.
func TestStartSeesEveryChange(t *testing.T) {
	b, _ := newTown(t)
	start := func(status int) answer {
		t.Helper()
		a := b.post("/api/v1/runs", `{"workflow":"w"}`)
		if a.status != status {
			t.Fatalf("status %d, want %d: %s", a.status, status, a.body)
		}
		return a
	}
	version := func(want int32) {
		t.Helper()
		var run api.Run
		if err := json.Unmarshal([]byte(start(202).body), &run); err != nil || run.Version != want {
			t.Errorf("version %d, want %d: %v", run.Version, want, err)
		}
	}
	apply := func(command string) {
		t.Helper()
		a := b.do("PUT", "/api/v1/workflows/default/w", `{name: w, tasks: {a: {run: "`+command+`"}}}`, "Content-Type", "application/yaml")
		if a.status/100 != 2 {
			t.Fatalf("apply: %d %s", a.status, a.body)
		}
	}
	start(404)
	for round := range 3 {
		apply(fmt.Sprint("echo ", round))
		version(1)
		version(1)
		apply("true")
		version(2)
		b.post("/api/v1/workflows/default/w:rollback", `{"version":1}`)
		version(1)
		b.post("/api/v1/workflows/default/w:pause", "")
		start(409)
		b.post("/api/v1/workflows/default/w:resume", "")
		version(1)
		b.own()
		version(1)
		b.own(0, 1, 2, 3)
		version(1)
		if a := b.do("DELETE", "/api/v1/workflows/default/w", ""); a.status/100 != 2 {
			t.Fatalf("delete: %d %s", a.status, a.body)
		}
		start(404)
	}
}

// batchOf returns the body of a batch of n starts of a workflow, with the keys of a round.
func batchOf(workflow, round string, n int) string {
	var b strings.Builder
	b.WriteString(`{"runs":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"workflow":%q,"idempotency_key":"%s-%d"}`, workflow, round, i)
	}
	b.WriteString(`]}`)
	return b.String()
}

// TestBatch gives each start of a batch its own verdict, in the order of the request.
func TestBatch(t *testing.T) {
	b := newBed(t, true)
	b.apply("w")
	b.apply("paused")
	b.post("/api/v1/workflows/default/paused:pause", "")
	before := want[api.Run](t, b.post("/api/v1/runs", `{"workflow":"w","idempotency_key":"k"}`), 202)
	res := want[api.BatchResult](t, b.post("/api/v1/runs:batch", `{"runs":[
		{"workflow":"w","params":{"n":3},"idempotency_key":"a"},
		{"workflow":"nobody","idempotency_key":"b"},
		{"workflow":"w","params":{"n":"many"},"idempotency_key":"c"},
		{"workflow":"w","idempotency_key":"k"},
		{"workflow":"w","idempotency_key":"k","priority":"high"},
		{"workflow":"paused","idempotency_key":"d"},
		{"workflow":"w","params":{"n":3},"idempotency_key":"a"},
		{"workflow":"default/w","priority":"high"},
		{"workflow":"w","params":{"n":"many"},"idempotency_key":"k"}]}`, "Idempotency-Key", "whole"), 200)
	for i, w := range []struct {
		verdict, problem string
	}{{"accepted", ""}, {"refused", api.ProblemNotFound}, {"refused", api.ProblemInvalidParams}, {"existing", ""}, {"refused", api.ProblemIdempotency},
		{"refused", api.ProblemConflict}, {"existing", ""}, {"accepted", ""}, {"refused", api.ProblemIdempotency}} {
		v := res.Items[i]
		if v.Verdict != w.verdict || (v.Run != nil) != (w.problem == "") || (v.Problem != nil) != (w.problem != "") || v.Problem != nil && v.Problem.Type != w.problem {
			t.Errorf("start %d: %+v, want %+v", i, v, w)
		}
	}
	if res.Accepted != 2 || res.Existing != 2 || res.Refused != 5 || *res.Items[3].Run != before.ID || *res.Items[6].Run != *res.Items[0].Run {
		t.Errorf("%+v", res)
	}
	if run := want[api.Run](t, b.get("/api/v1/runs/"+*res.Items[0].Run, "Prefer", "wait=60"), 200); fmt.Sprint(run.Params["n"]) != "3" || run.State != "succeeded" {
		t.Errorf("%+v", run)
	}
	if run := want[api.Run](t, b.get("/api/v1/runs/"+*res.Items[7].Run), 200); *run.Key != "whole/7" || run.Priority != "high" {
		t.Errorf("%+v", run)
	}
	for _, body := range []string{`{"runs":[]}`, `{"runs":[{"workflow":"w"}]}`, `{"runs":[{"workflow":"w","idempotency_key":"x","prams":{}}]}`,
		`{"runs":[{"idempotency_key":"x"}]}`, batchOf("w", "large", 10_001)} {
		wantProblem(t, b.post("/api/v1/runs:batch", body), 422, api.ProblemInvalid)
	}
	wantProblem(t, b.post("/api/v1/runs:batch", `{"runs":[{"workflow":"w"}]}`, "Idempotency-Key", strings.Repeat("k", 255)), 422, api.ProblemInvalid)
}

// TestBatchAgain sends a batch several times at the same time, and again after a restart: each start makes
// one run.
func TestBatchAgain(t *testing.T) {
	b := newBed(t, true)
	b.apply("w")
	const starts, senders = 3000, 3
	body := batchOf("w", "r", starts)
	results := make([]api.BatchResult, senders)
	var wg sync.WaitGroup
	for i := range senders {
		wg.Go(func() {
			resp, err := http.Post(b.http.URL+"/api/v1/runs:batch", "application/json", strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			if err := json.NewDecoder(resp.Body).Decode(&results[i]); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	b.http.Client().CloseIdleConnections()
	http.DefaultClient.CloseIdleConnections()
	b.restart()
	results = append(results, want[api.BatchResult](t, b.post("/api/v1/runs:batch", body), 200))
	accepted := 0
	for i, r := range results {
		if accepted += r.Accepted; r.Refused > 0 || len(r.Items) != starts {
			t.Fatalf("answer %d: %d of %d refused", i, r.Refused, len(r.Items))
		}
		for n := range r.Items {
			if *r.Items[n].Run != *results[0].Items[n].Run {
				t.Fatalf("start %d made the runs %s and %s", n, *results[0].Items[n].Run, *r.Items[n].Run)
			}
		}
	}
	if accepted != starts || results[senders].Existing != starts {
		t.Errorf("%d accepted and then %d existing, want %d", accepted, results[senders].Existing, starts)
	}
}

// TestBatchWithoutOwner: starts of other nodes' shards are passed on.
func TestBatchWithoutOwner(t *testing.T) {
	b, _ := newTown(t)
	b.apply("w")
	b.own()
	for i, verdict := range []string{"accepted", "existing"} {
		res := want[api.BatchResult](t, b.post("/api/v1/runs:batch", batchOf("w", "r", 100)), 200)
		for n, v := range res.Items {
			if v.Verdict != verdict {
				t.Fatalf("time %d, start %d: %+v", i, n, v)
			}
		}
	}
	b.own(0, 1, 2, 3)
	if page := want[api.List[api.Run]](t, b.get("/api/v1/runs?limit=1000"), 200); len(page.Items) != 100 {
		t.Errorf("%d runs", len(page.Items))
	}
}

// TestQuickStart sends each start twice: plainly, and with a media type that is left to huma. The answers
// must be the same, except for values that differ between two runs. The plain start must be answered without
// huma.
func TestQuickStart(t *testing.T) {
	b := newRightsBed(t)
	for name, source := range map[string]string{"w": `tasks: {a: {run: "true", if: "false"}}`,
		"p": "params: {n: {type: int, default: 7}, o: {type: json, default: {}}}\ntasks: {a: {run: \"true\", if: \"false\"}}"} {
		if a := b.do("PUT", "/api/v1/workflows/default/"+name, "name: "+name+"\n"+source, "Content-Type", "application/yaml"); a.status != 201 {
			t.Fatalf("apply: %d %s", a.status, a.body)
		}
		b.post("/api/v1/runs", `{"workflow":"`+name+`"}`, "Prefer", "wait=10")
	}
	own := regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{4}-\d\d-\d\dT[0-9:.]+Z|"duration":[0-9.e-]+`)
	both := func(what, body string, header ...string) (status int) {
		t.Helper()
		was := server.QuickStarts(b.srv)
		quick := b.post("/api/v1/runs", body, header...)
		n := server.QuickStarts(b.srv) - was
		if plain := quick.status/100 == 2 && what != "odd media"; plain != (n == 1) {
			t.Errorf("%s: %.200s: status %d, and %d were answered without huma", what, body, quick.status, n)
		}
		full := b.post("/api/v1/runs", body, append([]string{"Content-Type", "application/json; charset=utf-8"}, header...)...)
		for _, a := range []*answer{&quick, &full} {
			a.header.Del("Date")
			a.header.Del("Content-Length") // a duration in the body changes the length
			a.body = own.ReplaceAllString(a.body, "X")
			if at := a.header.Get("Location"); at != "" {
				a.header.Set("Location", own.ReplaceAllString(at, "X"))
			}
		}
		if !reflect.DeepEqual(quick, full) {
			t.Errorf("%s: %.200s\n%+v\n%+v", what, body, quick, full)
		}
		if all := server.QuickStarts(b.srv) - was; all != n {
			t.Errorf("%s: %.200s: one that is left to huma was answered without it", what, body)
		}
		return quick.status
	}
	starts := []string{`{"workflow":"w"}`, `{"workflow":"default/w","version":1,"priority":"high","origin":"manual"}`, `{"workflow":"p","params":{"n":3,"o":{"a":[1.50,"é"]}}}`}
	for _, body := range starts {
		if is := both("a start", body); is != 202 {
			t.Errorf("%s: status %d", body, is)
		}
		both("waited for", body, "Prefer", "wait=10")
		both("any media", body, "Accept", "*/*")
		both("odd media", body, "Accept", "text/html")
	}
	b.post("/api/v1/runs", `{"workflow":"w","idempotency_key":"same"}`)
	if is := both("existing", `{"workflow":"w"}`, "Idempotency-Key", "same"); is != 200 {
		t.Errorf("existing: status %d", is)
	}
	both("another request", `{"workflow":"w","priority":"low"}`, "Idempotency-Key", "same")
	both("two keys", `{"workflow":"w","idempotency_key":"other"}`, "Idempotency-Key", "same")
	both("a long key", `{"workflow":"w"}`, "Idempotency-Key", strings.Repeat("k", 256))
	for _, body := range []string{``, `{}`, `{"workflow":"nothing"}`, `{"workflow":"no/such"}`, `{"workflow":"w","version":9}`, `{"workflow":"w","from":"z"}`,
		`{"workflow":"p","params":{"n":"x"}}`, `{"workflow":"p","params":{"m":1}}`, `{"workflow":"w","other":1}`, `{"workflow":"w"`, `{"workflow":"w","version":-1}`,
		`{"workflow":"w","params":{"a":1e400}}`, `{"workflow":"` + strings.Repeat("w", 128) + `"}`, `{"workflow":"w","from":"` + strings.Repeat(" ", 5000) + `"}`} {
		if is := both("refused", body); is < 400 {
			t.Errorf("%s: status %d", body, is)
		}
	}

	b.token(store.Token{Name: "any", Principal: store.FirstService, Verbs: "*", Namespaces: "*"})
	gated := httptest.NewUnstartedServer(nil)
	gated.Config = b.srv.HTTP()
	gated.Config.Handler = b.gate
	gated.Start()
	defer gated.Close()
	inner := b.http
	defer func() { b.http = inner }()
	b.http = gated // the gate sets the deadlines of bodies
	for _, body := range starts {
		if is := both("waited for behind a gate", body, "Prefer", "wait=10", "Authorization", "Bearer "+b.secrets["any"]); is != 201 {
			t.Errorf("%s behind a gate: status %d", body, is)
		}
	}
}
