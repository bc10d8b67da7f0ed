package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
)

// This file measures limits, for docs/performance.md. SKEIN_LINE sets the length of a line; the default is
// 100,000 runs. SKEIN_KEYS sets the number of their keys; the default is 1,000. 1,000 runs have passed the
// limit, whatever the number of keys.

func number(name string, otherwise int) int {
	n, err := strconv.Atoi(os.Getenv(name))
	if err != nil {
		return otherwise
	}
	return n
}

// kept is an executor that keeps its attempts until the test ends them.
type kept struct{ c chan engine.Assignment }

func (k kept) Start(as []engine.Assignment) {
	for i := range as {
		k.c <- as[i]
	}
}

func (k kept) Cancel([]dag.Cancel)                           {}
func (k kept) Running(dag.RunID, dag.TaskID, dag.Token) bool { return true }
func (k kept) Live(dag.RunID, dag.TaskID, dag.Token) bool    { return true }

// serving is an engine with its executor.
type serving struct {
	*engine.Engine
	b    *testing.B
	stop func()
}

func serve(b *testing.B, st store.Store, x engine.Executor, slots int) *serving {
	b.Helper()
	cfg := engine.Config{Store: st, Executor: x, Compile: compile, Slots: slots}
	naming(&cfg)
	e, err := engine.New(b.Context(), cfg)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	if x, ok := x.(*echo); ok {
		x.e = e
		go x.loop()
	}
	go func() { ended <- e.Run(ctx) }()
	<-e.Ready()
	return &serving{e, b, func() {
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
		if x, ok := x.(*echo); ok {
			close(x.c)
		}
	}}
}

func (s *serving) flow(g *dag.Graph, what names) store.Workflow {
	s.b.Helper()
	def, err := json.Marshal(what)
	if err != nil {
		s.b.Fatal(err)
	}
	w, _, err := s.Apply(s.b.Context(), engine.Definition{Namespace: "bench", Name: "w", Def: def, Graph: g.Pack(), Digest: def, User: "ada"})
	if err != nil {
		s.b.Fatal(err)
	}
	return w
}

func (s *serving) limit(q store.Queue) {
	s.b.Helper()
	q.Name = "q"
	if q.Order == "" {
		q.Order = store.QueueFIFO
	}
	q.Overflow = store.OverflowWait
	if _, err := s.SetQueue(s.b.Context(), q, 0); err != nil {
		s.b.Fatal(err)
	}
}

// submit starts n runs. Their parameter k takes that number of different values.
func (s *serving) submit(w store.Workflow, n, keys int) {
	s.b.Helper()
	for at := 0; at < n; at += 1000 {
		subs := make([]engine.Submission, min(n-at, 1000))
		for i := range subs {
			subs[i] = submission(w)
			subs[i].Priority = dag.Priority((at + i) % dag.Levels)
			if keys > 0 {
				subs[i].Params = fmt.Appendf(nil, `{"k":"key%d"}`, (at+i)%keys)
			}
		}
		if _, err := s.SubmitAll(s.b.Context(), subs); err != nil {
			s.b.Fatal(err)
		}
	}
}

// BenchmarkLimits runs workloads without a queue, and with three queues: one whose limit is never reached,
// one in which most runs wait, and one in which most runs wait by priority.
func BenchmarkLimits(b *testing.B) {
	for shape, g := range map[string]*dag.Graph{"single": graph(b, "a"), "dag9": graph(b, "1; 2; 3; 4: 1 2; 5: 2; 6: 2; 7: 1 4 2; 8: 5 6; 9: 4 6")} {
		for _, kind := range []string{"plain", "wide", "queue", "priority"} {
			b.Run(shape+"/"+kind, func(b *testing.B) {
				s := serve(b, openSQLite(b), &echo{c: make(chan []engine.Assignment, 1000)}, 1<<20)
				defer s.stop()
				what := names{}
				if kind != "plain" {
					what.Queue = "q"
					s.limit(store.Queue{Limit: map[string]int32{"wide": 500_000}[kind] + 1000, Order: map[string]string{"priority": store.QueuePriority}[kind]})
				}
				w := s.flow(g, what)
				runs := 10_000 / max(1, g.Len()/4)
				cpu, rows, commits := processor(b), s.Stats().Rows.Load(), s.Stats().Commits.Load()
				for b.Loop() {
					s.submit(w, runs, 0)
					eventually(b, "all of it has ended", s.Idle)
				}
				b.ReportMetric(float64(runs*g.Len()*b.N)/b.Elapsed().Seconds(), "tasks/s")
				b.ReportMetric(float64((processor(b)-cpu).Nanoseconds())/1e3/float64(runs*g.Len()*b.N), "cpu-µs/task")
				b.ReportMetric(float64(s.Stats().Rows.Load()-rows)/float64(runs*g.Len()*b.N), "rows/task")
				b.ReportMetric(float64(s.Stats().Rows.Load()-rows)/float64(s.Stats().Commits.Load()-commits), "rows/commit")
			})
		}
	}
}

// processor returns the processor time that this process has used. It is a useful measure even if other
// processes use the machine.
func processor(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkLine queues runs with 1,000 keys; one run of each key may be active at a time. It measures the
// time from the end of a run to the start of the next one, the time of an explain of a queued run, and a
// restart up to the first start.
func BenchmarkLine(b *testing.B) {
	line, keys := number("SKEIN_LINE", 100_000), number("SKEIN_KEYS", 1000)
	st := openSQLite(b)
	x := kept{make(chan engine.Assignment, 2000)}
	s := serve(b, st, x, 2000)
	s.limit(store.Queue{Limit: int32(1000 / keys), PerKey: "params.k"})
	w := s.flow(graph(b, "a"), names{Queue: "q"})
	s.submit(w, line, keys)
	var waits, explains []time.Duration
	var held []engine.Assignment
	for range 1000 / keys * keys { // the first of each key
		held = append(held, <-x.c)
	}
	for _, a := range held {
		began := time.Now()
		s.Report(engine.Report{Run: a.Run, Task: a.Task, Token: a.Token, Result: success()})
		<-x.c
		waits = append(waits, time.Since(began))
	}
	page, err := st.Runs(b.Context(), store.RunQuery{States: []string{dag.RunWaiting.String()}, Limit: 100})
	if err != nil || len(page.Runs) == 0 {
		b.Fatalf("%d runs wait, %v", len(page.Runs), err)
	}
	for i := range page.Runs {
		began := time.Now()
		if _, err := s.Explain(b.Context(), page.Runs[i].ID, ""); err != nil {
			b.Fatal(err)
		}
		explains = append(explains, time.Since(began))
	}
	s.stop()
	began := time.Now()
	s = serve(b, st, kept{make(chan engine.Assignment, 2000)}, 2000)
	ready := time.Since(began)
	runtime.GC()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	s.stop()
	for name, all := range map[string][]time.Duration{"next": waits, "explain": explains} {
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)/2].Microseconds()), name+"-p50-µs")
		b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), name+"-p99-µs")
	}
	b.ReportMetric(float64(ready.Milliseconds()), "restart-ms")
	b.ReportMetric(float64(mem.HeapInuse>>20), "heap-MB")
	b.ReportMetric(0, "ns/op")
}
