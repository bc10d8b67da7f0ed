package server_test

import (
	"net/http"
	"strings"
	"testing"

	api "skein.dev/skein/sdk/api/v1"
)

// TestOneMeaning: a request that readers could understand in different ways is refused.
func TestOneMeaning(t *testing.T) {
	b := newBed(t, true)
	b.apply("w")
	many := ""
	for i := range 40 {
		many += `"k` + strings.Repeat("x", i) + `":1,`
	}
	for name, c := range map[string]struct {
		body   string
		header []string
		status int
		kind   string
	}{
		"as it should be":      {`{"workflow":"w","params":{"a":{"b":1},"b":[{"b":1},{"b":2}]}}`, nil, 422, api.ProblemInvalidParams},
		"a key twice":          {`{"workflow":"x","workflow":"w"}`, nil, 400, api.ProblemInvalid},
		"a key twice, deeper":  {`{"workflow":"w","params":{"a":[{"b":1,"c":2,"b":1}]}}`, nil, 400, api.ProblemInvalid},
		"a key twice, escaped": {`{"workflow":"w","work\u0066low":"w"}`, nil, 400, api.ProblemInvalid},
		"a key twice of many":  {`{"workflow":"w","params":{` + many + `"k":1}}`, nil, 400, api.ProblemInvalid},
		"another case":         {`{"Workflow":"w"}`, nil, 422, api.ProblemInvalid},
		"both cases":           {`{"workflow":"w","Workflow":"x"}`, nil, 422, api.ProblemInvalid},
		"no media type":        {`{"workflow":"w"}`, []string{"Content-Type", ""}, 415, api.ProblemMediaType},
		"a form":               {`{"workflow":"w"}`, []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, api.ProblemMediaType},
		"another encoding":     {"{\"workflow\":\"w\",\"user\":\"j\xf6rg\"}", nil, 400, api.ProblemInvalid},
		"half a pair":          {`{"workflow":"w","user":"a\\\ud800"}`, nil, 400, api.ProblemInvalid},
		"a pair backwards":     {`{"workflow":"w","params":{"\udc00\ud800":1}}`, nil, 400, api.ProblemInvalid},
		"a pair and a half":    {`{"workflow":"w","params":{"a":["\ud83d\ude00\uDBFFx"]}}`, nil, 400, api.ProblemInvalid},
		"a pair":               {`{"workflow":"w","params":{"a":"\\ud800 \ud83d\ude00 \u00e9"}}`, nil, 422, api.ProblemInvalidParams},
		"a tab in the key":     {`{"workflow":"w"}`, []string{api.HeaderIdempotencyKey, "a\tb"}, 422, api.ProblemInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			wantProblem(t, b.post("/api/v1/runs", c.body, c.header...), c.status, c.kind)
		})
	}
	for _, query := range []string{"state=failed;limit=1", "limit=1&user=%zz"} {
		wantProblem(t, b.get("/api/v1/runs?"+query), 400, api.ProblemInvalid)
	}
	wantProblem(t, b.do(http.MethodPut, "/api/v1/workflows/default/w", "name: w\ntasks:\n  a: {run: \"true\"}\n", "Content-Type", ""), 415, api.ProblemMediaType)
	wantProblem(t, b.do(http.MethodPut, "/api/v1/workflows/default/w", `{"source":"x","source":"name: w\ntasks:\n  a: {run: \"true\"}\n"}`), 400, api.ProblemInvalid)
	const source = `"name: w\ntasks:\n  a: {run: \"true\"}\n"`
	for _, body := range []string{`{"Source":` + source + `}`, `{"source":` + source + `,"SOURCE":"x"}`, `{"\u017fource":` + source + `}`,
		`{"source":` + source + `,"files":[{"Name":"a","mode":420,"data":""}]}`, `{"source":` + source + `,"other":1}`} {
		wantProblem(t, b.do(http.MethodPut, "/api/v1/workflows/default/w", body), 400, api.ProblemInvalid)
		wantProblem(t, b.post("/api/v1/validate", body), 400, api.ProblemInvalid)
	}
	if a := b.post("/api/v1/runs", `{"workflow":"w","params":{}}`); a.status != http.StatusAccepted {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// TestParameters: a name without a value means true, a wrong parameter is found before the body, and a path
// with a text that the store cannot search names no object.
func TestParameters(t *testing.T) {
	b := newBed(t, true)
	wantProblem(t, b.get("/api/v1/runs?limit"), 422, api.ProblemInvalid)
	for query, status := range map[string]int{"limit&system": 422, "limit=": 200, "system=maybe": 422, "ns": 200, "state": 200} {
		if a := b.get("/api/v1/runs?" + query); a.status != status {
			t.Errorf("?%s: %d %s", query, a.status, a.body)
		}
	}
	for query, has := range map[string]bool{"limit=1&count": true, "count&limit=1": true, "c%6funt&limit=1": true, "count=&limit=1": false} {
		if a := b.get("/api/v1/runs?" + query); a.status != http.StatusOK || strings.Contains(a.body, `"total":{`) != has {
			t.Errorf("?%s: %d %s", query, a.status, a.body)
		}
	}
	for _, path := range []string{"/classes/%00", "/classes/default/%ff", "/channels/%00/x"} {
		wantProblem(t, b.do(http.MethodDelete, "/api/v1"+path, ""), 404, api.ProblemNotFound)
	}
	for _, body := range []string{"", "{", `{"other":1}`} {
		p := wantProblem(t, b.post("/api/v1/backfills?nonsense=1", body), 422, api.ProblemInvalid)
		if !strings.Contains(p.Detail, "nonsense") || len(p.Errors) != 1 {
			t.Errorf("body %q: %+v", body, p)
		}
	}
}
