package dag

import (
	"bytes"
	"fmt"
	"testing"
)

// TestOutputsOfARun: the total size of the outputs that the conditions of a run read is bounded. A task whose
// outputs would exceed the bound fails. A task that runs again frees its part, and a reload computes the same
// size.
func TestOutputsOfARun(t *testing.T) {
	const size = 64 << 10
	const fit = OutputsMax / size
	var spec GraphSpec
	for i := range fit + 2 {
		a := fmt.Sprint("a", i)
		spec.Tasks = append(spec.Tasks, TaskSpec{Name: a}, TaskSpec{Name: fmt.Sprint("b", i), Needs: []string{a}, If: cond("out(" + a + ")=x")})
	}
	g, err := NewGraph(spec)
	must(err)
	w := newWorld(g)
	ok := func(ev Event) {
		t.Helper()
		if v, err := w.step(ev); v != Accepted || err != nil {
			t.Fatalf("%+v: %s %v", ev, v, err)
		}
	}
	out := append(append([]byte(`{"out":"`), bytes.Repeat([]byte("y"), size-10)...), `"}`...)
	end := func(i int, want TaskState) {
		t.Helper()
		task, _ := g.Find(fmt.Sprint("a", i))
		_, token := w.run.Task(task)
		ok(Event{Kind: EvAssign, Task: task, Handler: 1})
		ok(Event{Kind: EvReport, Task: task, Token: token + 1, Handler: 1, Result: Result{State: AttemptSucceeded, Outputs: out}})
		if is, _ := w.run.Task(task); is != want {
			t.Fatalf("a%d is %s, want %s", i, is, want)
		}
	}
	ok(Event{Kind: EvSubmit, Graph: g})
	for i := range fit {
		end(i, Succeeded)
	}
	end(fit, Failed)
	must(w.flush())
	must(w.crash())
	end(fit+1, Failed)
	if w.run.State != RunFailed {
		t.Fatalf("the run is %s", w.run.State)
	}
	first, _ := g.Find("a0")
	ok(Event{Kind: EvRecover, Task: first, Scope: ScopeOnly})
	end(0, Succeeded)
}
