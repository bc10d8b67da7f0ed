package dag

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// inState makes a run with a task t in a given state. Its graph is a -> t -> z, and a separate task, other,
// which is running.
func inState(state TaskState) *world {
	spec := GraphSpec{Tasks: []TaskSpec{{Name: "a"}, {Name: "t", Needs: []string{"a"}}, {Name: "z", Needs: []string{"t"}}, {Name: "other"}}}
	spec.Tasks[1].Policy.Retry.Max = 1
	if state == Deferred {
		spec.Tasks[1].Policy.Retry.Max, spec.Tasks[1].Logic = 0, &Logic{Kind: Approval}
	}
	if state == Skipped {
		spec.Tasks[1].If = cond("never()")
	}
	g, err := NewGraph(spec)
	must(err)
	w := newWorld(g)
	ok := func(ev Event) {
		v, err := w.step(ev)
		must(err)
		if v != Accepted {
			panic(fmt.Sprintf("%+v: %s", ev, v))
		}
	}
	ok(Event{Kind: EvSubmit, Graph: g})
	ok(Event{Kind: EvAssign, Task: 3, Handler: 1})
	if state == Pending {
		return w
	}
	ok(Event{Kind: EvAssign, Task: 0, Handler: 1})
	if state == UpstreamFailed {
		ok(Event{Kind: EvReport, Task: 0, Token: 1, Handler: 1, Result: Result{State: AttemptFailed}})
		return w
	}
	ok(Event{Kind: EvReport, Task: 0, Token: 1, Handler: 1, Result: Result{State: AttemptSucceeded}})
	end := func(s AttemptState) {
		_, token := w.run.Task(1)
		ok(Event{Kind: EvReport, Task: 1, Token: token, Handler: 1, Result: Result{State: s}})
	}
	assign := func() { ok(Event{Kind: EvAssign, Task: 1, Handler: 1}) }
	switch state {
	case Assigned:
		assign()
	case Running:
		assign()
		ok(Event{Kind: EvStarted, Task: 1, Token: 1, Handler: 1})
	case RetryWait:
		assign()
		end(AttemptFailed)
	case Succeeded:
		assign()
		end(AttemptSucceeded)
	case Failed:
		assign()
		end(AttemptFailed)
		ok(Event{Kind: EvTimer, Timer: TimerRetry, Task: 1, Token: 1})
		assign()
		end(AttemptFailed)
	case Stopped:
		assign()
		ok(Event{Kind: EvMark, Task: 1, Mark: MarkStop})
		end(AttemptStopped)
	}
	return w
}

// ended ends all other tasks of a run in which a task has ended, so that the run ends.
func ended(w *world) *world {
	for turn := 0; !w.run.State.Terminal(); turn++ {
		if turn > 9 {
			panic("the run does not end")
		}
		for w.run.Ready() > 0 {
			_, err := w.step(Event{Kind: EvAssign, Task: w.run.NextReady(), Handler: 1})
			must(err)
		}
		var held []Event
		w.run.Held(func(a *AttemptRow) {
			held = append(held, Event{Kind: EvReport, Task: a.Task, Token: a.Token, Handler: a.Handler, Result: Result{State: AttemptSucceeded}})
		})
		w.run.Deferred(func(a *AttemptRow) {
			held = append(held, Event{Kind: EvSettle, Task: a.Task, Of: w.run.Graph.Kind(a.Task), Result: Result{State: AttemptSucceeded}})
		})
		for _, ev := range held {
			_, err := w.step(ev)
			must(err)
		}
	}
	return w
}

// TestTaskVerbsTable applies every verb on a task in every state of a task, in a run that has not ended and
// in one that has. It checks the result, and that a reload gives the same state.
func TestTaskVerbsTable(t *testing.T) {
	// A cell is the state of the task after the verb. "same" means that the verb had already been applied.
	// "no" means that the verb is refused with an error that names the state. "gen" means that a new
	// generation begins.
	const table = `
		state           | mark succeeded | mark failed | skip        | retry       | stop
		pending         | succeeded      | failed      | skipped     | no          | stopped
		ready           | succeeded      | failed      | skipped     | same        | stopped
		assigned        | no             | no          | no          | no          | assigned
		running         | no             | no          | no          | no          | running
		retry_wait      | succeeded      | failed      | skipped     | ready       | stopped
		deferred        | succeeded      | failed      | skipped     | no          | stopped
		succeeded       | same           | failed gen  | no          | ready gen   | no
		failed          | succeeded gen  | same        | skipped gen | ready gen   | no
		upstream_failed | succeeded gen  | failed gen  | skipped gen | no          | no
		stopped         | succeeded gen  | failed gen  | skipped gen | ready gen   | same
		skipped         | succeeded gen  | failed gen  | same        | ready gen   | no`
	lines := strings.Split(strings.TrimSpace(table), "\n")
	if len(lines) != 1+len(TaskStates()) {
		t.Fatalf("%d lines for %d states", len(lines), len(TaskStates()))
	}
	for _, line := range lines[1:] {
		cells := strings.Split(line, "|")
		name := strings.TrimSpace(cells[0])
		for m := MarkSucceeded; m < marks; m++ {
			want := strings.TrimSpace(cells[m])
			for _, s := range TaskStates() {
				if s.String() != name {
					continue
				}
				t.Run(name+"/"+m.String(), func(t *testing.T) { oneMark(t, inState(s), m, want) })
				if s.Terminal() {
					t.Run(name+"/"+m.String()+"/ended", func(t *testing.T) { oneMark(t, ended(inState(s)), m, want) })
				}
			}
		}
	}
}

func oneMark(t *testing.T, w *world, m Mark, want string) {
	t.Helper()
	must(w.flush())
	was, _ := w.run.Task(1)
	ev := Event{Kind: EvMark, Task: 1, Mark: m, Actor: "ada", Reason: "because"}
	v, err := w.step(ev)
	must(err)
	state, _ := w.run.Task(1)
	got := state.String()
	switch v {
	case Duplicate:
		got = "same"
	case WrongState:
		got = "no"
		if why := w.run.Refusal(&ev); !strings.Contains(why, was.String()) && !strings.Contains(why, "has ended") {
			t.Errorf("refused: %q", why)
		}
	}
	if w.run.Generation > 1 {
		got += " gen"
	}
	if got != want {
		t.Errorf("%s of a task that is %s: %s, want %s", m, was, got, want)
	}
	if v == Accepted && !strings.Contains(string(w.run.records), "because") {
		t.Error("the history does not say why")
	}
	if w.run.Pending() > 0 {
		must(w.flush()) // flush also compares the rows with a reload
	}
	must(w.crash())
	if again, _ := w.run.Task(1); again != state {
		t.Errorf("after a reload it is %s", again)
	}
	// The run ends, whatever the operator has decided.
	if !w.run.State.Terminal() {
		for t := range w.run.tasks {
			if w.run.tasks[t].state == RetryWait {
				_, err := w.step(Event{Kind: EvMark, Task: TaskID(t), Mark: MarkRetry})
				must(err)
			}
		}
		ended(w)
		must(w.flush())
	}
}

// runIn makes a run in a given state, if that state is possible.
func runIn(state RunState) *world {
	spec := GraphSpec{Tasks: []TaskSpec{{Name: "a"}, {Name: "t", Needs: []string{"a"}}}}
	if state == RunSuspended {
		spec.Tasks[0].Logic = &Logic{Kind: Wait, For: time.Hour}
	}
	g, err := NewGraph(spec)
	must(err)
	w := newWorld(g)
	step := func(ev Event) {
		if v, err := w.step(ev); err != nil || v != Accepted {
			panic(fmt.Sprint(v, err))
		}
	}
	end := func(t TaskID, s AttemptState) {
		step(Event{Kind: EvAssign, Task: t, Handler: 1})
		step(Event{Kind: EvReport, Task: t, Token: 1, Handler: 1, Result: Result{State: s}})
	}
	switch state {
	case RunSubmitted:
		return w
	case RunWaiting:
		step(Event{Kind: EvSubmit, Wait: "a limit"})
		return w
	case RunSplitting:
		step(Event{Kind: EvSubmit})
		return w
	case RunSkipped:
		w.run.Fire = &Fire{Trigger: "t", StartBy: w.now.Wall}
	}
	step(Event{Kind: EvSubmit, Graph: g})
	switch state {
	case RunRunning, RunSuspended:
	case RunPaused:
		step(Event{Kind: EvIntent, Intent: IntentPause})
	case RunSucceeded:
		end(0, AttemptSucceeded)
		end(1, AttemptSucceeded)
	case RunFailed:
		end(0, AttemptFailed)
	case RunStopped:
		step(Event{Kind: EvIntent, Intent: IntentStop})
	case RunSkipped:
		step(Event{Kind: EvTimer, Timer: TimerStartBy, Task: LeaderTask})
	default:
		return nil // no event brings a run into this state
	}
	if w.run.State != state {
		panic(w.run.State.String())
	}
	return w
}

// TestRunVerbsTable applies every verb on a run in every state of a run.
func TestRunVerbsTable(t *testing.T) {
	const table = `
		state      | stop     | kill     | pause    | resume | recover | recover a | skip a
		submitted  | stopped  | stopped  | submitted| same   | no      | no        | no
		waiting    | stopped  | stopped  | waiting  | same   | no      | no        | no
		splitting  | stopped  | stopped  | splitting| same   | no      | no        | no
		running    | stopped  | stopped  | paused   | same   | no      | no        | succeeded
		paused     | stopped  | stopped  | same     | running| no      | no        | succeeded
		suspended  | stopped  | stopped  | paused   | same   | no      | no        | succeeded
		succeeded  | ended    | ended    | ended    | ended  | no      | running   | no
		failed     | ended    | ended    | ended    | ended  | running | running   | succeeded
		stopped    | ended    | ended    | ended    | ended  | running | running   | succeeded
		skipped    | ended    | ended    | ended    | ended  | no      | no        | no`
	verbs := []Event{
		{Kind: EvIntent, Intent: IntentStop, Task: LeaderTask}, {Kind: EvIntent, Intent: IntentKill, Task: LeaderTask},
		{Kind: EvIntent, Intent: IntentPause, Task: LeaderTask}, {Kind: EvIntent, Intent: IntentRun, Task: LeaderTask},
		{Kind: EvRecover, Task: LeaderTask}, {Kind: EvRecover, Scope: ScopeFrom, Task: 0}, {Kind: EvMark, Mark: MarkSkip, Task: 0},
	}
	for _, line := range strings.Split(strings.TrimSpace(table), "\n")[1:] {
		cells := strings.Split(line, "|")
		state, _ := ParseRunState(strings.TrimSpace(cells[0]))
		for i, ev := range verbs {
			want := strings.TrimSpace(cells[i+1])
			t.Run(fmt.Sprintf("%s/%d", state, i), func(t *testing.T) {
				w := runIn(state)
				ev.Actor, ev.Reason = "ada", "because"
				v, err := w.step(ev)
				must(err)
				got := w.run.State.String()
				switch v {
				case Duplicate:
					got = "same"
				case RunEnded:
					got = "ended"
				case WrongState:
					got = "no"
					if why := w.run.Refusal(&ev); !strings.Contains(why, state.String()) && !strings.Contains(why, "has ended") {
						t.Errorf("refused: %q", why)
					}
				}
				if got != want {
					t.Errorf("it is %s, want %s", got, want)
				}
				if w.run.Pending() > 0 {
					must(w.flush())
				}
			})
		}
	}
}

// TestMarkTable: every decision about a task is a valid transition. If the decision begins a new generation,
// the transition starts from pending.
func TestMarkTable(t *testing.T) {
	for m := MarkSucceeded; m < marks; m++ {
		for _, s := range TaskStates() {
			to, _, _ := m.end()
			from := s
			if s.Terminal() {
				from = Pending
			}
			if markTable[m][s] && !s.Held() && !legal(taskMoves[from], to) {
				t.Errorf("%s of %s: %s to %s is no legal move", m, s, from, to)
			}
		}
	}
}
