package dag

import "testing"

// lateWorld returns a run in which no step evaluates a condition. asked holds the requested evaluations.
func lateWorld(t *testing.T, tasks ...TaskSpec) *world {
	t.Helper()
	g, err := NewGraph(GraphSpec{Tasks: tasks})
	must(err)
	w := newWorld(g)
	w.beside, w.late = func() bool { return true }, true
	w.drive(t, Event{Kind: EvSubmit, Graph: g}, Accepted)
	return w
}

func (w *world) drive(t *testing.T, ev Event, want Verdict) {
	t.Helper()
	fx := w.effects()
	if v := w.run.Step(&ev, w.now, &fx); v != want {
		t.Fatalf("%s: %s, want %s", ev.Kind, v, want)
	}
	w.answer(&fx)
	if err := checkRun(w.run); err != nil && !w.run.Evaluating() {
		t.Fatal(err)
	}
	if err := w.flush(); err != nil && !w.run.Evaluating() {
		t.Fatal(err)
	}
}

// answers evaluates all requested conditions, and returns the event with the results.
func (w *world) answers() Event {
	ev := Event{Kind: EvEvaluated, Generation: w.run.Generation}
	for i := range w.asked {
		ev.Evaluated = append(ev.Evaluated, w.asked[i].Do())
	}
	w.asked = nil
	return ev
}

func (w *world) finish(t *testing.T, task string, s AttemptState) {
	t.Helper()
	id, _ := w.run.Graph.Find(task)
	w.drive(t, Event{Kind: EvAssign, Task: id, Handler: 1}, Accepted)
	_, token := w.run.Task(id)
	w.drive(t, Event{Kind: EvReport, Task: id, Token: token, Handler: 1, Result: Result{State: s, Outputs: []byte("1")}}, Accepted)
}

func (w *world) stands(t *testing.T, task string, want TaskState) {
	t.Helper()
	id, _ := w.run.Graph.Find(task)
	if s, _ := w.run.Task(id); s != want {
		t.Errorf("task %s is %s, want %s", task, s, want)
	}
}

// TestEvaluatedOutside: if a step does not evaluate a condition, the task stays pending until the result
// comes back as an event. Steps in between do not request the evaluation again. The run applies a result
// once, and ignores results of another generation.
func TestEvaluatedOutside(t *testing.T) {
	w := lateWorld(t, TaskSpec{Name: "a"}, TaskSpec{Name: "other"},
		TaskSpec{Name: "b", Needs: []string{"a"}, If: cond("out(a)=1")},
		TaskSpec{Name: "c", Needs: []string{"a"}, If: cond("out(a)=2")},
		TaskSpec{Name: "d", Needs: []string{"a"}, If: cond("error()")},
		TaskSpec{Name: "e", Needs: []string{"c"}})
	w.finish(t, "a", AttemptSucceeded)
	for _, task := range []string{"b", "c", "d", "e"} {
		w.stands(t, task, Pending)
	}
	w.finish(t, "other", AttemptSucceeded)
	if len(w.asked) != 3 || !w.run.Evaluating() || w.run.State != RunRunning {
		t.Fatalf("%d conditions are asked, the run is %s", len(w.asked), w.run.State)
	}
	check := Event{Kind: EvCheck, Fault: "unsubmitted"}
	if w.drive(t, check, Accepted); w.run.Pending() > 0 {
		t.Error("a sweep repaired a run that waits for results")
	}
	got := w.answers()
	stale := got
	stale.Generation++
	w.drive(t, stale, Stale)
	w.stands(t, "b", Pending)
	w.drive(t, got, Accepted)
	w.drive(t, got, Duplicate)
	w.stands(t, "b", Ready)
	w.stands(t, "c", Skipped)
	w.stands(t, "d", Failed)
	w.stands(t, "e", Skipped)
	w.finish(t, "b", AttemptSucceeded)
	if w.run.State != RunFailed || w.run.Evaluating() {
		t.Errorf("the run is %s", w.run.State)
	}
}

// TestLoadAsksAgain: the load requests results again that a crash lost. The results of a switch are
// requested by the owner's check of stirred tasks.
func TestLoadAsksAgain(t *testing.T) {
	w := lateWorld(t, TaskSpec{Name: "a"},
		TaskSpec{Name: "s", Needs: []string{"a"}, Logic: &Logic{Kind: Switch, Branches: []Branch{{If: cond("out(a)=2"), Then: "x"}, {If: cond("out(a)=1"), Then: "y"}}}},
		TaskSpec{Name: "x", Needs: []string{"s"}}, TaskSpec{Name: "y", Needs: []string{"s"}},
		TaskSpec{Name: "b", Needs: []string{"a"}, If: cond("out(a)=2")})
	w.finish(t, "a", AttemptSucceeded)
	w.stands(t, "s", Ready)
	for range 3 { // the branch to x, the branch to y, and the condition of b each time
		must(w.crash())
		if len(w.asked) != 2 {
			t.Fatalf("the load asks for %d conditions, want 2: %+v", len(w.asked), w.asked)
		}
	}
	w.drive(t, w.answers(), Accepted)
	w.stands(t, "s", Ready) // the other branch is requested now
	w.drive(t, w.answers(), Accepted)
	w.stands(t, "s", Succeeded)
	w.stands(t, "x", Skipped)
	w.stands(t, "y", Ready)
	w.stands(t, "b", Skipped)
	w.finish(t, "y", AttemptSucceeded)
	if w.run.State != RunSucceeded {
		t.Errorf("the run is %s", w.run.State)
	}
}

// TestDecidedMeanwhile: an operator or a stop need not wait for a result, and a late result changes
// nothing.
func TestDecidedMeanwhile(t *testing.T) {
	two := []TaskSpec{{Name: "a"}, {Name: "b", Needs: []string{"a"}, If: cond("out(a)=1")}}
	w := lateWorld(t, two...)
	w.finish(t, "a", AttemptSucceeded)
	b, _ := w.run.Graph.Find("b")
	got := w.answers()
	w.drive(t, Event{Kind: EvMark, Task: b, Mark: MarkSkip}, Accepted)
	w.stands(t, "b", Skipped)
	w.drive(t, got, RunEnded)
	w = lateWorld(t, two...)
	w.finish(t, "a", AttemptSucceeded)
	w.drive(t, Event{Kind: EvIntent, Intent: IntentStop}, Accepted)
	w.stands(t, "b", Stopped)
	if w.run.State != RunStopped || w.run.Evaluating() {
		t.Errorf("the run is %s", w.run.State)
	}
}
