package server_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	api "skein.dev/skein/sdk/api/v1"
)

// fetched returns an answer as the server sent it: the transport does not decompress it.
func (b *bed) fetched(method, path, body string, header ...string) answer {
	b.t.Helper()
	req := must(http.NewRequestWithContext(b.t.Context(), method, b.http.URL+path, strings.NewReader(body)))
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	rt := &http.Transport{DisableCompression: true, DisableKeepAlives: true}
	resp := must(rt.RoundTrip(req))
	defer resp.Body.Close()
	return answer{resp.StatusCode, resp.Header, string(must(io.ReadAll(resp.Body)))}
}

func unzipped(t *testing.T, a answer) string {
	t.Helper()
	r, err := gzip.NewReader(strings.NewReader(a.body))
	if err != nil {
		t.Fatal(err)
	}
	return string(must(io.ReadAll(r)))
}

// TestAnswersAreCompressed: large JSON is compressed for a client that asks for it. Small answers, streams,
// other media types and the answers to changes are not.
func TestAnswersAreCompressed(t *testing.T) {
	b := newBed(t, true)
	b.apply("w")
	run := b.run("w")
	large := strings.Repeat("x", 2000)
	wide := `{"source":"name: wide\ntasks:\n` + strings.Repeat(`  a: {run: x, nonsense: 1}\n`, 50) + `"}`
	for _, c := range []struct {
		method, path, body string
		zipped             bool
	}{
		{"GET", "/api/v1/runs/" + run.ID + "/tasks", "", true},
		{"GET", "/api/v1/openapi.json", "", true},
		{"GET", "/api/v1/schema/workflow.json", "", true},
		{"POST", "/api/v1/validate", wide, true},
		{"GET", "/version", "", false},
		{"GET", "/livez", "", false},
		{"GET", "/api/docs", "", false},
		{"GET", "/api/v1/runs/" + run.ID + "/tasks/a/logs", "", false},
		{"POST", "/api/v1/tokens", `{"kind":"api","name":"` + large[:60] + `"}`, false},
		{"POST", "/api/v1/runs", `{"workflow":"w","params":{"day":"` + large + `"}}`, false},
		{"HEAD", "/api/v1/openapi.json", "", false},
		{"DELETE", "/api/v1/workflows/default/none", "", false},
	} {
		plain := b.fetched(c.method, c.path, c.body)
		if plain.header.Get("Content-Encoding") != "" {
			t.Errorf("%s %s: compressed unasked", c.method, c.path)
		}
		a := b.fetched(c.method, c.path, c.body, "Accept-Encoding", "br, gzip")
		if is := a.header.Get("Content-Encoding") == "gzip"; is != c.zipped {
			t.Errorf("%s %s: compressed: %v, want %v", c.method, c.path, is, c.zipped)
			continue
		}
		if !c.zipped {
			continue
		}
		if got := unzipped(t, a); got != plain.body || len(a.body) >= len(plain.body) {
			t.Errorf("%s %s: %d bytes of %d: %.100s", c.method, c.path, len(a.body), len(plain.body), got)
		}
		if !strings.Contains(strings.Join(plain.header.Values("Vary"), ","), "Accept-Encoding") {
			t.Errorf("%s %s: Vary %q", c.method, c.path, plain.header.Values("Vary"))
		}
		if no := b.fetched(c.method, c.path, c.body, "Accept-Encoding", "gzip;q=0"); no.header.Get("Content-Encoding") != "" {
			t.Errorf("%s %s: compressed against the word of its client", c.method, c.path)
		}
	}
	var all sync.WaitGroup
	// More than can be compressed at the same time; each answer is complete, compressed or not.
	for range 4 * runtime.GOMAXPROCS(0) {
		all.Go(func() {
			a := b.fetched("GET", "/api/v1/openapi.json", "", "Accept-Encoding", "gzip")
			if a.header.Get("Content-Encoding") == "gzip" {
				a.body = unzipped(t, a)
			}
			if !strings.HasSuffix(strings.TrimSpace(a.body), "}") {
				t.Errorf("an answer of %d bytes is cut off", len(a.body))
			}
		})
	}
	all.Wait()
}

// TestUnchangedAnswers: content that the client already has, and that has not changed, is not sent again. A
// change gets another ETag.
func TestUnchangedAnswers(t *testing.T) {
	b := newBed(t, true)
	b.apply("w")
	const w = "/api/v1/workflows/default/w"
	tags := map[string]string{}
	for path, cache := range map[string]string{
		w + "/versions/1": "no-cache", w + "/versions/1?include=files": "no-cache", w + "/graph": "no-cache", w + "/graph?version=1": "private, max-age=60",
		w + "/layout": "no-cache", "/api/v1/schema/workflow.json": "no-cache", "/api/v1/openapi.json": "no-cache", w: "no-cache",
	} {
		a := b.get(path)
		if tags[path] = a.header.Get("ETag"); a.status != 200 || tags[path] == "" || a.header.Get("Cache-Control") != cache {
			t.Errorf("%s: %d, ETag %s, Cache-Control %q", path, a.status, tags[path], a.header.Get("Cache-Control"))
		}
		for _, has := range []string{tags[path], "W/" + tags[path], `"x", ` + tags[path]} {
			if again := b.get(path, "If-None-Match", has); again.status != 304 || again.body != "" || again.header.Get("ETag") != tags[path] {
				t.Errorf("%s with %s: %d, ETag %s", path, has, again.status, again.header.Get("ETag"))
			}
		}
		if other := b.get(path, "If-None-Match", strings.Trim(tags[path], `"`)+`, "x"`); other.status != 200 {
			t.Errorf("%s with another tag: %d", path, other.status)
		}
	}
	b.put("w", "name: w\ntasks:\n  a: {run: \"true\"}\n")
	for path, changes := range map[string]bool{w: true, w + "/graph": true, w + "/layout": true, w + "/graph?version=1": false, w + "/versions/1": true} {
		if got := b.get(path, "If-None-Match", tags[path]).status; got == 304 == changes { // version 1 is no longer the current one
			t.Errorf("%s after a change: %d", path, got)
		}
	}
	// The name is given to another workflow, so version 1 has another content.
	if a := b.do("DELETE", w, ""); a.status >= 300 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	b.put("w", "name: w\ntasks:\n  z: {run: \"true\"}\n")
	if again := b.get(w, "If-None-Match", tags[w]); again.status != 200 {
		t.Errorf("the workflow that has the name now: %d", again.status)
	}
	wantProblem(t, b.do("DELETE", w, "", "If-Match", tags[w]), 412, api.ProblemPrecondition)
	if g := want[api.Graph](t, b.get(w+"/graph?version=1", "If-None-Match", tags[w+"/graph?version=1"]), 200); g.Nodes[0].Name != "z" {
		t.Errorf("%+v", g)
	}
}
