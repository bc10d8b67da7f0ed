package server_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

func TestRunObjectIsTheContract(t *testing.T) {
	b := newBed(t, true)
	b.apply("shape")
	run := b.run("shape")
	a := b.get("/api/v1/runs/" + run.ID + "?include=tasks")
	var raw struct {
		Leader json.RawMessage
		Tasks  []json.RawMessage
	}
	if err := json.Unmarshal([]byte(a.body), &raw); err != nil {
		t.Fatal(err)
	}
	has := func(object string, wanted ...string) {
		t.Helper()
		is := keys(t, json.RawMessage(object))
		for _, k := range wanted {
			if !slices.Contains(is, k) {
				t.Errorf("no %s in %s", k, object)
			}
		}
	}
	has(a.body, "id", "workflow", "version", "state", "generation", "created_at", "started_at", "finished_at", "user", "split_at", "modified_at", "leader", "counts", "tasks")
	has(string(raw.Leader), "handler", "node", "assigned_at")
	if len(raw.Tasks) != 4 {
		t.Fatalf("%d tasks", len(raw.Tasks))
	}
	has(string(raw.Tasks[0]), "id", "name", "state", "cause", "created_at", "modified_at", "attempts", "outputs")
	var task struct {
		Attempts []json.RawMessage
		Outputs  map[string]any
	}
	if err := json.Unmarshal(raw.Tasks[0], &task); err != nil {
		t.Fatal(err)
	}
	has(string(task.Attempts[0]), "number", "token", "handler", "node", "state", "exit_code", "assigned_at", "started_at", "finished_at")
	if task.Outputs["rows"] != 7.0 {
		t.Errorf("outputs %v", task.Outputs)
	}
	got := want[api.Run](t, a, 200)
	if got.Workflow != "shape" || got.Namespace != "default" || got.Version != 1 || got.State != "succeeded" || got.User != "local" ||
		got.Counts["succeeded"] != 4 || got.Counts["failed"] != 0 || *got.Leader.Node != "node-1" || got.Params["day"] != "monday" || got.Cause != nil {
		t.Errorf("%+v", got)
	}
	for _, at := range regexp.MustCompile(`_at":"([^"]*)"`).FindAllStringSubmatch(a.body, -1) {
		if !regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$`).MatchString(at[1]) {
			t.Errorf("instant %q", at[1])
		}
	}
	if plain := want[api.Run](t, b.get("/api/v1/runs/"+run.ID), 200); plain.Tasks != nil {
		t.Error("tasks without being asked for")
	}
}

func TestStart(t *testing.T) {
	b := newBed(t, false)
	b.apply("hold")
	if run := want[api.Run](t, b.post("/api/v1/runs", `{"workflow":"hold","origin":"manual"}`), 202); run.Origin != "manual" {
		t.Errorf("origin %q", run.Origin)
	}
	wantProblem(t, b.post("/api/v1/runs", `{"workflow":"hold","origin":"schedule"}`), 422, api.ProblemInvalid)
	a := b.post("/api/v1/runs", `{"workflow":"default/hold","params":{"n":9007199254740993},"priority":"high"}`, api.HeaderClaimedBy, "ada")
	run := want[api.Run](t, a, 202)
	if loc := a.header.Get("Location"); loc != "/api/v1/runs/"+run.ID {
		t.Errorf("Location %q", loc)
	}
	if room, policy := a.header.Get("RateLimit"), a.header.Get("RateLimit-Policy"); !strings.HasPrefix(room, `"submissions";r=`) || policy != `"submissions";q=20000` {
		t.Errorf("RateLimit %q, policy %q", room, policy)
	}
	if run.User != "local (ada)" || *run.ClaimedBy != "ada" || run.Priority != "high" || run.Params["n"] != int64(9007199254740993) || run.FinishedAt != nil || run.Origin != "api" {
		t.Errorf("%+v", run)
	}
	if again := want[api.Run](t, b.get(a.header.Get("Location")), 200); again.ID != run.ID {
		t.Error("Location is another run")
	}
	for _, c := range []struct {
		body, kind string
		status     int
	}{
		{`{"workflow":"nobody"}`, api.ProblemNotFound, 404},
		{`{"workflow":"hold","version":9}`, api.ProblemNotFound, 404},
		{`{"workflow":"hold","params":{"n":"many"}}`, api.ProblemInvalidParams, 422},
		{`{"workflow":"hold","params":{"nn":1}}`, api.ProblemInvalidParams, 422},
		{`{"workflow":"hold","priority":"urgent"}`, api.ProblemInvalid, 422},
		{`{"workflow":"hold","prams":{}}`, api.ProblemInvalid, 422},
		{`{}`, api.ProblemInvalid, 422},
		{`{"workflow":`, api.ProblemInvalid, 400},
	} {
		p := wantProblem(t, b.post("/api/v1/runs", c.body), c.status, c.kind)
		if c.kind == api.ProblemInvalidParams && (len(p.Errors) != 1 || !strings.HasPrefix(p.Errors[0].Key, "params.n")) {
			t.Errorf("%s: %+v", c.body, p.Errors)
		}
	}
}

func TestPreferWait(t *testing.T) {
	b := newBed(t, false)
	b.apply("slow")
	run := b.run("slow")
	type result struct {
		run api.Run
		err error
	}
	waited := make(chan result, 1)
	go func() {
		r, err := b.client.Run(t.Context(), run.ID, skein.Wait(300e9))
		waited <- result{r, err}
	}()
	for range 4 {
		b.exec.end(<-b.exec.got, succeeded())
	}
	if r := <-waited; r.err != nil || r.run.State != "succeeded" {
		t.Errorf("%+v", r)
	}
	if a := b.get("/api/v1/runs/"+run.ID, "Prefer", "respond-async, wait=900"); a.header.Get("Preference-Applied") != "wait=300" {
		t.Errorf("applied %q", a.header.Get("Preference-Applied"))
	}
	if a := b.get("/api/v1/runs/"+run.ID, "Prefer", "wait=soon"); a.status != 200 || a.header.Get("Preference-Applied") != "" {
		t.Errorf("%d %v", a.status, a.header)
	}
}

func TestVerbs(t *testing.T) {
	b := newBed(t, false)
	b.apply("verbs")
	run := b.run("verbs")
	first := <-b.exec.got
	path := "/api/v1/runs/" + run.ID
	if got := want[api.Run](t, b.post(path+":pause", ""), 202); got.Intent != "pause" {
		t.Errorf("%+v", got)
	}
	b.exec.end(first, succeeded())
	if got := want[api.Run](t, b.post(path+":resume", `{"reason":"go on"}`, api.HeaderClaimedBy, "ada"), 202); got.Intent != "run" {
		t.Errorf("%+v", got)
	}
	<-b.exec.got
	if got := want[api.Run](t, b.post(path+":stop", `{"reason":"enough"}`), 202); got.Intent != "stop" {
		t.Errorf("%+v", got)
	}
	got := want[api.Run](t, b.get(path, "Prefer", "wait=60"), 200)
	if got.State != "stopped" || *got.Cause != "stopped" || *got.Message != "enough" {
		t.Errorf("%+v", got)
	}
	wantProblem(t, b.post(path+":kill", ""), 409, api.ProblemConflict)
	p := wantProblem(t, b.post(path+":explode", ""), 404, api.ProblemNotFound)
	if !strings.Contains(p.Detail, "kill, pause, recover, rerun, resume, stop") {
		t.Error(p.Detail)
	}
	wantProblem(t, b.post(path+":stop", `{"why":1}`), 422, api.ProblemInvalid)

	other := b.run("verbs")
	<-b.exec.got
	want[api.Run](t, b.post("/api/v1/runs/"+other.ID+":kill", ""), 202)
	if got := want[api.Run](t, b.get("/api/v1/runs/"+other.ID, "Prefer", "wait=60"), 200); *got.Cause != "killed" {
		t.Errorf("%+v", got)
	}

	events := want[api.List[api.Event]](t, b.get(path+"/events?limit=1000"), 200)
	var lines []string
	for _, e := range events.Items {
		if e.Kind == "intent" {
			lines = append(lines, *e.Actor+" "+*e.Text)
		}
	}
	if !slices.Equal(lines, []string{"local pause", "local (ada) run", "local stop"}) {
		t.Errorf("intents %q", lines)
	}
	if last := events.Items[len(events.Items)-1]; last.Kind != "state" || *last.State != "stopped" || last.Task != nil {
		t.Errorf("%+v", last)
	}
	// The filter also leaves out single lines of a transaction, and all pages together are the same list.
	var all, filtered []string
	for _, e := range events.Items {
		if e.Kind == "intent" || e.Kind == "state" {
			all = append(all, fmt.Sprint(e.Seq, e.Kind))
		}
	}
	for cursor := ""; ; {
		page := want[api.List[api.Event]](t, b.get(path+"/events?kind=intent,state&limit=2&cursor="+cursor), 200)
		for _, e := range page.Items {
			filtered = append(filtered, fmt.Sprint(e.Seq, e.Kind))
		}
		if page.Next == nil {
			break
		}
		cursor = *page.Next
	}
	if len(all) < 4 || !slices.Equal(all, filtered) {
		t.Errorf("by kind %q, want %q", filtered, all)
	}
	wantProblem(t, b.get(path+"/events?kind=nothing"), 422, api.ProblemInvalid)
}

func TestIdempotencyKeys(t *testing.T) {
	b := newBed(t, false)
	b.apply("once")
	b.apply("other")
	const path, body = "/api/v1/runs", `{"workflow":"once","params":{"day":"x","n":2}}`
	run := want[api.Run](t, b.post(path, body, "Idempotency-Key", "k"), 202)
	same := func(when string) {
		t.Helper()
		for _, again := range []answer{
			b.post(path, body, "Idempotency-Key", "k"),
			b.post(path, `{"params":{"n":2,"day":"x"},"workflow":"default/once","idempotency_key":"k"}`),
		} {
			if got := want[api.Run](t, again, 200); got.ID != run.ID || *got.Key != "k" {
				t.Errorf("%s: another run", when)
			}
		}
		wantProblem(t, b.post(path, `{"workflow":"once"}`, "Idempotency-Key", "k"), 409, api.ProblemIdempotency)
	}
	same("at once")
	if got := want[api.Run](t, b.post(path, `{"workflow":"other"}`, "Idempotency-Key", "k"), 202); got.ID == run.ID {
		t.Error("a key is unique per workflow")
	}
	wantProblem(t, b.post(path, `{"workflow":"once","idempotency_key":"a"}`, "Idempotency-Key", "b"), 422, api.ProblemInvalid)

	verb := "/api/v1/runs/" + run.ID + ":pause"
	want[api.Run](t, b.post(verb, `{"reason":"r"}`, "Idempotency-Key", "v"), 202)
	want[api.Run](t, b.post("/api/v1/runs/"+run.ID+":resume", ""), 202)
	repeat := func() {
		t.Helper()
		if got := want[api.Run](t, b.post(verb, `{"reason":"r"}`, "Idempotency-Key", "v"), 200); got.Intent != "run" {
			t.Error("the repeat was carried out")
		}
		wantProblem(t, b.post(verb, `{"reason":"s"}`, "Idempotency-Key", "v"), 409, api.ProblemIdempotency)
	}
	repeat()

	// The request may be invalid now, but its key still finds the run.
	b.do("PUT", "/api/v1/workflows/default/once", "name: once\ntasks: {a: {run: 'true'}}\n", "Content-Type", "application/yaml")
	same("after a new version")
	want[api.Workflow](t, b.post("/api/v1/workflows/default/once:pause", ""), 200)
	same("while the workflow is paused")
	b.restart()
	same("after a restart")
	repeat()
}

func TestIdempotencyAtOnce(t *testing.T) {
	b := newBed(t, false)
	b.apply("race")
	const n = 16
	ids := make(chan string, n)
	for range n {
		go func() {
			run, _, err := b.client.Start(t.Context(), api.RunRequest{Workflow: "race"}, skein.Key("k"))
			if err != nil {
				t.Error(err)
			}
			ids <- run.ID
		}()
	}
	first := <-ids
	for range n - 1 {
		if id := <-ids; id != first {
			t.Errorf("runs %s and %s", first, id)
		}
	}
	errs := make(chan error, n)
	for range n {
		go func() {
			_, err := b.client.PauseRun(t.Context(), first, "", skein.Key("p"))
			errs <- err
		}()
	}
	for range n {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

func TestRunListsAndCursors(t *testing.T) {
	b := newBed(t, true)
	b.apply("one")
	b.apply("two")
	var ids []string // newest first
	for i := range 5 {
		name := []string{"one", "two"}[i%2]
		a := b.post("/api/v1/runs", `{"workflow":"`+name+`"}`, "Prefer", "wait=60", api.HeaderClaimedBy, fmt.Sprintf("u%d", i%2))
		ids = append([]string{want[api.Run](t, a, 201).ID}, ids...)
	}
	pages := func(path string) (got []string) {
		t.Helper()
		cursor := ""
		for range 10 {
			l := want[api.List[api.Run]](t, b.get(path+"&limit=2&cursor="+cursor), 200)
			for _, r := range l.Items {
				got = append(got, r.ID)
			}
			if l.Next == nil {
				return got
			}
			cursor = *l.Next
		}
		t.Fatal("no end")
		return nil
	}
	for path, wanted := range map[string][]string{
		"/api/v1/runs?":                           ids,
		"/api/v1/runs?workflow=two":               {ids[1], ids[3]},
		"/api/v1/runs?user=u0":                    {ids[0], ids[2], ids[4]},
		"/api/v1/runs?user=local+(u0)":            {ids[0], ids[2], ids[4]},
		"/api/v1/users/u1/runs?":                  {ids[1], ids[3]},
		"/api/v1/runs?state=succeeded":            ids,
		"/api/v1/runs?state=active":               nil,
		"/api/v1/runs?since=2100-01-01T00:00:00Z": nil,
	} {
		if got := pages(path); !slices.Equal(got, wanted) {
			t.Errorf("%s: %v, want %v", path, got, wanted)
		}
	}
	// The name of a user is the name of a token, or a claimed name. Both lists are merged.
	wf := must(b.engine.Workflow(t.Context(), "default", "one"))
	mixed := []string{ids[1], ids[3]}
	for i := range 5 {
		a := must(b.engine.Submit(t.Context(), engine.Submission{Workflow: wf, Origin: dag.OriginAPI, User: []string{"u1", "local (u1)"}[i%2]}))
		mixed = append([]string{a.Run.String()}, mixed...)
	}
	if got := pages("/api/v1/runs?user=u1"); !slices.Equal(got, mixed) {
		t.Errorf("of a user: %v, want %v", got, mixed)
	}
	if got := pages("/api/v1/runs?user=local+(u1)"); !slices.Equal(got, []string{mixed[1], mixed[3], mixed[5], mixed[6]}) {
		t.Errorf("of a claim: %v of %v", got, mixed)
	}
	if a := b.get("/api/v1/runs?state=active&user=nobody"); !strings.Contains(a.body, `"items":[],"next":null`) {
		t.Error(a.body)
	}
	for _, bad := range []string{"cursor=%25%25", "cursor=bm9uZQ", "limit=0", "limit=1001", "limit=x", "state=done", "since=yesterday", "colour=red"} {
		wantProblem(t, b.get("/api/v1/runs?"+bad), 422, api.ProblemInvalid)
	}
	wantProblem(t, b.get("/api/v1/runs?workflow=three"), 404, api.ProblemNotFound)
}

func TestTasksEventsGraphExplain(t *testing.T) {
	b := newBed(t, false)
	b.apply("parts")
	run := b.run("parts")
	b.exec.end(<-b.exec.got, dag.Result{State: dag.AttemptFailed, Cause: dag.CauseExit, ExitCode: 3})
	got := want[api.Run](t, b.get("/api/v1/runs/"+run.ID+"?include=tasks", "Prefer", "wait=60"), 200)
	if got.State != "failed" || got.Counts["upstream_failed"] != 3 || *got.Tasks[3].Cause != "task b is upstream_failed" {
		t.Errorf("%+v", got)
	}
	path := "/api/v1/runs/" + run.ID
	var names []string
	for task, err := range b.client.EachTask(t.Context(), run.ID) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, task.Name)
	}
	if strings.Join(names, "") != "abcd" {
		t.Error(names)
	}
	two := want[api.List[api.Task]](t, b.get(path+"/tasks?limit=3"), 200)
	rest := want[api.List[api.Task]](t, b.get(path+"/tasks?limit=3&cursor="+*two.Next), 200)
	if len(two.Items) != 3 || len(rest.Items) != 1 || rest.Items[0].Name != "d" || rest.Next != nil {
		t.Errorf("%+v %+v", two, rest)
	}
	a := want[api.Task](t, b.get(path+"/tasks/a"), 200)
	if at := a.Attempts[0]; *at.ExitCode != 3 || at.State != "failed" || *a.Cause != "exit" || string(a.Outputs) != "{}" || at.Signal != nil {
		t.Errorf("%+v", a)
	}
	g := want[api.Graph](t, b.get(path+"/graph"), 200)
	if len(g.Nodes) != 4 || len(g.Edges) != 4 || *g.Nodes[0].State != "failed" || g.Edges[0] != (api.GraphEdge{From: "a", To: "b"}) {
		t.Errorf("%+v", g)
	}
	x := want[api.Explanation](t, b.get(path+"/explain"), 200)
	if x.ID != run.ID || x.State != "failed" || len(x.Reasons) == 0 || x.Reasons[0].Kind == "" {
		t.Errorf("%+v", x)
	}
	if r := x.Reasons[0]; r.Code != "run_ended" || r.Args["state"] != "failed" || len(r.Actions) != 2 || r.Actions[0].Verb != "recover" {
		t.Errorf("the run is explained by %+v", r)
	}
	task := want[api.Explanation](t, b.get(path+"/tasks/a/explain?limit=1"), 200)
	if r := task.Reasons; task.ID != run.ID+"/a" || len(r) != 1 || r[0].Code != "task_ended" || r[0].Actions[0].Label != "Retry task a" {
		t.Errorf("%+v", task)
	}
	for _, a := range append(x.Reasons[0].Actions, task.Reasons[0].Actions...) {
		if got := b.post(a.Path, `{"unknown": 1}`); got.status != 422 { // the route exists, and refuses only the body
			t.Errorf("%s: %d %s", a.Path, got.status, got.body)
		}
	}
	var kinds []string
	for e, err := range b.client.EachEvent(t.Context(), run.ID) {
		if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, e.Kind)
	}
	for _, k := range []string{"submitted", "assigned", "ended", "state"} {
		if !slices.Contains(kinds, k) {
			t.Errorf("no %s in %v", k, kinds)
		}
	}
	small := want[api.List[api.Event]](t, b.get(path+"/events?limit=1"), 200)
	if small.Next == nil || small.Items[0].Kind != "submitted" || len(small.Items) >= len(kinds) {
		t.Errorf("%+v", small)
	}
	const nobody = "/api/v1/runs/01900000-0000-7000-8000-000000000000"
	for _, bad := range []string{path + "/tasks/zz", path + "/tasks/zz/explain", path + "/tasks/zz/logs", nobody, nobody + "/tasks", nobody + "/tasks/a",
		nobody + "/graph", nobody + "/events", nobody + "/explain", nobody + "/tasks/a/explain", nobody + "/tasks/a/logs", "/api/v1/runs/nonsense"} {
		wantProblem(t, b.get(bad), 404, api.ProblemNotFound)
	}
	wantProblem(t, b.post(nobody+":stop", ""), 404, api.ProblemNotFound)
	wantProblem(t, b.post(nobody+":stop", "", "Idempotency-Key", "k"), 404, api.ProblemNotFound)
}

// The same handler without a socket, as skein run file.yaml uses it.
func TestInProcess(t *testing.T) {
	b := newBed(t, false)
	c := must(skein.New("http://localhost", skein.WithHandler(auth.AsLocal(b.srv.Handler())), skein.WithUser("me")))
	src := fmt.Sprintf(diamond, "inside")
	if _, err := c.Apply(t.Context(), "inside", api.ApplyRequest{Source: src}); err != nil {
		t.Fatal(err)
	}
	w, err := c.Watch(t.Context(), skein.WatchQuery{Workflows: []string{"inside"}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	run, started, err := c.Start(t.Context(), api.RunRequest{Workflow: "inside"})
	if err != nil || !started || run.User != "local (me)" {
		t.Fatalf("%+v %v", run, err)
	}
	for range 4 {
		b.exec.end(<-b.exec.got, succeeded())
	}
	for change, err := range w.Changes() {
		if err != nil {
			t.Fatal(err)
		}
		if last := change.Events[len(change.Events)-1]; last.Kind == "state" && *last.State == "succeeded" {
			break
		}
	}
	l, err := c.Logs(t.Context(), run.ID, "a", skein.LogQuery{Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	if text := must(io.ReadAll(l)); len(text) != 0 || l.Attempt != 1 {
		t.Errorf("%q %d", text, l.Attempt)
	}
	l.Close()
	_, err = c.Run(t.Context(), "nonsense")
	var e *skein.Error
	if !errors.Is(err, skein.ErrNotFound) || !errors.As(err, &e) || e.Problem.Type != api.ProblemNotFound || e.Problem.Status != http.StatusNotFound {
		t.Errorf("%v", err)
	}
}

func TestTasksOfALargeRunComeInPages(t *testing.T) {
	b := newBed(t, true)
	var src strings.Builder
	src.WriteString("name: large\ntasks:\n")
	for i := range 1001 {
		fmt.Fprintf(&src, "  t%d: {run: 'true'}\n", i)
	}
	want[api.Applied](t, b.do("PUT", "/api/v1/workflows/default/large", src.String(), "Content-Type", "application/yaml"), 201)
	run := b.run("large")
	if got := want[api.Run](t, b.get("/api/v1/runs/"+run.ID+"?include=tasks"), 200); got.Tasks != nil || got.Counts["succeeded"] != 1001 {
		t.Errorf("%d tasks, %v", len(got.Tasks), got.Counts)
	}
	n := 0
	for task, err := range b.client.EachTask(t.Context(), run.ID) {
		if err != nil || task.Name != fmt.Sprintf("t%d", n) {
			t.Fatalf("%d: %s %v", n, task.Name, err)
		}
		n++
	}
	if n != 1001 {
		t.Errorf("%d tasks", n)
	}
}
