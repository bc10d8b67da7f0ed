package engine_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/postgres"
	"skein.dev/skein/internal/store/postgres/pgtest"
)

// failing is an executor that fails one attempt in a given number.
type failing struct {
	e       *engine.Engine
	c       chan []engine.Assignment
	n, each int
}

func (x *failing) Start(as []engine.Assignment) { x.c <- append([]engine.Assignment(nil), as...) }

func (x *failing) Cancel([]dag.Cancel)                           {}
func (x *failing) Running(dag.RunID, dag.TaskID, dag.Token) bool { return true }
func (x *failing) Live(dag.RunID, dag.TaskID, dag.Token) bool    { return true }

func (x *failing) loop() {
	for as := range x.c {
		for i := range as {
			res := dag.Result{State: dag.AttemptSucceeded, Exited: true, Started: 1, Finished: 2}
			if x.n++; x.n%x.each == 0 {
				res = dag.Result{State: dag.AttemptFailed, Cause: dag.CauseExit, ExitCode: 1, Exited: true, Started: 1, Finished: 2}
			}
			x.e.Report(engine.Report{Run: as[i].Run, Task: as[i].Task, Token: as[i].Token, Result: res})
		}
	}
}

// BenchmarkRunLists lists runs of four workflows. SKEIN_RUNS sets the number of all runs; the default is
// 20,000. One in 2,451 of them has failed, which is a little more than four pages of 1,000,000 runs. The
// benchmark measures one page of 100 runs from the engine.
func BenchmarkRunLists(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) { benchmarkRunLists(b, openSQLite(b)) })
	b.Run("postgres", func(b *testing.B) {
		if os.Getenv("SKEIN_RUNS") == "" {
			b.Skip("SKEIN_RUNS says how many runs; a server for PostgreSQL is started only then")
		}
		server, err := pgtest.Start(pgtest.Options{})
		if err != nil {
			b.Fatal(err)
		}
		defer server.Close()
		db, err := postgres.Open(b.Context(), postgres.Options{URL: server.URL("postgres"), Shards: 1})
		if err != nil {
			b.Fatal(err)
		}
		defer db.Close()
		benchmarkRunLists(b, oneNode{db, db})
	})
}

func benchmarkRunLists(b *testing.B, st store.Store) {
	x := &failing{c: make(chan []engine.Assignment, 1000), each: 2451}
	s := serve(b, st, x, 1<<16)
	x.e = s.Engine
	go x.loop()
	defer close(x.c)
	defer s.stop()
	var flows []store.Workflow
	for i := range 4 {
		w, _, err := s.Apply(b.Context(), engine.Definition{Namespace: "bench", Name: fmt.Sprint("w", i), Def: []byte("{}"), Graph: graph(b, "a").Pack(), Digest: []byte("x"), User: "ada"})
		if err != nil {
			b.Fatal(err)
		}
		flows = append(flows, w)
	}
	began, runs := time.Now(), number("SKEIN_RUNS", 20_000)
	for at := 0; at < runs; at += 1000 {
		s.submit(flows[at/1000%4], min(1000, runs-at), 0)
	}
	for {
		left, err := st.Unfinished(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		if len(left) == 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	b.Logf("%d runs in %v", runs, time.Since(began).Round(time.Millisecond))
	for name, q := range map[string]store.RunQuery{
		"newest":            {},
		"failed":            {States: []string{"failed"}},
		"failed-count":      {States: []string{"failed"}, Count: true},
		"failed-of-one":     {States: []string{"failed"}, Workflow: flows[1].ID},
		"failed-or-stopped": {States: []string{"failed", "stopped", "skipped"}},
		"succeeded-of-one":  {States: []string{"succeeded"}, Workflow: flows[1].ID},
		"no-such-text":      {Text: "nothing has this"},
	} {
		b.Run(name, func(b *testing.B) {
			q.Limit = 100
			var n int
			for b.Loop() {
				page, err := s.Runs(b.Context(), q)
				if err != nil {
					b.Fatal(err)
				}
				n = len(page.Runs)
			}
			b.ReportMetric(float64(n), "runs/page")
		})
	}
}
