package dag

import (
	"testing"
	"time"
)

// These tests are faults that random events have found, each with the shortest sequence of events.

// foundWorld returns a submitted run, and a function that applies an event to it.
func foundWorld(t *testing.T, spec GraphSpec) (*world, func(Event)) {
	g, err := NewGraph(spec)
	must(err)
	w := newWorld(g)
	do := func(ev Event) {
		t.Helper()
		if v, err := w.step(ev); v != Accepted || err != nil {
			t.Fatalf("%s of %d: %s %v", ev.Kind, ev.Task, v, err)
		}
		if err := w.flush(); err != nil {
			t.Fatalf("after %s of %d: %v", ev.Kind, ev.Task, err)
		}
	}
	do(Event{Kind: EvSubmit, Graph: g})
	return w, do
}

// TestItemGoneThenFailed: an instance whose item is gone stays skipped when the other instances fail.
func TestItemGoneThenFailed(t *testing.T) {
	w, do := foundWorld(t, GraphSpec{Tasks: []TaskSpec{{Name: "each", Logic: &Logic{Kind: Foreach}}, {Name: "open"}}})
	run := func(task TaskID, end AttemptState) {
		do(Event{Kind: EvAssign, Task: task, Handler: 1})
		do(Event{Kind: EvReport, Task: task, Handler: 1, Token: w.run.at(task).token, Result: Result{State: end}})
	}
	do(Event{Kind: EvArm, Of: Foreach, Items: &Items{Values: [][]byte{[]byte("1"), []byte("2")}}})
	run(1, AttemptSucceeded)
	run(2, AttemptSucceeded)
	run(3, AttemptSucceeded)
	do(Event{Kind: EvRecover, Task: 0, Scope: ScopeFrom})
	do(Event{Kind: EvMark, Task: 1, Mark: MarkRetry})
	do(Event{Kind: EvArm, Of: Foreach, Items: &Items{Values: [][]byte{[]byte("1")}}})
	run(2, AttemptFailed)
	if gone := w.run.at(3).state; gone != Skipped {
		t.Errorf("the instance without an item is %s", gone)
	}
}

// TestStartDeadlineOfLogical: a logical task has no start deadline, also after a reload.
func TestStartDeadlineOfLogical(t *testing.T) {
	for _, kind := range []Kind{Wait, Foreach, Approval} {
		for _, warn := range []bool{false, true} {
			spec := GraphSpec{Tasks: []TaskSpec{{Name: "a"}, {Name: "b", Needs: []string{"a"}, Logic: &Logic{Kind: kind}}}}
			spec.Tasks[1].Policy = Policy{StartDeadline: time.Minute, WarnOnTimeout: warn}
			w, do := foundWorld(t, spec)
			do(Event{Kind: EvIntent, Task: LeaderTask, Intent: IntentPause})
			do(Event{Kind: EvMark, Task: 0, Mark: MarkSucceeded})
			must(w.crash())
			for _, tm := range w.timers {
				t.Errorf("%s: there is a timer: %+v", kind, tm)
			}
			if v, err := w.step(Event{Kind: EvTimer, Timer: TimerStart, Task: 1}); v != Stale || err != nil {
				t.Errorf("%s: a start deadline of it is %s %v", kind, v, err)
			}
		}
	}
}

// TestEndIsRead: if on_failure: end ends a task, the conditions that read this task are decided in the same
// step.
func TestEndIsRead(t *testing.T) {
	w, do := foundWorld(t, GraphSpec{EndOnFailure: true, Tasks: []TaskSpec{
		{Name: "wait", Logic: &Logic{Kind: Wait}},
		{Name: "mid", Needs: []string{"wait"}},
		{Name: "reads", Needs: []string{"mid"}, If: cond("out(wait)=1")},
		{Name: "held"},
		{Name: "fails"},
	}})
	do(Event{Kind: EvAssign, Task: 3, Handler: 1})
	do(Event{Kind: EvMark, Task: 1, Mark: MarkSucceeded})
	do(Event{Kind: EvMark, Task: 4, Mark: MarkFailed})
	if s := w.run.at(2).state; s != Skipped {
		t.Errorf("the task that reads is %s", s)
	}
}

// TestSwitchWaitsForWhatItReads: a switch that must choose again waits until the tasks that it reads have
// run again, unless they need it.
func TestSwitchWaitsForWhatItReads(t *testing.T) {
	w, do := foundWorld(t, GraphSpec{Tasks: []TaskSpec{
		{Name: "read"},
		{Name: "between", Needs: []string{"read"}},
		{Name: "switch", Needs: []string{"between"}, If: cond("out(between)=9"), Logic: &Logic{Kind: Switch, Branches: []Branch{{Then: "then", If: cond("out(read)=1")}}}},
		{Name: "then", Needs: []string{"switch"}},
		{Name: "open"},
	}})
	run := func(task TaskID, out string) {
		do(Event{Kind: EvAssign, Task: task, Handler: 1})
		do(Event{Kind: EvReport, Task: task, Handler: 1, Token: w.run.at(task).token, Result: Result{State: AttemptSucceeded, Outputs: []byte(out)}})
	}
	run(0, "2")
	run(1, "")
	do(Event{Kind: EvIntent, Task: LeaderTask, Intent: IntentPause}) // the switch is skipped
	do(Event{Kind: EvMark, Task: 2, Mark: MarkRetry})
	do(Event{Kind: EvMark, Task: 0, Mark: MarkRetry})
	do(Event{Kind: EvIntent, Task: LeaderTask, Intent: IntentRun})
	must(w.crash())
	run(0, "1")
	if s, then := w.run.at(2).state, w.run.at(3).state; s != Succeeded || then != Ready {
		t.Errorf("the switch is %s, its branch %s", s, then)
	}
}

// TestReadyWaitsForWhatIsDoneAgain: an operator orders a task to run while its run is paused, and then orders
// a task that it needs to run again. The first task then waits for the second one, and its state follows from
// the end of the second one.
func TestReadyWaitsForWhatIsDoneAgain(t *testing.T) {
	for _, c := range []struct {
		condition string
		want      TaskState
	}{{"always()", Ready}, {"failure()", Skipped}} {
		w, do := foundWorld(t, GraphSpec{Tasks: []TaskSpec{
			{Name: "first"},
			{Name: "then", Needs: []string{"first"}, If: cond(c.condition)},
			{Name: "open"},
		}})
		run := func(task TaskID) {
			do(Event{Kind: EvAssign, Task: task, Handler: 1})
			do(Event{Kind: EvReport, Task: task, Handler: 1, Token: w.run.at(task).token, Result: Result{State: AttemptSucceeded}})
		}
		run(0)
		if c.want == Ready {
			run(1)
		}
		do(Event{Kind: EvIntent, Task: LeaderTask, Intent: IntentPause})
		do(Event{Kind: EvMark, Task: 1, Mark: MarkRetry})
		do(Event{Kind: EvMark, Task: 0, Mark: MarkRetry})
		do(Event{Kind: EvIntent, Task: LeaderTask, Intent: IntentRun})
		must(w.crash())
		if s := w.run.at(1).state; s != Pending {
			t.Errorf("%s: beside what it needs it is %s", c.condition, s)
		}
		run(0)
		if s := w.run.at(1).state; s != c.want {
			t.Errorf("%s: it is %s, want %s", c.condition, s, c.want)
		}
	}
}

// TestNothingBeginsAfterTheEnd: if the end of a foreach task fails another task, and so ends the run, no task
// that needs the foreach task begins.
func TestNothingBeginsAfterTheEnd(t *testing.T) {
	w, do := foundWorld(t, GraphSpec{EndOnFailure: true, Tasks: []TaskSpec{
		{Name: "each", Logic: &Logic{Kind: Foreach}},
		{Name: "ask", Needs: []string{"each"}, Logic: &Logic{Kind: Approval}},
		{Name: "bad", Needs: []string{"each"}, If: cond("error()")},
		{Name: "held"},
	}})
	do(Event{Kind: EvArm, Of: Foreach, Items: &Items{Values: [][]byte{[]byte("1")}}})
	do(Event{Kind: EvAssign, Task: 3, Handler: 1})
	do(Event{Kind: EvAssign, Task: 4, Handler: 1})
	do(Event{Kind: EvReport, Task: 4, Handler: 1, Token: 1, Result: Result{State: AttemptSucceeded}})
	if p := w.run.at(1); w.run.Intent != IntentStop || p.token != 0 {
		t.Errorf("the intent is %s, the approval has token %d", w.run.Intent, p.token)
	}
}

// TestReadersFollow: a task that reads another without needing it is decided again after a decision about
// the other.
func TestReadersFollow(t *testing.T) {
	w, do := foundWorld(t, GraphSpec{Tasks: []TaskSpec{
		{Name: "read"},
		{Name: "mid", Needs: []string{"read"}},
		{Name: "reads", Needs: []string{"mid"}, If: cond("out(read)=2")},
		{Name: "open"},
	}})
	for task := range TaskID(2) {
		do(Event{Kind: EvAssign, Task: task, Handler: 1})
		do(Event{Kind: EvReport, Task: task, Handler: 1, Token: 1, Result: Result{State: AttemptSucceeded, Outputs: []byte("2")}})
	}
	do(Event{Kind: EvMark, Task: 0, Mark: MarkSucceeded, Outputs: []byte("3")})
	if s := w.run.at(2).state; s != Skipped {
		t.Errorf("it read 2, which is 3 by now, and is %s", s)
	}
}

// TestWaitingBeginsNothing: a recovered run that waits for its queue slot or locks begins no logical task,
// not even after checks and decisions about other tasks. It begins them when it has its slot and locks.
func TestWaitingBeginsNothing(t *testing.T) {
	for name, look := range map[string]Event{
		"looked at": {Kind: EvCheck},
		"decided":   {Kind: EvMark, Task: 1, Mark: MarkSucceeded},
		"resumed":   {Kind: EvIntent, Task: LeaderTask, Intent: IntentRun},
	} {
		w, do := foundWorld(t, GraphSpec{Tasks: []TaskSpec{{Name: "calls", Logic: &Logic{Kind: Call}}, {Name: "runs"}}})
		for task := range TaskID(2) {
			do(Event{Kind: EvMark, Task: task, Mark: MarkFailed})
		}
		do(Event{Kind: EvRecover, Task: LeaderTask, Wait: "a lock"})
		if name == "resumed" {
			do(Event{Kind: EvIntent, Task: LeaderTask, Intent: IntentPause})
		}
		do(look)
		if s := w.run.at(0).state; w.run.State != RunWaiting || s != Ready {
			t.Errorf("%s: the run is %s, its call %s", name, w.run.State, s)
		}
		do(Event{Kind: EvAdmit})
		if s := w.run.at(0).state; s != Deferred {
			t.Errorf("%s: admitted, its call is %s", name, s)
		}
	}
}
