package server

import (
	"context"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store/memory"
)

// FuzzTableFitsMux: for every form of a path, the row that decides about a request belongs to the handler
// that answers it.
func FuzzTableFitsMux(f *testing.F) {
	s := routed(f)
	name := regexp.MustCompile(`\{[a-z]+(\.\.\.)?\}`)
	for _, r := range access.Table() {
		for _, value := range []string{"x", "a%2Fb", "a:b", "%3A", "..", "%2e%2e", ""} {
			f.Add(r.Method, name.ReplaceAllString(r.Path, value))
		}
		f.Add(r.Method, "/"+r.Path)
		f.Add(r.Method, r.Path+"/")
		f.Add(r.Method, strings.Replace(r.Path, "/v1/", "/v1%2F", 1))
	}
	f.Fuzz(func(t *testing.T, method, path string) {
		u, err := url.ParseRequestURI(path)
		if err != nil || !strings.HasPrefix(path, "/") {
			return
		}
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Method, r.URL = method, u
		row, ok := access.Match(r)
		_, pattern := s.mux.Handler(r)
		if pattern == "" {
			if ok && row.Of != access.OfWorker && row.Of != access.OfNode && row.Path != "/{path...}" && row.Path != assetsPath+"{file...}" {
				t.Fatalf("%s %q has the row %+v, and no handler", method, path, row)
			}
			return
		}
		if s.adapter.verbs[pattern] == nil { // a verb may be missing: the answer then says so
			if got := row.Method + " " + strings.TrimSuffix(row.Path, "/"); !ok || got != strings.TrimSuffix(pattern, "/{$}") {
				t.Fatalf("%s %q is answered by %s, and decided by %+v", method, path, pattern, row)
			}
			return
		}
		w := httptest.NewRecorder()
		for verb := range s.adapter.verbs[pattern] {
			s.adapter.verbs[pattern][verb] = func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Verb", verb) }
		}
		s.mux.ServeHTTP(w, r)
		if verb := w.Header().Get("Verb"); verb != "" && !(ok && strings.HasSuffix(row.Path, ":"+verb) &&
			strings.HasPrefix(row.Method+" "+row.Path, strings.TrimSuffix(pattern, "_verb}"))) {
			t.Fatalf("%s %q is answered by %s of %s, and decided by %+v", method, path, verb, pattern, row)
		}
	})
}

type noLogs struct{}

func (noLogs) Open(context.Context, LogRef) (LogReader, error) { return nil, fs.ErrNotExist }

// routed returns a server of which only the routes are used.
func routed(t testing.TB) *Server {
	st := memory.New(memory.Options{})
	s, err := New(Config{Engine: new(engine.Engine), Logs: noLogs{}, Tokens: st, Classes: st})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestRoutesHaveRows: a server does not start if a route has no row in the access table.
func TestRoutesHaveRows(t *testing.T) {
	s := routed(t)
	served := func(of access.Of) bool { return of != access.OfWorker && of != access.OfNode }
	if err := s.access.Err(served); err != nil {
		t.Error(err)
	}
	route(s, tag("runs").get("/secret-backdoor", "backdoor", "Open"), func(context.Context, *struct{}) (*jsonOut[string], error) { return nil, nil })
	if err := s.access.Err(served); err == nil || !strings.Contains(err.Error(), "/api/v1/secret-backdoor has no row") {
		t.Errorf("a route without a row: %v", err)
	}
	s = routed(t)
	outside(s, "/debug", func(http.ResponseWriter, *http.Request) {})
	if err := s.access.Err(served); err == nil {
		t.Error("a plain route without a row is taken")
	}
}
