package engine_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
)

// echo reports every attempt at once, from one goroutine, in batches as they come.
type echo struct {
	e *engine.Engine
	c chan []engine.Assignment
}

func (x *echo) Start(as []engine.Assignment) { x.c <- append([]engine.Assignment(nil), as...) }

func (x *echo) loop() {
	for as := range x.c {
		for i := range as {
			x.e.Report(engine.Report{Run: as[i].Run, Task: as[i].Task, Token: as[i].Token,
				Result: dag.Result{State: dag.AttemptSucceeded, Exited: true, Started: 1, Finished: 2}})
		}
	}
}

func (x *echo) Cancel([]dag.Cancel)                           {}
func (x *echo) Running(dag.RunID, dag.TaskID, dag.Token) bool { return true }
func (x *echo) Live(dag.RunID, dag.TaskID, dag.Token) bool    { return true }

// BenchmarkShapes runs whole workloads on SQLite with an executor that does nothing. The
// full table, with the raw limits next to it, is `skein bench`.
func BenchmarkShapes(b *testing.B) {
	fan := dag.GraphSpec{Tasks: []dag.TaskSpec{{Name: "s"}, {Name: "e"}}}
	for i := range 100 {
		name := fmt.Sprint("f", i)
		fan.Tasks = append(fan.Tasks, dag.TaskSpec{Name: name, Needs: []string{"s"}})
		fan.Tasks[1].Needs = append(fan.Tasks[1].Needs, name)
	}
	for _, s := range []struct {
		name string
		g    *dag.Graph
		runs int
	}{
		{"single", graph(b, "a"), 20_000},
		{"dag9", graph(b, "1; 2; 3; 4: 1 2; 5: 2; 6: 2; 7: 1 4 2; 8: 5 6; 9: 4 6"), 3000},
		{"fan", build(b, fan), 300},
		{"wide", wide(b, 10_000), 3},
	} {
		b.Run(s.name, func(b *testing.B) {
			x := &echo{c: make(chan []engine.Assignment, 1000)}
			e, err := engine.New(b.Context(), engine.Config{Store: openSQLite(b), Executor: x, Compile: compile, Slots: 1 << 20})
			if err != nil {
				b.Fatal(err)
			}
			x.e = e
			ctx, stop := context.WithCancel(b.Context())
			ended, looped := make(chan error, 1), make(chan struct{})
			go func() { x.loop(); close(looped) }()
			go func() { ended <- e.Run(ctx) }()
			<-e.Ready()
			w, _, err := e.Apply(ctx, engine.Definition{Namespace: "bench", Name: "w", Graph: s.g.Pack(), Digest: []byte("x")})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				for left := s.runs; left > 0; left -= 1000 {
					subs := make([]engine.Submission, min(left, 1000))
					for i := range subs {
						subs[i] = submission(w)
					}
					if _, err := e.SubmitAll(ctx, subs); err != nil {
						b.Fatal(err)
					}
				}
				eventually(b, "all of it has ended", e.Idle)
			}
			b.ReportMetric(float64(s.runs*s.g.Len()*b.N)/b.Elapsed().Seconds(), "tasks/s")
			stop()
			if err := <-ended; err != nil {
				b.Error(err)
			}
			close(x.c)
			<-looped
		})
	}
}

// BenchmarkReload takes over 100,000 active runs.
func BenchmarkReload(b *testing.B) {
	st := openSQLite(b)
	h := newHands(b)
	h.held = true
	n := start(b, st, h)
	w := n.apply("w", graph(b, "a; b: a"))
	for range 100 {
		subs := make([]engine.Submission, 1000)
		for i := range subs {
			subs[i] = submission(w)
		}
		if _, err := n.SubmitAll(b.Context(), subs); err != nil {
			b.Fatal(err)
		}
	}
	n.close()
	for b.Loop() {
		h := newHands(b)
		h.held = true
		start(b, st, h).close()
	}
}

// anHour is a store whose clock is an hour ahead of the written times, as if nothing had changed for that
// time.
type anHour struct{ store.Store }

func (s anHour) Clock(ctx context.Context) (dag.Micros, error) {
	at, err := s.Store.Clock(ctx)
	return at + dag.Micros(time.Hour.Microseconds()), err
}

// BenchmarkSweep sweeps 100,000 active runs that have not changed for an hour. They run, or wait for the
// only slot, or each waits for a person. pause-ms is the longest delay of a caller of the writer.
func BenchmarkSweep(b *testing.B) {
	const runs = 100_000
	for _, c := range []struct {
		name  string
		slots int
		graph *dag.Graph
	}{
		{"running", runs, graph(b, "a; b: a")},
		{"queued", 1, graph(b, "a; b: a")},
		{"suspended", 1, graph(b, "a; b: a", logical(map[string]*dag.Logic{"a": {Kind: dag.Approval}}))},
	} {
		b.Run(c.name, func(b *testing.B) {
			h := newHands(b)
			h.held = true
			n := start(b, anHour{openSQLite(b)}, h, func(cfg *engine.Config) { cfg.Slots, cfg.Unclaimed = c.slots, 2*time.Hour })
			w := n.apply("w", c.graph)
			for range runs / 1000 {
				subs := make([]engine.Submission, 1000)
				for i := range subs {
					subs[i] = submission(w)
				}
				if _, err := n.SubmitAll(b.Context(), subs); err != nil {
					b.Fatal(err)
				}
			}
			ctx, stop := context.WithCancel(b.Context())
			var longest time.Duration
			var wg sync.WaitGroup
			wg.Go(func() {
				for ctx.Err() == nil {
					began := time.Now()
					if n.Barrier(ctx) == nil {
						longest = max(longest, time.Since(began))
					}
					time.Sleep(time.Millisecond)
				}
			})
			for b.Loop() {
				if got, err := n.Sweep(ctx); err != nil || got.Runs != runs || got.Repaired != 0 {
					b.Fatal(got, err)
				}
			}
			stop()
			wg.Wait()
			b.ReportMetric(float64(longest.Microseconds())/1000, "pause-ms")
		})
	}
}
