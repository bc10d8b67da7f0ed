//go:build linux

package server_test

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/server"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/memory"
	"skein.dev/skein/internal/store/postgres"
	"skein.dev/skein/internal/store/postgres/pgtest"
	"skein.dev/skein/internal/store/sqlite"
	"skein.dev/skein/internal/trigger"
	"skein.dev/skein/internal/workflow"
)

// BenchmarkListRuns answers GET /api/v1/runs?limit=50 on a node with 200 ended runs, without the network. It
// reports the processor time of a page in this process and in PostgreSQL. Other load on the machine hardly
// changes them. PostgreSQL counts in steps of 10 ms, so its figure needs many operations.
func BenchmarkListRuns(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) {
		st := must(sqlite.Open(filepath.Join(b.TempDir(), "skein.db")))
		defer st.Close()
		benchmarkListRuns(b, st, st, nil)
	})
	b.Run("postgres", func(b *testing.B) {
		server, err := pgtest.Start(pgtest.Options{NoSync: true})
		if err != nil {
			b.Skip(err)
		}
		defer server.Close()
		st := must(postgres.Open(b.Context(), postgres.Options{URL: server.URL("postgres"), Shards: 1}))
		defer st.Close()
		benchmarkListRuns(b, oneNode{st, st}, st, server)
	})
}

// oneNode is a store of PostgreSQL for one node.
type oneNode struct {
	store.Store
	store.Stager
}

func benchmarkListRuns(b *testing.B, st store.Store, classes store.Classes, database *pgtest.Server) {
	exec, tokens := newExecutor(true), memory.New(memory.Options{})
	e := must(engine.New(b.Context(), engine.Config{Store: st, Executor: exec, Slots: 4, Node: "node-1",
		Compile: new(workflow.Compiler).Condition, Planner: trigger.New(st)}))
	exec.e = e
	srv := must(server.New(server.Config{Engine: e, Logs: &logs{}, Tokens: tokens, Access: tokens, Classes: classes, Listen: "skein.example:8080"}))
	ended := make(chan error, 1)
	go func() { ended <- e.Run(b.Context()) }()
	<-e.Ready()
	h := auth.AsLocal(srv.Handler()) // the caller has all rights
	ask := func(method, path, body string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, request(b, method, path, body))
		if w.Code >= 300 {
			b.Fatal(w.Code, w.Body)
		}
		return w
	}
	applyBuiltIn(b, e, `{run: "true"}`) // a real node has this built-in workflow
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
			inDatabase := func() time.Duration {
				if database == nil {
					return 0
				}
				return database.CPU()
			}
			began := inDatabase()
			_ = unix.Getrusage(unix.RUSAGE_SELF, &before)
			b.ReportAllocs()
			for b.Loop() {
				w := discard{http.Header{}}
				h.ServeHTTP(w, req)
			}
			_ = unix.Getrusage(unix.RUSAGE_SELF, &after)
			cpu := func(r *unix.Rusage) int64 { return r.Utime.Nano() + r.Stime.Nano() }
			b.ReportMetric(float64(cpu(&after)-cpu(&before))/float64(b.N), "cpu-ns/op")
			if database != nil {
				b.ReportMetric(float64((inDatabase()-began).Nanoseconds())/float64(b.N), "postgres-ns/op")
			}
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
