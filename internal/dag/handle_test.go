package dag

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// handleWorld is a run whose tasks have handles. It knows what really runs outside of the processes.
type handleWorld struct {
	*world
	t       *testing.T
	rand    *rand.Rand
	under   map[errandKey]string // the errands under way, with their handles
	outside map[string]bool      // the work that was begun and not ended
	orphans map[string]bool
	told    map[string]int // handle → the number of errands that have reported its release
	kinds   bool           // the kinds of the tasks release handles, and the kind of task 0 adopts work
}

// errandKey names an errand.
type errandKey struct {
	task  TaskID
	token Token
}

func newHandleWorld(t *testing.T, seed uint64, adopts, kinds bool) *handleWorld {
	a := Policy{Release: true, Adopts: adopts, ReleaseTimeout: time.Minute, Retry: Retry{Max: 2, Delay: time.Second}}
	b := Policy{Release: true, Retry: Retry{Max: 1}}
	if kinds {
		a.Release, a.Adopts, a.Place = false, false, Anywhere.OfKind("slurm")
		b.Release, b.Place = false, Anywhere.OfKind("vm")
	}
	g, err := NewGraph(GraphSpec{Tasks: []TaskSpec{{Name: "a", Policy: a}, {Name: "b", Needs: []string{"a"}, Policy: b}, {Name: "c"}}})
	if err != nil {
		t.Fatal(err)
	}
	w := &handleWorld{world: newWorld(g), t: t, rand: rand.New(rand.NewPCG(seed, 1)), under: map[errandKey]string{}, outside: map[string]bool{},
		orphans: map[string]bool{}, told: map[string]int{}, kinds: kinds}
	w.do(Event{Kind: EvSubmit, Graph: g, Handler: 1})
	return w
}

// do steps and commits, and checks the effects.
func (w *handleWorld) do(ev Event) Verdict {
	w.t.Helper()
	v, err := w.step(ev)
	if err == nil {
		err = w.flush()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range w.errands {
		w.under[errandKey{e.Attempt.Task, e.Attempt.Token}] = e.Handle
	}
	w.errands = nil
	w.check()
	return v
}

// check compares the rows with the work that exists outside.
func (w *handleWorld) check() {
	w.t.Helper()
	covered := map[string]bool{}
	for _, a := range w.rows.list() {
		h, ok := HandleOf(&a)
		if !ok {
			continue
		}
		covered[h.Text] = true
		switch live := !a.State.Ended(); {
		case h.State == HandleOrphan:
			w.orphans[h.Text] = true
		case w.run.State.Terminal():
			w.t.Fatalf("the run has ended, and attempt %d of task %d has the handle %+v", a.Token, a.Task, h)
		case h.State == HandleReleasing:
			if _, ok := w.under[errandKey{a.Task, a.Token}]; !ok {
				w.t.Fatalf("no errand is under way for %+v", h)
			}
		case live:
			for e, text := range w.under {
				if text == h.Text {
					w.t.Fatalf("errand %+v releases %q, which attempt %d of task %d holds", e, text, a.Token, a.Task)
				}
			}
		}
	}
	for text := range w.outside {
		if !covered[text] {
			w.t.Fatalf("nobody ends %q, and its run is %s", text, w.run.State)
		}
	}
	for e := range w.under {
		if state, _ := w.run.Task(e.task); state.Held() && w.run.Releasing(e.task, e.token) {
			w.t.Fatalf("task %d is %s while errand %+v is under way", e.task, state, e)
		}
	}
}

// move makes one random event happen that the state allows.
func (w *handleWorld) move() {
	t := TaskID(w.rand.IntN(3))
	state, token := w.run.Task(t)
	h, _, held := w.run.Holder(t)
	switch n := w.rand.IntN(12); {
	case w.run.Ready() > 0 && n < 3:
		w.do(Event{Kind: EvAssign, Task: w.run.NextReady(), Handler: HandlerID(1 + w.rand.IntN(2))})
	case held && n < 5:
		text := w.handle(t, token)
		w.do(Event{Kind: EvStarted, Task: t, Token: token, Handler: h, Handle: text, Adopts: w.kindAdopts(t)})
	case held && n == 5:
		w.do(Event{Kind: EvLost, Task: t, Token: token, Handler: h, Reason: "gone"})
	case held && n == 6:
		w.report(t, token, h)
	case n == 7 && len(w.under) > 0:
		w.endErrand()
	case n == 8 && w.rand.IntN(10) == 0:
		w.do(Event{Kind: EvIntent, Intent: IntentStop, Actor: "ada"})
	case n == 9 && state == RetryWait:
		w.do(Event{Kind: EvTimer, Timer: TimerRetry, Task: t, Token: token})
	case n == 10 && w.rand.IntN(4) == 0:
		w.expire()
	case n == 11:
		if err := w.crash(); err != nil {
			w.t.Fatal(err)
		}
		w.errands = nil // a reload does not request errands again
		w.check()
	}
}

// handle begins the work of an attempt, or continues the work of an earlier attempt under the same name.
func (w *handleWorld) handle(t TaskID, token Token) string {
	if t == 2 {
		return "not allowed"
	}
	if a, ok := w.run.Open(t); ok {
		if h, has := HandleOf(&a); has {
			return h.Text
		}
	}
	text := fmt.Sprintf("job-%d-%d", t, token)
	for known := range w.outside {
		if (w.kindAdopts(t) || w.run.Graph.Policy(t).Adopts) && strings.HasPrefix(known, fmt.Sprintf("job-%d-", t)) && !w.orphans[known] {
			text = known
		}
	}
	w.outside[text] = true
	return text
}

// kindAdopts reports whether the kind of a task says that the next attempt adopts.
func (w *handleWorld) kindAdopts(t TaskID) bool { return w.kinds && t == 0 }

func (w *handleWorld) report(t TaskID, token Token, h HandlerID) {
	res := Result{State: AttemptFailed, Cause: CauseExit, Exited: true, ExitCode: 1}
	if w.rand.IntN(2) == 0 && t != 2 {
		res.Handle, res.Adopts = w.handle(t, token), w.kindAdopts(t)
	}
	if w.rand.IntN(2) == 0 {
		a, _ := w.run.Open(t)
		own, _ := HandleOf(&a)
		if own.Text == "" {
			own.Text = res.Handle
		}
		res = Result{State: AttemptSucceeded, Exited: true, Handle: res.Handle, Adopts: res.Adopts, Outputs: []byte(`{"handle":"no handle"}`)}
		for text := range w.outside { // the attempt has ended its own work, and the work that it took over
			if strings.HasPrefix(text, fmt.Sprintf("job-%d-", t)) && (text == own.Text || own.Text == "") && !w.orphans[text] {
				delete(w.outside, text)
			}
		}
	}
	if v := w.do(Event{Kind: EvReport, Task: t, Token: token, Handler: h, Result: res}); v != Accepted {
		w.t.Fatalf("a report is %s", v)
	}
}

func (w *handleWorld) endErrand() {
	for e, text := range w.under {
		ev := Event{Kind: EvReleased, Task: e.task, Token: e.token}
		delete(w.under, e)
		if w.rand.IntN(5) == 0 {
			ev.Reason = "exit 1"
		} else {
			delete(w.outside, text)
			delete(w.orphans, text)
		}
		w.do(ev)
		return
	}
}

// expire makes the release of a handle exceed its timeout.
func (w *handleWorld) expire() {
	for e := range w.under {
		w.do(Event{Kind: EvTimer, Timer: TimerRelease, Task: e.task, Token: e.token})
		return
	}
}

// TestHandles: whatever happens, each piece of work outside of a process is held by an attempt, is released
// by an errand, or is listed as an orphan. No errand releases work that an attempt holds. A run ends only
// when no work is left to release.
func TestHandles(t *testing.T) {
	ended, orphans := 0, 0
	for seed := range uint64(600) {
		w := newHandleWorld(t, seed, seed%3 == 0, seed%3 == 1)
		for range 150 {
			w.move()
		}
		if w.run.State.Terminal() {
			ended++
		}
		orphans += len(w.orphans)
	}
	if ended < 200 || orphans == 0 {
		t.Errorf("%d runs ended and %d orphans were seen: the test shows too little", ended, orphans)
	}
}
