package server

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"skein.dev/skein/internal/auth"
)

func builtPage(t *testing.T) *UI {
	t.Helper()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write([]byte("let x = 1")); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return &UI{BasePath: "/skein", Files: fstest.MapFS{
		"index.html":     {Data: []byte(`<meta name="skein-base" content="" /><script src="./-/a/main.js"></script>`)},
		"-/a/main.js.gz": {Data: packed.Bytes()},
	}}
}

func TestPage(t *testing.T) {
	p, err := newPage(builtPage(t))
	if err != nil {
		t.Fatal(err)
	}
	const browser = "text/html,application/xhtml+xml,*/*;q=0.8"
	for _, c := range []struct {
		method, path, accept string
		takes                bool
	}{
		{"GET", "/", browser, true}, {"GET", "/w/shop/nightly", browser, true}, {"HEAD", "/runs", browser, true},
		{"GET", "/-/a/main.js", "*/*", true}, {"GET", "/w/shop/nightly", "*/*", false}, {"GET", "/runs", "application/json", false},
		{"GET", "/api/docs", browser, false}, {"GET", "/api/v1/runs", browser, false}, {"GET", "/metrics", browser, false},
		{"GET", "/livez", browser, false}, {"GET", "/internal/v1/x", browser, false}, {"POST", "/runs", browser, false},
	} {
		r := httptest.NewRequest(c.method, c.path, nil)
		r.Header.Set("Accept", c.accept)
		if p.takes(r) != c.takes {
			t.Errorf("%s %s, Accept %s: takes is %v", c.method, c.path, c.accept, !c.takes)
		}
	}
	none, err := newPage(nil)
	if err != nil || none.takes(httptest.NewRequest("GET", "/-/a/main.js", nil)) {
		t.Errorf("without a page something is served: %v", err)
	}
}

func TestPageHeadersAndFiles(t *testing.T) {
	p, err := newPage(builtPage(t))
	if err != nil {
		t.Fatal(err)
	}
	ask := func(path, encoding string) *http.Response {
		r := httptest.NewRequest("GET", path, nil)
		r.Header.Set("Accept", "text/html")
		r.Header.Set("Accept-Encoding", encoding)
		w := httptest.NewRecorder()
		auth.SetHeaders(w.Header(), r) // every answer of the server gets these headers
		p.ServeHTTP(w, r)
		return w.Result()
	}
	for _, path := range []string{"/", "/-/a/main.js", "/-/a/none.js"} {
		h := ask(path, "gzip").Header
		for name, want := range map[string]string{"Content-Security-Policy": "trusted-types skein",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin"} {
			if !strings.Contains(h.Get(name), want) {
				t.Errorf("%s: %s is %q", path, name, h.Get(name))
			}
		}
	}
	index, err := io.ReadAll(ask("/runs", "").Body)
	if err != nil || !bytes.Contains(index, []byte(`src="/skein/-/a/main.js"`)) || !bytes.Contains(index, []byte(`content="/skein"`)) {
		t.Errorf("the base path is not in %s (%v)", index, err)
	}
	for encoding, want := range map[string]string{"gzip, br": "gzip", "br, gzip;q=0.5": "gzip", "": "", "gzip;q=0": "", "br": ""} {
		resp := ask("/-/a/main.js", encoding)
		if resp.StatusCode != 200 || resp.Header.Get("Content-Encoding") != want || !strings.Contains(resp.Header.Get("Cache-Control"), "immutable") {
			t.Errorf("Accept-Encoding %q: %d %v", encoding, resp.StatusCode, resp.Header)
		}
		if body, err := io.ReadAll(resp.Body); want == "" && string(body) != "let x = 1" {
			t.Errorf("Accept-Encoding %q: %q %v", encoding, body, err)
		}
	}
	if resp := ask("/-/a/none.js", "gzip"); resp.StatusCode != 404 || resp.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("a file that is not there: %d %v", resp.StatusCode, resp.Header)
	}
	for _, path := range []string{"/-/../index.html", "/-/a/../../index.html"} {
		if resp := ask(path, "gzip"); resp.StatusCode != 404 {
			t.Errorf("%s: %d", path, resp.StatusCode)
		}
	}
}

// A link from another site opens the page; every other request from another site is refused.
func TestForeignLinks(t *testing.T) {
	g := newGuard("127.0.0.1:8080")
	for _, c := range []struct {
		method, path, mode, dest string
		passes                   bool
	}{
		{"GET", "/r/1", "navigate", "document", true}, {"GET", "/r/1", "navigate", "iframe", false}, {"GET", "/r/1", "cors", "empty", false},
		{"POST", "/r/1", "navigate", "document", false}, {"GET", "/api/v1/runs", "navigate", "document", false},
	} {
		r := httptest.NewRequest(c.method, "http://127.0.0.1:8080"+c.path, nil)
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		r.Header.Set("Sec-Fetch-Mode", c.mode)
		r.Header.Set("Sec-Fetch-Dest", c.dest)
		if f := g.check(r); (f == nil) != c.passes {
			t.Errorf("%s %s (%s, %s) from another site: %v", c.method, c.path, c.mode, c.dest, f)
		}
	}
}

// The page knows whether another site opened it, and no cache keeps that answer.
func TestPageNamesTheSite(t *testing.T) {
	ui := builtPage(t)
	ui.Files = fstest.MapFS{"index.html": {Data: []byte(`<head><meta name="skein-site" content="" /></head>`)}}
	p, err := newPage(ui)
	if err != nil {
		t.Fatal(err)
	}
	for sent, want := range map[string]string{"": "", "none": "none", "same-origin": "same-origin", "same-site": "same-site",
		"cross-site": "cross-site", `"><script>`: "cross-site"} {
		r := httptest.NewRequest("GET", "/", nil)
		if sent != "" {
			r.Header.Set("Sec-Fetch-Site", sent)
		}
		w := httptest.NewRecorder()
		p.ServeHTTP(w, r)
		if want := `<head><meta name="skein-site" content="` + want + `" /></head>`; w.Body.String() != want {
			t.Errorf("Sec-Fetch-Site %q: %s, want %s", sent, w.Body, want)
		}
		if h := w.Result().Header; h.Get("Cache-Control") != "no-store" || h.Get("Content-Length") != strconv.Itoa(w.Body.Len()) {
			t.Errorf("Sec-Fetch-Site %q: the headers are %v", sent, h)
		}
	}
}

func TestUnderBase(t *testing.T) {
	h := UnderBase("/skein", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.URL.Path) }))
	for path, want := range map[string]string{"/skein/api/v1/runs": "/api/v1/runs", "/skein/": "/", "/api/v1/runs": "/api/v1/runs", "/skeins": "/skeins"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if w.Body.String() != want {
			t.Errorf("%s reaches %s, want %s", path, w.Body, want)
		}
	}
}
