package dag

import (
	"fmt"
	"hash/fnv"
	"testing"

	"pgregory.net/rapid"
)

// outcome returns the result of the nth attempt of a task. The result does not depend on the caller or the
// time.
func outcome(seed int, task string, n Token) Result {
	h := fnv.New32a()
	fmt.Fprint(h, seed, task, n)
	switch h.Sum32() % 5 {
	case 0:
		return Result{State: AttemptFailed, Cause: CauseExit, Exited: true, ExitCode: 1}
	case 1:
		return Result{State: AttemptSucceeded, Outputs: []byte("2")}
	}
	return Result{State: AttemptSucceeded, Outputs: []byte("1")}
}

// TestAnyOrder: the end of a run, down to the last token, does not depend on the number of slots, the order
// of ends, the batches of commits or the crashes of the owner.
func TestAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := drawSpec(t)
		spec.EndOnFailure, spec.Timeout = false, 0 // these end a run early, so it would be chance which other tasks have run
		seed := rapid.IntRange(0, 1<<20).Draw(t, "seed")
		g, err := NewGraph(spec)
		must(err)
		first := fairRun(t, newWorld(g), seed, false)
		for range 3 {
			if again := fairRun(t, newWorld(g), seed, true); again != first {
				t.Fatalf("ends as\n%s, in another order as\n%s", first, again)
			}
		}
	})
}

// fairRun drives a run to its end. If mixed is set, it uses a random order with random commits and crashes.
// Otherwise it uses the plain order.
func fairRun(t *rapid.T, w *world, seed int, mixed bool) string {
	chance := func(of int, what string) bool { return mixed && rapid.IntRange(0, of-1).Draw(t, what) == 0 }
	step := func(ev Event) {
		if v, err := w.step(ev); err != nil || v != Accepted && ev.Kind != EvTimer {
			t.Fatalf("%s of %d: %v %v", ev.Kind, ev.Task, v, err)
		}
	}
	step(Event{Kind: EvSubmit, Graph: w.g})
	for !w.run.State.Terminal() {
		for w.run.Ready() > 0 && !chance(3, "leave") {
			step(Event{Kind: EvAssign, Task: w.run.NextReady(), Handler: 1})
		}
		var can []Event
		w.run.Held(func(a *AttemptRow) {
			can = append(can, Event{Kind: EvReport, Task: a.Task, Token: a.Token, Handler: 1,
				Result: outcome(seed, w.run.Graph.Name(a.Task), a.Token)})
		})
		w.run.Deferred(func(a *AttemptRow) {
			if ev, ok := w.fairAnswer(a, seed); ok {
				can = append(can, ev)
			}
		})
		for _, tm := range w.timers {
			if state, token := w.run.Task(tm.Task); tm.Kind == TimerRetry && state == RetryWait && token == tm.Token {
				can = append(can, Event{Kind: EvTimer, Timer: tm.Kind, Task: tm.Task, Token: tm.Token})
			}
		}
		if len(can) > 0 {
			next := 0
			if mixed {
				next = rapid.IntRange(0, len(can)-1).Draw(t, "next")
			}
			step(can[next])
		}
		if !mixed || chance(2, "commit") {
			if err := w.flush(); err != nil {
				t.Fatalf("%v", err)
			}
			if chance(3, "crash") {
				must(w.crash())
			}
		}
	}
	return w.run.byName()
}

// TestAnyBatching: the same events, of every kind, committed one by one or many at once, give the same states
// and the same rows.
func TestAnyBatching(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t)
		m.w.beside = nil // a retry of a task whose condition is not known yet writes a row that is not needed later
		var events []Event
		m.w.heard = func(ev Event) { events = append(events, ev) }
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			m.act()
			must(m.w.flush())
		}
		other := newWorld(m.w.g)
		for _, ev := range events {
			if _, err := other.step(ev); err != nil {
				t.Fatalf("%v", err)
			}
			if rapid.IntRange(0, 4).Draw(t, "commit") == 0 {
				if err := other.flush(); err != nil {
					t.Fatalf("%v", err)
				}
			}
		}
		if err := other.flush(); err != nil {
			t.Fatalf("%v", err)
		}
		if a, b := fingerprint(m.w.run), fingerprint(other.run); a != b {
			t.Fatalf("one by one %s, together %s", a, b)
		}
		if len(m.w.rows.attempts) != len(other.rows.attempts) {
			t.Fatalf("%d attempts one by one, %d together", len(m.w.rows.attempts), len(other.rows.attempts))
		}
	})
}
