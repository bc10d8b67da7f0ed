//go:build linux

package server_test

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/server"
	"skein.dev/skein/internal/store/memory"
	"skein.dev/skein/internal/store/sqlite"
	"skein.dev/skein/internal/trigger"
	"skein.dev/skein/internal/workflow"
)

// BenchmarkListRuns answers GET /api/v1/runs?limit=50 on a node with SQLite and 200 ended runs, without the
// network. It reports the processor time of a page, which other load on the machine hardly changes.
func BenchmarkListRuns(b *testing.B) {
	st := must(sqlite.Open(filepath.Join(b.TempDir(), "skein.db")))
	defer st.Close()
	exec, tokens := newExecutor(true), memory.New(memory.Options{})
	e := must(engine.New(b.Context(), engine.Config{Store: st, Executor: exec, Slots: 4, Node: "node-1",
		Compile: new(workflow.Compiler).Condition, Planner: trigger.New(st)}))
	exec.e = e
	srv := must(server.New(server.Config{Engine: e, Logs: &logs{}, Tokens: tokens, Access: tokens, Classes: st, Listen: "skein.example:8080"}))
	ended := make(chan error, 1)
	go func() { ended <- e.Run(b.Context()) }()
	<-e.Ready()
	h := srv.Handler()
	ask := func(method, path, body string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, request(b, method, path, body))
		if w.Code >= 300 {
			b.Fatal(w.Code, w.Body)
		}
		return w
	}
	ask("PUT", "/api/v1/workflows/default/w", "name: w\ntasks:\n  a: {run: \"true\"}\n")
	const runs = 200
	for i := range runs {
		ask("POST", "/api/v1/runs", `{"workflow":"w","idempotency_key":"k`+strconv.Itoa(i)+`"}`)
	}
	for _, c := range []struct{ name, query string }{{"all", ""}, {"ended", "&state=succeeded"}} {
		b.Run(c.name, func(b *testing.B) {
			ask("GET", "/api/v1/runs?limit=50"+c.query, "")
			req := request(b, "GET", "/api/v1/runs?limit=50"+c.query, "")
			var before, after unix.Rusage
			_ = unix.Getrusage(unix.RUSAGE_SELF, &before)
			b.ReportAllocs()
			for b.Loop() {
				w := discard{http.Header{}}
				h.ServeHTTP(w, req)
			}
			_ = unix.Getrusage(unix.RUSAGE_SELF, &after)
			cpu := func(r *unix.Rusage) int64 { return r.Utime.Nano() + r.Stime.Nano() }
			b.ReportMetric(float64(cpu(&after)-cpu(&before))/float64(b.N), "cpu-ns/op")
		})
	}
}

func request(b *testing.B, method, path, body string) *http.Request {
	r := must(http.NewRequestWithContext(b.Context(), method, "http://skein.example:8080"+path, strings.NewReader(body)))
	r.RemoteAddr = "127.0.0.1:40000"
	if r.Header.Set("Content-Type", "application/json"); method == "PUT" {
		r.Header.Set("Content-Type", "application/yaml")
	}
	return r
}

// discard is an answer without a reader.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}
