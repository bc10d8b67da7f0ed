package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/sqlite"
)

type noop struct {
	e *engine.Engine
	c chan []engine.Assignment
}

func (n *noop) Start(as []engine.Assignment) { n.c <- append([]engine.Assignment(nil), as...) }
func (n *noop) loop() {
	for as := range n.c {
		for _, a := range as {
			n.e.Report(engine.Report{Run: a.Run, Task: a.Task, Token: a.Token, Result: dag.Result{State: dag.AttemptSucceeded, Exited: true, Started: 1, Finished: 2}})
		}
	}
}
func (n *noop) Cancel([]dag.Cancel)                           {}
func (n *noop) Running(dag.RunID, dag.TaskID, dag.Token) bool { return false }

func TestQuickBench(t *testing.T) {
	dir := t.TempDir()
	st, err := sqlite.Open(dir + "/x.db")
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	x := &noop{c: make(chan []engine.Assignment, 10000)}
	e, err := engine.New(context.Background(), engine.Config{Store: st, Executor: x, Slots: 1 << 20, Compile: func(string) (dag.Condition, error) { return nil, errors.New("none") }})
	if err != nil {
		t.Fatal(err)
	}
	x.e = e
	go x.loop()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go e.Run(ctx)
	<-e.Ready()
	shape := func(name string, specs []dag.TaskSpec, runs int) {
		g, err := dag.NewGraph(dag.GraphSpec{Tasks: specs})
		if err != nil {
			t.Fatal(err)
		}
		var wfs []store.Workflow
		for i := range 4 {
			w, _, err := e.Apply(ctx, engine.Definition{Namespace: "bench", Name: fmt.Sprintf("%s-%d", name, i), Graph: g.Pack(), Digest: []byte("x")})
			if err != nil {
				t.Fatal(err)
			}
			wfs = append(wfs, w)
		}
		before := e.Stats().RunsEnded.Load()
		began := time.Now()
		r0, c0 := e.Stats().Rows.Load(), e.Stats().Commits.Load()
		for i := 0; i < runs; i += 1000 {
			var subs []engine.Submission
			for j := i; j < min(runs, i+1000); j++ {
				subs = append(subs, engine.Submission{Workflow: wfs[j%4], Origin: dag.OriginAPI, User: "root", Priority: dag.Medium})
			}
			if _, err := e.SubmitAll(ctx, subs); err != nil {
				t.Fatal(err)
			}
		}
		for e.Stats().RunsEnded.Load() < before+int64(runs) {
			time.Sleep(time.Millisecond)
		}
		d := time.Since(began)
		n := runs * len(specs)
		fmt.Printf("%-10s %8d tasks %8.0f tasks/s  %.2f rows/task %d commits\n", name, n, float64(n)/d.Seconds(), float64(e.Stats().Rows.Load()-r0)/float64(n), e.Stats().Commits.Load()-c0)
	}
	shape("single", []dag.TaskSpec{{Name: "a"}}, 20000)
	shape("single2", []dag.TaskSpec{{Name: "a"}}, 60000)
	dag9 := []dag.TaskSpec{{Name: "1"}, {Name: "2"}, {Name: "3"}, {Name: "4", Needs: []string{"1", "2"}}, {Name: "5", Needs: []string{"2"}}, {Name: "6", Needs: []string{"2"}},
		{Name: "7", Needs: []string{"1", "4", "2"}}, {Name: "8", Needs: []string{"5", "6"}}, {Name: "9", Needs: []string{"4", "6"}}}
	shape("dag9", dag9, 2000)
	fan := []dag.TaskSpec{{Name: "s"}}
	var all []string
	for i := range 100 {
		n := fmt.Sprintf("f%d", i)
		fan = append(fan, dag.TaskSpec{Name: n, Needs: []string{"s"}})
		all = append(all, n)
	}
	fan = append(fan, dag.TaskSpec{Name: "e", Needs: all})
	shape("fan", fan, 200)
	var wide []dag.TaskSpec
	for i := range 10000 {
		wide = append(wide, dag.TaskSpec{Name: fmt.Sprintf("f%d", i)})
	}
	shape("wide", wide, 1)
	shape("wide2", wide, 10)
	var chain []dag.TaskSpec
	for i := range 1000 {
		s := dag.TaskSpec{Name: fmt.Sprintf("f%d", i)}
		if i > 0 {
			s.Needs = []string{fmt.Sprintf("f%d", i-1)}
		}
		chain = append(chain, s)
	}
	shape("chain", chain, 1)
}
