package server_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/server"
	"skein.dev/skein/internal/workflow"
	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

const yaml = "application/yaml"

func TestApply(t *testing.T) {
	b := newBed(t, true)
	const path = "/api/v1/workflows/default/w"
	src := fmt.Sprintf(diamond, "w")
	a := b.do("PUT", path, src, "Content-Type", yaml)
	first := want[api.Applied](t, a, 201)
	if !first.Changed || first.Version != 1 || first.Workflow.Workflow != "w" || *first.Tasks != 4 || *first.Source != src || *first.Description != "four tasks" ||
		!strings.HasPrefix(a.header.Get("ETag"), fmt.Sprintf(`"%d.`, first.Revision)) || a.header.Get("Location") != path {
		t.Errorf("%+v %v", first, a.header)
	}
	if p := first.Params[1]; p.Name != "n" || p.Type != "int" || p.Required || p.Default != 1.0 {
		t.Errorf("%+v", first.Params)
	}
	if same := want[api.Applied](t, b.do("PUT", path, src, "Content-Type", "text/yaml; charset=utf-8"), 200); same.Changed || same.Revision != first.Revision {
		t.Errorf("%+v", same)
	}
	body := must(json.Marshal(api.ApplyRequest{Source: src, File: "w.yaml", Dir: "/srv/w", Files: []api.File{{Name: "lib/x.sh", Mode: 0o755, Data: []byte("echo")}}}))
	if second := want[api.Applied](t, b.do("PUT", path, string(body)), 200); !second.Changed || second.Version != 2 {
		t.Errorf("%+v", second)
	}
	if same := want[api.Applied](t, b.do("PUT", path, string(body)), 200); same.Changed {
		t.Error("the same, with files, made a version")
	}
	v := want[api.Version](t, b.get(path+"/versions/2"), 200)
	if *v.Source != src || !v.Current || len(v.Files) != 1 || v.Files[0].Name != "lib/x.sh" || v.Files[0].Mode != 0o755 || v.Files[0].Size != 4 || len(v.Digest) != 64 || v.User != "local" {
		t.Errorf("%+v", v)
	}
	g := want[api.Graph](t, b.get(path+"/graph?version=1"), 200)
	if len(g.Nodes) != 4 || g.Nodes[0].State != nil {
		t.Errorf("%+v", g)
	}
	shop := strings.Replace(src, "name: w", "name: w\nnamespace: shop", 1)
	if w := want[api.Applied](t, b.do("PUT", "/api/v1/workflows/shop/w", shop, "Content-Type", yaml), 201); w.Workflow.Workflow != "shop/w" {
		t.Errorf("%+v", w)
	}
	if run := want[api.Run](t, b.post("/api/v1/runs", `{"workflow":"shop/w"}`), 202); run.Workflow != "shop/w" || run.Namespace != "shop" {
		t.Errorf("%+v", run)
	}
	wantProblem(t, b.get(path+"/versions/3"), 404, api.ProblemNotFound)
	wantProblem(t, b.get(path+"/versions/zero"), 422, api.ProblemInvalid)
	wantProblem(t, b.get(path+"/graph?version=3"), 404, api.ProblemNotFound)
	wantProblem(t, b.get("/api/v1/workflows/default/none"), 404, api.ProblemNotFound)
}

// A draft is drawn as its version is, and a draft with a fault is not drawn.
func TestDraftIsDrawn(t *testing.T) {
	b := newBed(t, true)
	src := fmt.Sprintf(diamond, "w")
	v := want[api.Validation](t, b.post("/api/v1/validate?include=layout", src, "Content-Type", yaml), 200)
	want[api.Applied](t, b.do("PUT", "/api/v1/workflows/default/w", src, "Content-Type", yaml), 201)
	is := want[api.Layout](t, b.get("/api/v1/workflows/default/w/layout"), 200)
	if v.Layout == nil || len(v.Layout.Nodes) == 0 || !reflect.DeepEqual(*v.Layout, is) {
		t.Errorf("the draft is drawn as %+v, its version as %+v", v.Layout, is)
	}
	if v := want[api.Validation](t, b.post("/api/v1/validate", src, "Content-Type", yaml), 200); v.Layout != nil {
		t.Error("a layout that was not asked for")
	}
	bad := strings.Replace(src, "needs: a,", "needs: nowhere,", 1)
	if v := want[api.Validation](t, b.post("/api/v1/validate?include=layout", bad, "Content-Type", yaml), 200); v.Layout != nil || len(v.Errors) == 0 {
		t.Errorf("a draft with a fault: %+v", v)
	}
	wantProblem(t, b.post("/api/v1/validate?include=nothing", src, "Content-Type", yaml), 422, api.ProblemInvalid)
}

// The answer about a version contains everything to apply it again, as an editor does with a changed source.
func TestVersionGivesItsFiles(t *testing.T) {
	b := newBed(t, true)
	sent := api.ApplyRequest{Source: fmt.Sprintf(diamond, "w"), Dir: "/srv/jobs", Files: []api.File{{Name: "a.sh", Mode: 0o755, Data: []byte("true\n")}}}
	const path = "/api/v1/workflows/default/w"
	want[api.Applied](t, b.do("PUT", path, string(must(json.Marshal(sent)))), 201)
	v := want[api.Version](t, b.get(path+"/versions/1?include=files"), 200)
	if v.Dir == nil || *v.Dir != sent.Dir || len(v.Files) != 1 || string(v.Files[0].Data) != "true\n" || v.Files[0].Mode != 0o755 {
		t.Fatalf("%+v", v)
	}
	again := api.ApplyRequest{Source: *v.Source, Dir: *v.Dir, Files: v.Files}
	if a := want[api.Applied](t, b.do("PUT", path, string(must(json.Marshal(again)))), 200); a.Changed {
		t.Error("the same source, folder and files made another version")
	}
	if v := want[api.Version](t, b.get(path+"/versions/1"), 200); v.Dir != nil || v.Files[0].Data != nil {
		t.Errorf("content that was not asked for: %+v", v)
	}
}

func TestWorkflowSchemaIsServed(t *testing.T) {
	b := newBed(t, true)
	a := b.get("/api/v1/schema/workflow.json")
	if a.status != 200 || a.body != string(workflow.Schema()) || a.header.Get("ETag") == "" {
		t.Errorf("%d %v %.200s", a.status, a.header, a.body)
	}
	if again := b.get("/api/v1/schema/workflow.json", "If-None-Match", a.header.Get("ETag")); again.status != 304 || again.body != "" {
		t.Errorf("the same schema again: %d, %d bytes", again.status, len(again.body))
	}
}

func TestApplyRefuses(t *testing.T) {
	b := newBed(t, true)
	const path = "/api/v1/workflows/default/w"
	src := fmt.Sprintf(diamond, "w")
	file := func(name string, n int) string {
		return string(must(json.Marshal(api.ApplyRequest{Source: src, Files: []api.File{{Name: name, Data: make([]byte, n)}}})))
	}
	bad := "name: w\ntasks:\n  a:\n    runn: x\n  b:\n    run: 'true'\n    needs: zz\n"
	p := wantProblem(t, b.do("PUT", path, string(must(json.Marshal(api.ApplyRequest{Source: bad, File: "w.yaml"})))), 422, api.ProblemInvalidWorkflow)
	if len(p.Errors) < 2 || p.Errors[0].File != "w.yaml" || p.Errors[1].Line != 4 || p.Errors[0].Key == "" || p.Errors[0].Message == "" {
		t.Errorf("%+v", p)
	}
	v := want[api.Validation](t, b.post("/api/v1/validate", bad, "Content-Type", yaml), 200)
	if len(v.Errors) != len(p.Errors) || v.Errors[1].Line != 4 {
		t.Errorf("%+v", v)
	}
	if v := want[api.Validation](t, b.post("/api/v1/validate", src, "Content-Type", yaml), 200); len(v.Errors) != 0 || v.Errors == nil {
		t.Errorf("%+v", v)
	}
	for _, c := range []struct {
		name, body, kind string
		status           int
	}{
		{"another name", fmt.Sprintf(diamond, "v"), api.ProblemInvalidWorkflow, 422},
		{"another namespace", strings.Replace(src, "name: w", "name: w\nnamespace: x", 1), api.ProblemInvalidWorkflow, 422},
		{"two documents", src + "---\n" + fmt.Sprintf(diamond, "v"), api.ProblemInvalidWorkflow, 422},
		{"nothing", " ", api.ProblemInvalidWorkflow, 422},
		{"binary", "\x00\xff\x01", api.ProblemInvalidWorkflow, 422},
	} {
		if p := wantProblem(t, b.do("PUT", path, c.body, "Content-Type", yaml), c.status, c.kind); len(p.Errors) == 0 {
			t.Errorf("%s: no errors", c.name)
		}
	}
	for _, body := range []string{file("../x", 1), file("/x", 1), file("a\\b", 1), file(".", 1), file("big", 1<<20+1),
		`{"source":"x","files":[{"name":"a","mode":1,"data":""},{"name":"a","mode":1,"data":""}]}`, `{"source":"x","dir":"here"}`} {
		wantProblem(t, b.do("PUT", path, body), 422, api.ProblemInvalid)
	}
	wantProblem(t, b.do("PUT", path, `{"source":"x","extra":1}`), 400, api.ProblemInvalid)
	wantProblem(t, b.do("PUT", path, `{"source":"x"} {}`), 400, api.ProblemInvalid)
	wantProblem(t, b.do("PUT", path, src, "Content-Type", "image/png"), 415, api.ProblemMediaType)
	wantProblem(t, b.get(path), 404, api.ProblemNotFound) // none of these calls has stored anything
}

func TestIfMatch(t *testing.T) {
	b := newBed(t, true)
	const path = "/api/v1/workflows/default/w"
	w := b.apply("w")
	tag := b.get(path).header.Get("ETag")
	if a := b.get(path, "If-None-Match", tag); a.status != 304 || a.body != "" || a.header.Get("ETag") != tag {
		t.Errorf("%d %q", a.status, a.body)
	}
	changed := fmt.Sprintf(diamond, "w") + "  e: {run: 'true'}\n"
	put := func(header ...string) answer {
		return b.do("PUT", path, changed, append(header, "Content-Type", yaml)...)
	}
	wantProblem(t, put("If-Match", `"99"`), 412, api.ProblemPrecondition)
	wantProblem(t, put("If-Match", `W/"x"`), 412, api.ProblemPrecondition)
	wantProblem(t, put("If-None-Match", "*"), 412, api.ProblemPrecondition)
	wantProblem(t, b.do("PUT", "/api/v1/workflows/default/new", changed, "Content-Type", yaml, "If-Match", "*"), 422, api.ProblemInvalidWorkflow)
	wantProblem(t, b.do("PUT", "/api/v1/workflows/default/new", fmt.Sprintf(diamond, "new"), "Content-Type", yaml, "If-Match", "*"), 412, api.ProblemPrecondition)
	if got := want[api.Applied](t, put("If-Match", tag), 200); got.Revision != w.Revision+1 || got.Version != 2 {
		t.Errorf("%+v", got)
	}
	for _, verb := range []string{":pause", ":resume"} {
		wantProblem(t, b.post(path+verb, "", "If-Match", tag), 412, api.ProblemPrecondition)
	}
	wantProblem(t, b.post(path+":rollback", `{"version":1}`, "If-Match", tag), 412, api.ProblemPrecondition)
	wantProblem(t, b.do("DELETE", path, "", "If-Match", tag), 412, api.ProblemPrecondition)
	_, err := b.client.Apply(t.Context(), "w", api.ApplyRequest{Source: fmt.Sprintf(diamond, "w")}, skein.IfRevision(w.Revision))
	if !errors.Is(err, skein.ErrConflict) {
		t.Error(err)
	}
	if a := b.do("DELETE", path, "", "If-Match", b.get(path).header.Get("ETag")); a.status != 204 {
		t.Errorf("%d %s", a.status, a.body)
	}
	wantProblem(t, b.get(path), 404, api.ProblemNotFound)
	if again := b.apply("w"); again.Version != 1 {
		t.Errorf("%+v", again)
	}
}

// TestWorkflowVerbOnce: a verb that is repeated late, with its key, does not undo later changes.
func TestWorkflowVerbOnce(t *testing.T) {
	b := newBed(t, true)
	const path = "/api/v1/workflows/default/w"
	b.apply("w")
	want[api.Applied](t, b.do("PUT", path, fmt.Sprintf(diamond, "w")+"# edit\n", "Content-Type", yaml), 200)
	want[api.Workflow](t, b.post(path+":pause", "", "Idempotency-Key", "p1"), 200)
	want[api.Workflow](t, b.post(path+":resume", ""), 200)
	b.restart()
	if got := want[api.Workflow](t, b.post(path+":pause", "", "Idempotency-Key", "p1"), 200); got.State != "active" {
		t.Errorf("a repeat paused it again: %+v", got)
	}
	want[api.Workflow](t, b.post(path+":rollback", `{"version":1}`, "Idempotency-Key", "r1"), 200)
	want[api.Workflow](t, b.post(path+":rollback", `{"version":2}`), 200)
	if got := want[api.Workflow](t, b.post(path+":rollback", `{"version":1}`, "Idempotency-Key", "r1"), 200); got.Version != 2 {
		t.Errorf("a repeat rolled back again: %+v", got)
	}
	wantProblem(t, b.post(path+":rollback", `{"version":2}`, "Idempotency-Key", "r1"), 409, api.ProblemConflict)
}

func TestWorkflowVerbsAndVersions(t *testing.T) {
	b := newBed(t, true)
	const path = "/api/v1/workflows/default/w"
	b.apply("w")
	for i := range 3 {
		src := fmt.Sprintf(diamond, "w") + strings.Repeat("# edit\n", i+1)
		want[api.Applied](t, b.do("PUT", path, src, "Content-Type", yaml), 200)
	}
	paused := want[api.Workflow](t, b.post(path+":pause", ""), 200)
	if again := want[api.Workflow](t, b.post(path+":pause", ""), 200); paused.State != "paused" || again.Revision != paused.Revision {
		t.Errorf("%+v %+v", paused, again)
	}
	wantProblem(t, b.post("/api/v1/runs", `{"workflow":"w"}`), 409, api.ProblemConflict)
	if got := want[api.Workflow](t, b.post(path+":resume", ""), 200); got.State != "active" {
		t.Errorf("%+v", got)
	}
	if got := want[api.Workflow](t, b.post(path+":rollback", `{"version":2}`), 200); got.Version != 2 || got.Latest != 4 {
		t.Errorf("%+v", got)
	}
	if run := b.run("w"); run.Version != 2 {
		t.Errorf("%+v", run)
	}
	if run := want[api.Run](t, b.post("/api/v1/runs", `{"workflow":"w","version":3}`), 202); run.Version != 3 {
		t.Errorf("%+v", run)
	}
	wantProblem(t, b.post(path+":rollback", `{"version":9}`), 404, api.ProblemNotFound)
	wantProblem(t, b.post(path+":rollback", `{"version":0}`), 422, api.ProblemInvalid)
	wantProblem(t, b.post(path+":rollback", ``), 400, api.ProblemInvalid)
	wantProblem(t, b.post(path+":burn", ``), 404, api.ProblemNotFound)

	var versions []int32
	for cursor, n := "", 0; n < 5; n++ {
		l := want[api.List[api.Version]](t, b.get(path+"/versions?limit=3&cursor="+cursor), 200)
		for _, v := range l.Items {
			versions = append(versions, v.Version)
			if v.Source != nil || v.Files != nil || v.Current != (v.Version == 2) {
				t.Errorf("%+v", v)
			}
		}
		if l.Next == nil {
			break
		}
		cursor = *l.Next
	}
	if !slices.Equal(versions, []int32{4, 3, 2, 1}) {
		t.Error(versions)
	}
	for _, name := range []string{"x", "a", "m"} {
		b.apply(name)
	}
	var names []string
	for w, err := range b.client.EachWorkflow(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, w.Name)
	}
	two := want[api.List[api.Workflow]](t, b.get("/api/v1/workflows?limit=2"), 200)
	rest := want[api.List[api.Workflow]](t, b.get("/api/v1/workflows?limit=2&cursor="+*two.Next), 200)
	if strings.Join(names, "") != "amwx" || two.Items[1].Name != "m" || rest.Items[0].Name != "w" || rest.Next != nil {
		t.Errorf("%v %+v %+v", names, two, rest)
	}
	if l := want[api.List[api.Workflow]](t, b.get("/api/v1/workflows?namespace=none"), 200); len(l.Items) != 0 {
		t.Errorf("%+v", l)
	}
}

func TestBoundedBodies(t *testing.T) {
	b := newBed(t, true)
	b.apply("w")
	const runs, put = "/api/v1/runs", "/api/v1/workflows/default/w"
	wantProblem(t, b.post(runs, `{"workflow":"w","params":{"day":"`+strings.Repeat("x", 1<<20)+`"}}`), 413, api.ProblemTooLarge)
	wantProblem(t, b.do("PUT", put, strings.Repeat("#", 32<<20+1), "Content-Type", yaml), 413, api.ProblemTooLarge)
	deep := `{"workflow":"w","params":{"day":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}}`
	wantProblem(t, b.post(runs, deep), 400, api.ProblemInvalid)
	wantProblem(t, b.do("PUT", put, `{"source":`+strings.Repeat("[", 1e6)), 400, api.ProblemInvalid)
	wantProblem(t, b.post(runs, `{"workflow":"w"}`, "Content-Type", "text/plain"), 415, api.ProblemMediaType)
	wantProblem(t, b.post(runs, ""), 400, api.ProblemInvalid)
	wantProblem(t, b.post(runs, `{"workflow":"w"}`, "Idempotency-Key", strings.Repeat("k", 300)), 422, api.ProblemInvalid)
	wantProblem(t, b.get(runs+"?cursor="+strings.Repeat("c", 2000)), 422, api.ProblemInvalid)
	// The input of a client is not sent back to it.
	secret := base64.StdEncoding.EncodeToString([]byte("password"))
	if a := b.post(runs, `{"workflow":"w","nope":"`+secret+`"}`); strings.Contains(a.body, secret) {
		t.Error(a.body)
	}
}

// weighed is a response writer that records, while the answer is written, the weight of the requests that are
// being processed.
type weighed struct {
	httptest.ResponseRecorder
	srv    *server.Server
	weight int64
}

func (w *weighed) Write(p []byte) (int, error) {
	w.weight = server.Weighing(w.srv)
	return w.ResponseRecorder.Write(p)
}

// TestVersionsWeigh: a request for a version has the weight of the source and of the files that it reads, until its
// answer is written.
func TestVersionsWeigh(t *testing.T) {
	b := newBed(t, true)
	source := fmt.Sprintf(diamond, "w")
	sent := api.ApplyRequest{Source: source, Files: []api.File{{Name: "a", Data: make([]byte, 1000)}, {Name: "b", Data: make([]byte, 234)}}}
	want[api.Applied](t, b.do("PUT", "/api/v1/workflows/default/w", string(must(json.Marshal(sent)))), 201)
	for query, weight := range map[string]int{"": len(source), "?include=files": len(source) + 1234} {
		r := httptest.NewRequest("GET", "http://localhost/api/v1/workflows/default/w/versions/1"+query, nil)
		w := &weighed{*httptest.NewRecorder(), b.srv, 0}
		if auth.AsLocal(b.srv.Handler()).ServeHTTP(w, r); w.Code != http.StatusOK || w.weight != int64(weight) {
			t.Errorf("%q: status %d, weight %d, want %d", query, w.Code, w.weight, weight)
		}
		if left := server.Weighing(b.srv); left != 0 {
			t.Errorf("%q: it weighs %d afterwards", query, left)
		}
	}
}

// slowReader is a response writer whose client reads nothing until the test allows it.
type slowReader struct {
	httptest.ResponseRecorder
	begun, read chan struct{}
}

func (w *slowReader) Write(p []byte) (int, error) {
	w.begun <- struct{}{}
	<-w.read
	return w.ResponseRecorder.Write(p)
}

// TestSlowReadersHoldNobody: while clients read the files of a version slowly, other large requests are
// answered.
func TestSlowReadersHoldNobody(t *testing.T) {
	b := newBed(t, true)
	source := fmt.Sprintf(diamond, "w")
	sent := api.ApplyRequest{Source: source, Files: []api.File{{Name: "a", Data: make([]byte, 1<<20)}, {Name: "b", Data: make([]byte, 1<<20)}}}
	want[api.Applied](t, b.do("PUT", "/api/v1/workflows/default/w", string(must(json.Marshal(sent)))), 201)
	begun, read := make(chan struct{}, 100), make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			r := httptest.NewRequest("GET", "http://localhost/api/v1/workflows/default/w/versions/1?include=files", nil)
			w := &slowReader{*httptest.NewRecorder(), begun, read}
			if auth.AsLocal(b.srv.Handler()).ServeHTTP(w, r); w.Code != http.StatusOK {
				t.Errorf("a slow reader: status %d", w.Code)
			}
		})
		<-begun
	}
	if a := b.do("POST", "/api/v1/validate", source, "Content-Type", "application/yaml"); a.status != http.StatusOK {
		t.Errorf("validate while two read slowly: %d %s", a.status, a.body)
	}
	close(read)
	wg.Wait()
}
