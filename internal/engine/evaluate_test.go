package engine_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
)

// costly is a condition that costs more than a step may take. Its evaluation ends only when the test allows
// it.
type costly struct {
	cond
	gate  chan struct{}
	begun *atomic.Int64
	on    *atomic.Int64 // the number of evaluations on the writer's goroutine
}

func (c costly) Holds(v dag.View) (bool, error) {
	if v.Light {
		c.on.Add(1)
		return false, dag.ErrCostly
	}
	c.begun.Add(1)
	<-c.gate
	return true, nil
}

// costlyNode returns an engine whose condition "costly" is evaluated until the test closes a gate.
func costlyNode(t *testing.T) (n *node, c costly) {
	t.Helper()
	c = costly{cond: "costly", gate: make(chan struct{}), begun: new(atomic.Int64), on: new(atomic.Int64)}
	h := newHands(t)
	n = start(t, openSQLite(t), h, func(cfg *engine.Config) {
		cfg.Compile = func(text string) (dag.Condition, error) {
			if text == "costly" {
				return c, nil
			}
			return compile(text)
		}
	})
	return n, c
}

// fanned returns a graph of n tasks with the condition, which all need a first task.
func fanned(t *testing.T, n int, c dag.Condition) *dag.Graph {
	t.Helper()
	spec := dag.GraphSpec{Tasks: []dag.TaskSpec{{Name: "first"}}}
	for i := range n {
		spec.Tasks = append(spec.Tasks, dag.TaskSpec{Name: fmt.Sprintf("t%d", i), Needs: []string{"first"}, If: c})
	}
	return build(t, spec)
}

// TestCostlyConditionsHoldUpNobody: while two hundred conditions of a run are evaluated, other runs start and
// end. The writer tries each condition at most once.
func TestCostlyConditionsHoldUpNobody(t *testing.T) {
	const tasks, others = 200, 50
	n, c := costlyNode(t)
	open := func() { close(c.gate) }
	defer func() {
		if open != nil {
			open()
		}
	}()
	slow, quick := n.apply("slow", fanned(t, tasks, c)), n.apply("quick", graph(t, "a"))
	id := n.submit(slow)
	eventually(t, "the conditions are being evaluated", func() bool { return c.begun.Load() > 0 })
	for range others {
		ctx, stop := context.WithTimeout(t.Context(), patience)
		a, err := n.Submit(ctx, submission(quick))
		if stop(); err != nil {
			t.Fatalf("a start while conditions are evaluated: %v", err)
		}
		n.ends(a.Run, dag.RunSucceeded)
	}
	if asked, begun := c.on.Load(), c.begun.Load(); asked > tasks || begun >= tasks {
		t.Errorf("the writer asked %d times for %d conditions, %d of them were evaluated", asked, tasks, begun)
	}
	if s := n.state(id); s.Terminal() {
		t.Fatalf("the run is %s before its conditions are known", s)
	}
	if x, err := n.Explain(t.Context(), id, "t5"); err != nil || len(x.Reasons) != 1 || x.Reasons[0].Code != "evaluating" {
		t.Errorf("task t5 is explained by %+v, %v", x.Reasons, err)
	}
	open()
	open = nil
	n.ends(id, dag.RunSucceeded)
	n.quiet()
	if got := n.Stats().Evaluated.Load(); got != tasks {
		t.Errorf("%d conditions were evaluated beside the writer, want %d", got, tasks)
	}
}

// TestEvaluationsStopAtTheirTime: a transaction that has evaluated for long enough leaves the rest to other
// goroutines, whatever each condition costs. The run ends as it does when the writer evaluates them all.
func TestEvaluationsStopAtTheirTime(t *testing.T) {
	const tasks = 300
	for name, most := range map[string]time.Duration{"none on the writer": -1, "one of each transaction": 1, "all on the writer": time.Hour} {
		t.Run(name, func(t *testing.T) {
			n := start(t, openMemory(t), newHands(t), func(cfg *engine.Config) { cfg.EvaluateMax = most })
			spec := dag.GraphSpec{Tasks: []dag.TaskSpec{{Name: "first"}}}
			for i := range tasks {
				spec.Tasks = append(spec.Tasks, dag.TaskSpec{Name: fmt.Sprintf("t%d", i), Needs: []string{"first"}, If: []dag.Condition{cond("always"), cond("never"), cond("failure")}[i%3]})
			}
			id := n.submit(n.apply("w", build(t, spec)))
			n.ends(id, dag.RunSucceeded)
			n.quiet()
			row, err := n.store.Run(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			counts, err := dag.CountStates(row.Final)
			if err != nil {
				t.Fatal(err)
			}
			if counts[dag.Succeeded] != 1+tasks/3 || counts[dag.Skipped] != 2*tasks/3 {
				t.Errorf("it ended with %v", counts)
			}
			want := map[time.Duration]func(int64) bool{
				-1:        func(got int64) bool { return got == tasks },
				1:         func(got int64) bool { return got > 0 && got < tasks },
				time.Hour: func(got int64) bool { return got == 0 },
			}[most]
			if got := n.Stats().Evaluated.Load(); !want(got) {
				t.Errorf("%d of %d conditions were evaluated beside the writer", got, tasks)
			}
		})
	}
}
