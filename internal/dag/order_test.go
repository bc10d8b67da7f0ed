package dag

import (
	"fmt"
	"strings"
	"testing"
)

// jobCenter returns the graph of the worked examples. f is the task to which the edge f leads: 7, 8 or 9.
func jobCenter(f string) GraphSpec {
	needs := map[string][]string{"4": {"1", "2"}, "5": {"2"}, "6": {"2"}, "7": {"1", "4"}, "8": {"5", "6"}, "9": {"4", "6"}}
	needs[f] = append(needs[f], "2")
	var spec GraphSpec
	for i := 1; i <= 9; i++ {
		name := fmt.Sprint(i)
		spec.Tasks = append(spec.Tasks, TaskSpec{Name: name, Needs: needs[name], Policy: Policy{Priority: Medium}})
	}
	return spec
}

// TestEveryOrder takes every order in which the tasks of the worked examples can end, with as many slots as
// there are tasks. Orders in which the same tasks have ended must lead to the same state, so the test
// continues from each such state only once.
func TestEveryOrder(t *testing.T) {
	for _, f := range []string{"7", "8", "9"} {
		for _, bad := range []string{"", "1", "2", "3", "4", "5", "6", "7", "8", "9", "4 6", "1 2", "8 9"} {
			t.Run("f to "+f+", failing "+bad, func(t *testing.T) { everyOrder(t, jobCenter(f), strings.Fields(bad)) })
		}
	}
}

func everyOrder(t *testing.T, spec GraphSpec, bad []string) {
	g, err := NewGraph(spec)
	must(err)
	fails := map[TaskID]bool{}
	for _, name := range bad {
		id, _ := g.Find(name)
		fails[id] = true
	}
	seen := map[string]string{}
	ends := map[string]bool{}
	todo := [][]TaskID{nil}
	for len(todo) > 0 {
		order := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		w := replay(t, g, order, fails)
		print := fingerprint(w.run)
		done := make([]byte, g.Len())
		for _, id := range order {
			done[id] = 1
		}
		if before, again := seen[string(done)]; again {
			if before != print {
				t.Fatalf("order %v leads to\n%s, another one to\n%s", order, print, before)
			}
			continue
		}
		seen[string(done)] = print
		if w.run.State.Terminal() {
			ends[print] = true
		}
		w.run.Held(func(a *AttemptRow) {
			todo = append(todo, append(append([]TaskID(nil), order...), a.Task))
		})
	}
	if len(ends) != 1 || len(seen) < 6 {
		t.Fatalf("%d states, %d ends: %v", len(seen), len(ends), ends)
	}
	for end := range ends {
		checkEnd(t, spec, bad, end)
	}
}

// checkEnd checks the rule of the document in another form: all tasks that can be reached from a failed task
// have failed, and all others have succeeded.
func checkEnd(t *testing.T, spec GraphSpec, bad []string, got string) {
	want := map[string]string{}
	for _, name := range bad {
		want[name] = "failed"
	}
	for range spec.Tasks {
		for _, task := range spec.Tasks {
			for _, n := range task.Needs {
				if want[n] != "" {
					want[task.Name] = "upstream_failed"
				}
			}
		}
	}
	text := "succeeded"
	if len(bad) > 0 {
		text = "failed"
	}
	for _, task := range spec.Tasks {
		if want[task.Name] == "" {
			want[task.Name] = "succeeded"
		}
		text += " " + task.Name + ":" + want[task.Name]
	}
	if text != got {
		t.Fatalf("ends as\n%s, not\n%s", got, text)
	}
}

func replay(t *testing.T, g *Graph, order []TaskID, fails map[TaskID]bool) *world {
	w := newWorld(g)
	do := func(ev Event) {
		v, err := w.step(ev)
		if err != nil || v != Accepted {
			t.Fatalf("order %v: %v %v", order, v, err)
		}
		for w.run.Ready() > 0 {
			if v, err := w.step(Event{Kind: EvAssign, Task: w.run.NextReady(), Handler: 1}); err != nil || v != Accepted {
				t.Fatalf("order %v: %v %v", order, v, err)
			}
		}
		if err := w.flush(); err != nil {
			t.Fatalf("order %v: %v", order, err)
		}
	}
	do(Event{Kind: EvSubmit, Graph: g})
	for _, id := range order {
		res := Result{State: AttemptSucceeded}
		if fails[id] {
			res.State = AttemptFailed
		}
		do(Event{Kind: EvReport, Task: id, Token: 1, Handler: 1, Result: res})
	}
	return w
}

// fingerprint returns the state of a run and of its tasks as text.
func fingerprint(r *Run) string {
	text := r.State.String()
	for t := range r.tasks {
		text += " " + r.Graph.Name(TaskID(t)) + ":" + r.tasks[t].state.String()
	}
	return text
}
