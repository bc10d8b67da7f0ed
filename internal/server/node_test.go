package server_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/server"
	"skein.dev/skein/internal/store/memory"
	"skein.dev/skein/internal/store/sqlite"
	"skein.dev/skein/internal/workflow"
	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

func TestForeignPagesAreRefused(t *testing.T) {
	b := newBed(t, true)
	own := strings.TrimPrefix(b.http.URL, "http://")
	_, port, _ := strings.Cut(own, ":")
	for _, c := range []struct {
		status int
		kind   string
		header []string
	}{
		{200, "", nil},
		{200, "", []string{"Host", "localhost:" + port}},
		{200, "", []string{"Host", "LOCALHOST."}},
		{200, "", []string{"Host", "127.9.9.9"}},
		{200, "", []string{"Host", "[::1]:" + port}},
		{200, "", []string{"Host", "skein.example:1"}},
		{200, "", []string{"Origin", b.http.URL}},
		{200, "", []string{"Sec-Fetch-Site", "same-origin"}},
		{200, "", []string{"Sec-Fetch-Site", "none"}},
		{421, api.ProblemForeignHost, []string{"Host", "evil.example"}},
		{421, api.ProblemForeignHost, []string{"Host", "localhost.evil.example:" + port}},
		{421, api.ProblemForeignHost, []string{"Host", "127.0.0.1.evil.example"}},
		{421, api.ProblemForeignHost, []string{"Host", "192.168.0.1"}},
		{421, api.ProblemForeignHost, []string{"Host", "0.0.0.0"}},
		{403, api.ProblemForeignOrigin, []string{"Origin", "http://evil.example"}},
		{403, api.ProblemForeignOrigin, []string{"Origin", "null"}},
		{403, api.ProblemForeignOrigin, []string{"Origin", "http://127.0.0.1:1"}},
		{403, api.ProblemForeignOrigin, []string{"Sec-Fetch-Site", "cross-site"}},
	} {
		for _, path := range []string{"/api/v1/status", "/livez", "/metrics", "/api/docs"} {
			a := b.get(path, c.header...)
			if a.status != c.status {
				t.Errorf("%s %q: %d %s", path, c.header, a.status, a.body)
			}
			if c.kind != "" {
				wantProblem(t, a, c.status, c.kind)
			}
		}
	}
	if a := b.get("/livez"); a.header.Get("X-Content-Type-Options") != "nosniff" || a.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("%v", a.header)
	}
}

func TestWhoAsks(t *testing.T) {
	b := newBed(t, true)
	b.apply("w")
	wantProblem(t, b.post("/api/v1/runs", `{"workflow":"w"}`, api.HeaderClaimedBy, strings.Repeat("u", 101)), 422, api.ProblemInvalid)
	wantProblem(t, b.post("/api/v1/runs", `{"workflow":"w"}`, api.HeaderClaimedBy, "a\tb"), 422, api.ProblemInvalid)
	wantProblem(t, b.post("/api/v1/runs", `{"workflow":"w"}`, api.HeaderClaimedBy, "a) (b"), 422, api.ProblemInvalid)
	wantProblem(t, b.post("/api/v1/tokens", `{"kind":"api","name":"local"}`), 422, api.ProblemInvalid)
	wantProblem(t, b.post("/api/v1/tokens", `{"kind":"api","name":"local (ada)"}`), 422, api.ProblemInvalid)
	if run := want[api.Run](t, b.post("/api/v1/runs", `{"workflow":"w"}`, "X-Skein-User", "root"), 202); run.User != "local" || run.ClaimedBy != nil {
		t.Errorf("a header that is gone counts: %+v", run)
	}
	run := want[api.Run](t, b.post("/api/v1/runs", `{"workflow":"w"}`, api.HeaderClaimedBy, "ada"), 202)
	if run.User != "local (ada)" || run.ClaimedBy == nil || *run.ClaimedBy != "ada" {
		t.Errorf("%+v", run)
	}
	first := want[api.List[api.Event]](t, b.get("/api/v1/runs/"+run.ID+"/events"), 200).Items[0]
	if first.ClaimedBy == nil || *first.ClaimedBy != "ada" {
		t.Errorf("%+v", first)
	}
}

// TestEnqueuedUser: the user of a run that skein_enqueue has started is the role of the database. The name
// that the caller of the function gave is a claim: no list confuses it with a user or service of that name.
// Before format 28, only the claimed name was stored.
func TestEnqueuedUser(t *testing.T) {
	b := newBed(t, true)
	b.apply("w")
	w, err := b.db.Workflow(t.Context(), "default", "w")
	if err != nil {
		t.Fatal(err)
	}
	principals := map[string]string{}
	for user, is := range map[string]struct{ claim, principal string }{
		"enqueue:shop":        {"", "enqueue:shop"},
		"enqueue:shop (root)": {"root", "enqueue:shop (root)"},
		"ada":                 {"ada", "enqueue:? (ada)"},
	} {
		made, err := b.engine.Submit(t.Context(), engine.Submission{Workflow: w, Origin: dag.OriginEnqueue, User: user})
		if err != nil {
			t.Fatal(err)
		}
		id := made.Run.String()
		principals["/runs/"+id] = is.principal
		run := want[api.Run](t, b.get("/api/v1/runs/"+id), 200)
		if run.User != user || run.ClaimedBy == nil != (is.claim == "") || run.ClaimedBy != nil && *run.ClaimedBy != is.claim {
			t.Errorf("user %q of a run: %q, claimed by %v", user, run.User, run.ClaimedBy)
		}
		if is.claim == "" {
			continue
		}
		found := want[api.List[api.Run]](t, b.get("/api/v1/runs?user="+url.QueryEscape(user)), 200)
		if len(found.Items) != 1 || found.Items[0].ID != run.ID {
			t.Errorf("runs of %q: %+v", user, found.Items)
		}
	}
	if found := want[api.List[api.Run]](t, b.get("/api/v1/users/root/runs"), 200); len(found.Items) != 0 {
		t.Errorf("runs that only claim to be root's are listed as root's: %+v", found.Items)
	}
	srv := must(server.New(server.Config{Engine: b.engine, Logs: b.logs, Tokens: b.tokens, Access: b.tokens, Classes: b.tokens, Audits: b.tokens}))
	r, answered := httptest.NewRequest("GET", "/api/v1/audit", nil), httptest.NewRecorder()
	r.Host = "127.0.0.1"
	auth.AsLocal(srv.Handler()).ServeHTTP(answered, r)
	var audited api.List[api.AuditRow]
	if err := json.Unmarshal(answered.Body.Bytes(), &audited); err != nil || len(audited.Items) != len(principals) {
		t.Errorf("the starts in the audit log: %d %s", answered.Code, answered.Body)
	}
	for _, row := range audited.Items {
		if row.Principal != principals[row.Object] {
			t.Errorf("the audit log says that %s started %s, want %s", row.Principal, row.Object, principals[row.Object])
		}
	}
	wantProblem(t, b.post("/api/v1/tokens", `{"kind":"api","name":"enqueue:shop"}`), 422, api.ProblemInvalid)
}

func TestNothingThere(t *testing.T) {
	b := newBed(t, true)
	wantProblem(t, b.get("/nothing"), 404, api.ProblemNotFound)
	wantProblem(t, b.get("/api/v1/nothing"), 404, api.ProblemNotFound)
	a := b.do("PATCH", "/api/v1/workflows/default/w", "")
	wantProblem(t, a, 405, api.ProblemMethod)
	if allow := a.header.Get("Allow"); !strings.Contains(allow, "PUT") || !strings.Contains(allow, "DELETE") {
		t.Errorf("Allow %q", allow)
	}
	wantProblem(t, b.post("/api/v1/runs/01900000-0000-7000-8000-000000000000", ""), 405, api.ProblemMethod)
}

func TestNode(t *testing.T) {
	b := newBed(t, false)
	b.apply("w")
	b.run("w")
	<-b.exec.got
	s := want[api.Status](t, b.get("/api/v1/status"), 200)
	if s.Node != "node-1" || s.Version != "1.2.3" || !s.Accepting || s.State != "running" || s.Store.Engine != "sqlite" || s.Runs["running"] != 1 || s.Slots != (api.Slots{Total: 4, Busy: 1}) {
		t.Errorf("%+v", s)
	}
	n := want[api.List[api.Node]](t, b.get("/api/v1/nodes"), 200).Items[0]
	if n.Name != "node-1" || len(n.Handler) != 36 || n.Slots.Busy != 1 || n.Roles[0] != "api" || n.StartedAt.IsZero() {
		t.Errorf("%+v", n)
	}
	if v := want[api.ServerVersion](t, b.get("/version"), 200); v.Version != "1.2.3" || v.API != api.APIVersion {
		t.Errorf("%+v", v)
	}
	b.get("/api/v1/runs")
	m := b.get("/metrics").body
	for _, line := range []string{"skein_runs_accepted_total 1", "skein_slots_busy 1", "skein_slots 4", "skein_accepting 1", "go_goroutines ", "process_open_fds ",
		`skein_http_requests_total{code="200",route="GET /runs"} 1`, `skein_http_requests_total{code="201",route="PUT /workflows/{ns}/{name}"} 1`, `skein_build_info{`} {
		if !strings.Contains(m, line) {
			t.Errorf("no %q in\n%s", line, m)
		}
	}
}

func TestHealth(t *testing.T) {
	b := newBed(t, true)
	if a := b.get("/livez"); a.status != 200 {
		t.Error(a.body)
	}
	if a := b.get("/readyz"); a.status != 200 {
		t.Error(a.body)
	}
	if err := b.client.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	// A node without its shards refuses starts.
	st := must(sqlite.Open(t.TempDir() + "/x.db"))
	defer st.Close()
	e := must(engine.New(t.Context(), engine.Config{Store: st, Executor: newExecutor(true), Slots: 1, Node: "n", Compile: new(workflow.Compiler).Condition}))
	srv := must(server.New(server.Config{Engine: e, Logs: b.logs, Tokens: memory.New(memory.Options{}), Classes: memory.New(memory.Options{})}))
	c := must(skein.New("localhost", skein.WithHandler(auth.AsLocal(srv.Handler()))))
	err := c.Ready(t.Context())
	var refused *skein.Error
	if !errors.As(err, &refused) || refused.Problem.Status != http.StatusServiceUnavailable || refused.RetryAfter == 0 || refused.Problem.Type != api.ProblemUnavailable {
		t.Errorf("%v", err)
	}
	if _, err := c.Apply(t.Context(), "w", api.ApplyRequest{Source: "name: w\ntasks: {a: {run: x}}"}); !errors.Is(err, skein.ErrUnavailable) {
		t.Error(err)
	}
	if _, err := c.ServerVersion(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestVerify: the check of the invariants can be called like any other route, and its answer names the
// violations.
func TestVerify(t *testing.T) {
	b := newBed(t, true)
	if v := want[api.Verification](t, b.get("/api/v1/verify"), 200); v.Violations == nil || len(v.Violations) != 0 {
		t.Errorf("%+v", v)
	}
	b.violations = []inspect.Violation{{Run: "r", Task: "t", Rule: "order", What: "too early"}}
	v, err := b.client.Verify(t.Context())
	if err != nil || len(v.Violations) != 1 || v.Violations[0] != (api.Violation{Run: "r", Task: "t", Rule: "order", What: "too early"}) {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestABugIsAProblem(t *testing.T) {
	b := newBed(t, true)
	b.apply("w")
	run := b.run("w")
	b.logs.bug = true
	p := wantProblem(t, b.get("/api/v1/runs/"+run.ID+"/tasks/a/logs"), 500, api.ProblemInternal)
	if strings.Contains(p.Detail, "source") {
		t.Error(p.Detail)
	}
	if a := b.get("/livez"); a.status != 200 {
		t.Error("the server is gone")
	}
}

// deadlines remembers the deadlines of the connection.
type deadlines struct {
	*httptest.ResponseRecorder
	read []time.Time
}

func (d *deadlines) SetReadDeadline(at time.Time) error {
	d.read = append(d.read, at)
	return nil
}

// A body has a bounded time to arrive, but a request that waits for a run must outlive it.
func TestTheDeadlineOfTheBodyEndsWithIt(t *testing.T) {
	b := newBed(t, true)
	b.apply("w")
	r := httptest.NewRequestWithContext(t.Context(), "POST", "http://localhost/api/v1/runs", strings.NewReader(`{"workflow":"w"}`))
	r.Header.Set("Content-Type", "application/json")
	w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	auth.AsLocal(b.srv.Handler()).ServeHTTP(w, r)
	if w.Code != 202 || len(w.read) != 2 || w.read[0].IsZero() || !w.read[1].IsZero() {
		t.Errorf("%d %v", w.Code, w.read)
	}
}
