package dag

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// drawSpec draws a random graph of any shape, with names in any order and conditions of every kind.
func drawSpec(t *rapid.T) GraphSpec {
	n := rapid.IntRange(1, 9).Draw(t, "tasks")
	place := rapid.Permutation(seq(n)).Draw(t, "places") // place[i] is the position of the i-th task of the order
	spec := GraphSpec{Tasks: make([]TaskSpec, n), EndOnFailure: rapid.IntRange(0, 3).Draw(t, "end") == 0}
	if rapid.IntRange(0, 4).Draw(t, "cap") == 0 {
		spec.Timeout = time.Hour
	}
	for i := range n {
		task := &spec.Tasks[place[i]]
		task.Name = fmt.Sprintf("t%d", place[i])
		for j := range i {
			if rapid.IntRange(0, 2).Draw(t, "need") == 0 {
				task.Needs = append(task.Needs, fmt.Sprintf("t%d", place[j]))
			}
		}
		task.Policy = drawPolicy(t)
		if src := drawCondition(t, task.Needs, i, place); src != "" {
			task.If = cond(src)
		}
	}
	drawLogic(t, &spec)
	for { // if the graph is refused because a condition reads a task too far up, the task gets no condition
		_, err := NewGraph(spec)
		if err == nil {
			return spec
		}
		for _, e := range err.(GraphErrors) {
			if e.Kind == FarRead && dropBranches(&spec, e.Task) {
				continue
			}
			if e.Kind != FarRead {
				t.Fatalf("%v", err)
			}
			for i := range spec.Tasks {
				if spec.Tasks[i].Name == e.Task {
					spec.Tasks[i].If = nil
				}
			}
		}
	}
}

func seq(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}

func drawPolicy(t *rapid.T) Policy {
	p := Policy{Priority: Priority(rapid.IntRange(0, 4).Draw(t, "priority"))}
	p.OnLost = rapid.SampledFrom([]OnLost{LostResubmit, LostResubmit, LostFail, LostAsk}).Draw(t, "on_lost")
	if rapid.IntRange(0, 5).Draw(t, "deadline") == 0 {
		p.StartDeadline = time.Minute
	}
	if rapid.IntRange(0, 2).Draw(t, "retries") == 0 {
		p.Retry = Retry{Max: int32(rapid.IntRange(1, 2).Draw(t, "max")), Delay: time.Minute, Jitter: 0.5}
	}
	if rapid.IntRange(0, 3).Draw(t, "timeout") == 0 {
		p.Timeout = 10 * time.Minute
		p.WarnOnTimeout = rapid.Bool().Draw(t, "warn")
	}
	return p
}

func drawCondition(t *rapid.T, needs []string, i int, place []int) string {
	switch rapid.IntRange(0, 13).Draw(t, "if") {
	case 0:
		return "always()"
	case 1:
		return "failure()"
	case 2:
		return "success()"
	case 3:
		return "never()"
	case 4:
		return "error()"
	case 10:
		return "clean()"
	case 5:
		return `params({"go":1})`
	case 6, 7:
		if len(needs) > 0 {
			state := rapid.SampledFrom([]string{"failed", "skipped", "succeeded", "upstream_failed"}).Draw(t, "status")
			return "status(" + rapid.SampledFrom(needs).Draw(t, "of") + ")=" + state
		}
	case 8, 9:
		if i > 0 {
			far := place[rapid.IntRange(0, i-1).Draw(t, "of")]
			return fmt.Sprintf(`out(t%d)=%d`, far, rapid.IntRange(1, 2).Draw(t, "out"))
		}
	}
	return ""
}

// machine drives one run with random events, and records the facts for the naive implementation.
type machine struct {
	*rapid.T
	w     *world
	spec  GraphSpec
	facts map[string]*fact
	stop  RunState // the end that an operator or the timeout of the run gives it; RunRunning if there is none
	verbs bool     // operators apply verbs
	again bool     // a new generation has begun, which the naive model does not support
}

func newMachine(t *rapid.T) *machine {
	m := &machine{T: t, spec: drawSpec(t), verbs: rapid.Bool().Draw(t, "verbs"), facts: map[string]*fact{}, stop: RunRunning}
	g, err := NewGraph(m.spec)
	must(err)
	m.w = newWorld(g)
	// With on_failure: end, a failure stops undecided tasks, as a stop does. Then the result depends on
	// whether a condition is evaluated in the step or outside of it.
	if !m.spec.EndOnFailure && rapid.Bool().Draw(t, "beside") {
		m.w.beside = func() bool { return rapid.Bool().Draw(t, "costly") }
	}
	m.w.own = rapid.IntRange(0, 4).Draw(t, "own") == 0
	for i := range m.spec.Tasks {
		task := &m.spec.Tasks[i]
		t.Logf("%s needs %v if %v policy %+v logic %+v", task.Name, task.Needs, task.If, task.Policy, task.Logic)
	}
	return m
}

func (m *machine) fact(t TaskID) *fact {
	name := m.w.run.Graph.Name(t)
	if m.facts[name] == nil {
		m.facts[name] = &fact{}
	}
	return m.facts[name]
}

func (m *machine) step(ev Event) Verdict {
	before := m.w.run.Intent
	v, err := m.w.step(ev)
	m.Logf("%s of %d #%d intent %d mark %d timer %d result %d: %s", ev.Kind, ev.Task, ev.Token, ev.Intent, ev.Mark, ev.Timer, ev.Result.State, v)
	if err != nil {
		m.Fatalf("%v", err)
	}
	if v != Accepted {
		return v
	}
	m.note(ev, before)
	if m.w.run.Graph != nil && !m.again {
		defer m.noteLogical()
		if err := sameAsNaive(m.w.run, m.spec, []byte(`{"go":1}`), m.facts, m.stop); err != nil {
			m.Fatalf("after %s of %d: %v", ev.Kind, ev.Task, err)
		}
	}
	return v
}

// note records the facts that follow from an accepted event, in terms of the specification.
func (m *machine) note(ev Event, before Intent) {
	if of, ok := m.instanceOf(ev.Task); ok && before >= IntentStop {
		m.fact(of).late = true
	}
	switch {
	case ev.Kind == EvSubmit || ev.Kind == EvCheck || ev.Kind == EvSplit:
		return
	case ev.Kind == EvIntent && ev.Intent >= IntentStop && before < IntentStop:
		m.stop = RunStopped
		return
	case ev.Kind == EvTimer && ev.Timer == TimerRunTimeout:
		m.stop = RunFailed
		return
	case ev.Kind == EvRecover:
		m.again = true
		return
	case ev.Kind == EvIntent || ev.Task == LeaderTask:
		return
	case ev.Kind == EvArm || ev.Kind == EvSettle || ev.Timer == TimerDeferred:
		m.noteWaited(ev, before)
		return
	}
	if m.w.run.Generation > 1 { // a decision about tasks that had ended
		m.again = true
		return
	}
	f := m.fact(ev.Task)
	pol := m.w.run.Graph.Policy(ev.Task)
	state, _ := m.w.run.Task(ev.Task)
	switch {
	case ev.Kind == EvMark && ev.Mark == MarkStop && f.items != nil:
		m.noteStopAll(ev.Task)
	case ev.Kind == EvMark:
		m.noteMark(ev, f, state)
	case (ev.Kind == EvReport || ev.Kind == EvLost) && state == Stopped && before < IntentStop:
		*f = fact{halted: true}
	case ev.Kind == EvTimer && ev.Timer == TimerStart:
		*f = fact{failed: state == Failed}
	case ev.Kind == EvAssign:
		*f = fact{held: true}
	case ev.Kind == EvStarted:
		f.running = true
	case ev.Kind == EvReport && ev.Result.State == AttemptSucceeded:
		*f = fact{succeeded: true, out: ev.Result.Outputs}
	case ev.Kind == EvReport && ev.Result.State == AttemptStopped && before >= IntentStop:
		*f = fact{stopped: true}
	case ev.Kind == EvReport && ev.Result.State == AttemptFailed, ev.Kind == EvTimer && ev.Timer == TimerOverdue:
		*f = fact{waiting: pol.Retry.Max > 0 && state == RetryWait, failed: state != RetryWait}
	case ev.Kind == EvTimer && ev.Timer == TimerRetry:
		*f = fact{}
	case ev.Kind == EvLost || ev.Kind == EvReport:
		*f = fact{failed: state == Failed, waiting: state == RetryWait}
	}
}

// noteMark records a decision about a waiting task.
func (m *machine) noteMark(ev Event, f *fact, state TaskState) {
	switch ev.Mark {
	case MarkSucceeded:
		*f = fact{succeeded: true, out: ev.Outputs}
	case MarkFailed:
		*f = fact{failed: true}
	case MarkSkip:
		*f = fact{skipped: true}
	case MarkRetry:
		*f = fact{}
	case MarkStop:
		if state == Stopped { // or the holder of the task gets an order, and has not answered yet
			*f = fact{halted: true}
		}
	}
}

// act applies one random event.
func (m *machine) act() {
	r := m.w.run
	switch k := rapid.IntRange(0, 39).Draw(m.T, "act"); {
	case r.State == RunSubmitted && k < 30:
		ev := Event{Kind: EvSubmit, Graph: m.w.g, Own: m.w.own, Handler: 9}
		if rapid.IntRange(0, 4).Draw(m.T, "leader work") == 0 {
			ev.Graph = nil
		}
		m.step(ev)
	case r.State.Terminal() && k < 30:
		m.recover()
	case m.verbs && k < 5:
		m.verb()
	case k < 10:
		m.assign()
	case k < 20:
		m.report()
	case k < 24:
		m.logic()
	case k < 26:
		if task, ok := m.someHeld(); ok {
			h, token, _ := r.Holder(task)
			m.step(Event{Kind: EvStarted, Task: task, Token: token, Handler: h, At: m.w.now.Wall})
		}
	case k < 28:
		m.lose()
	case k < 29:
		m.logic()
	case k < 30 || k == 31:
		m.timer()
	case k == 30:
		m.verb()
	case k == 32:
		m.intent(rapid.SampledFrom([]Intent{IntentPause, IntentRun, IntentPause, IntentRun, IntentRun, IntentStop, IntentKill}).Draw(m.T, "intent"))
	case k == 33:
		m.intent(IntentRun)
	case k == 34:
		m.recover()
	case k == 35:
		m.step(Event{Kind: EvCheck, Task: LeaderTask})
	default:
		m.rubbish()
	}
}

func (m *machine) intent(to Intent) { m.step(Event{Kind: EvIntent, Intent: to, Task: LeaderTask}) }

// recover recovers the failed tasks, or any task with any scope.
func (m *machine) recover() {
	ev := Event{Kind: EvRecover, Task: LeaderTask}
	if n := len(m.w.run.tasks); n > 0 && rapid.Bool().Draw(m.T, "from") {
		ev.Task = TaskID(rapid.IntRange(0, n-1).Draw(m.T, "task"))
		ev.Scope = rapid.SampledFrom([]Scope{ScopeFrom, ScopeOnly, ScopeOnly | ScopeUpstream, ScopeOnly | ScopeDependents,
			ScopeOnly | ScopeUpstream | ScopeDependents}).Draw(m.T, "scope")
	}
	if v := m.step(ev); v == WrongState && m.w.run.Refusal(&ev) == "" {
		m.Fatalf("recover is refused without a reason: %s", fingerprint(m.w.run))
	}
}

// verb applies a random decision of an operator to any task.
func (m *machine) verb() {
	n := len(m.w.run.tasks)
	if n == 0 {
		return
	}
	ev := Event{Kind: EvMark, Task: TaskID(rapid.IntRange(0, n-1).Draw(m.T, "task")),
		Mark: rapid.SampledFrom([]Mark{MarkSucceeded, MarkFailed, MarkSkip, MarkRetry, MarkStop}).Draw(m.T, "mark")}
	if ev.Mark == MarkSucceeded && rapid.Bool().Draw(m.T, "outputs") {
		ev.Outputs = []byte("1")
	}
	if v := m.step(ev); v == WrongState && m.w.run.Refusal(&ev) == "" {
		m.Fatalf("%s is refused without a reason: %s", ev.Mark, fingerprint(m.w.run))
	}
}

// assign assigns any ready task to any handler. Usually it takes the next ready task, as the owner does.
func (m *machine) assign() {
	r := m.w.run
	if r.Ready() == 0 {
		return
	}
	h := HandlerID(rapid.IntRange(1, 3).Draw(m.T, "handler"))
	task := LeaderTask
	switch {
	case r.leader.state == Ready || rapid.IntRange(0, 3).Draw(m.T, "in order") > 0:
		task = r.NextReady()
	default:
		var ready []TaskID
		for t := range r.tasks {
			if r.tasks[t].state == Ready {
				ready = append(ready, TaskID(t))
			}
		}
		task = rapid.SampledFrom(ready).Draw(m.T, "ready")
	}
	if v := m.step(Event{Kind: EvAssign, Task: task, Handler: h}); v != Accepted {
		m.Fatalf("assign of ready task %d: %s", task, v)
	}
}

func (m *machine) someHeld() (TaskID, bool) {
	var held []TaskID
	m.w.run.Held(func(a *AttemptRow) { held = append(held, a.Task) })
	if len(held) == 0 {
		return 0, false
	}
	return rapid.SampledFrom(held).Draw(m.T, "held"), true
}

func (m *machine) report() {
	task, ok := m.someHeld()
	if !ok {
		return
	}
	h, token, _ := m.w.run.Holder(task)
	if task == LeaderTask {
		m.step(Event{Kind: EvSplit, Task: task, Token: token, Handler: h, Graph: m.w.g, Own: m.w.own})
		return
	}
	res := Result{State: AttemptSucceeded}
	switch rapid.IntRange(0, 9).Draw(m.T, "result") {
	case 0, 1:
		res.Outputs = []byte("1")
	case 2:
		res.Outputs = []byte("2")
	case 3, 4, 5:
		res = Result{State: AttemptFailed, Cause: CauseExit, Exited: true, ExitCode: 1}
	case 6:
		if m.w.run.Intent >= IntentStop || m.w.run.at(task).losses < lossesMax {
			res.State = AttemptStopped
		}
	}
	if v := m.step(Event{Kind: EvReport, Task: task, Token: token, Handler: h, Result: res}); v != Accepted {
		m.Fatalf("report of its holder: %s", v)
	}
}

func (m *machine) lose() {
	if task, ok := m.someHeld(); ok {
		h, token, _ := m.w.run.Holder(task)
		m.step(Event{Kind: EvLost, Task: task, Token: token, Handler: h})
	}
}

// timer fires any requested timer at any time. It moves the clock forward, and never compares it.
func (m *machine) timer() {
	m.w.now.Wall += 1_000_000
	m.w.now.Mono += time.Second
	if len(m.w.timers) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.w.timers)-1).Draw(m.T, "timer")
	tm := m.w.timers[i]
	if tm.Kind == TimerRunTimeout && rapid.IntRange(0, 9).Draw(m.T, "ends") > 0 {
		return // otherwise hardly any run would survive
	}
	m.w.timers = append(m.w.timers[:i], m.w.timers[i+1:]...)
	m.step(Event{Kind: EvTimer, Timer: tm.Kind, Task: tm.Task, Token: tm.Token})
}

// rubbish sends reports of a stale, mistaken or hostile sender. They must change nothing.
func (m *machine) rubbish() {
	r := m.w.run
	before := fingerprint(r)
	ev := Event{
		Kind:    rapid.SampledFrom([]EventKind{EvReport, EvStarted, EvLost, EvSplit, EvTimer, EvAssign, EvIntent, EvArm, EvSettle, 0, 77}).Draw(m.T, "kind"),
		Task:    TaskID(rapid.IntRange(-3, len(r.tasks)+1).Draw(m.T, "task")),
		Token:   Token(rapid.IntRange(-1, 5).Draw(m.T, "token")),
		Handler: HandlerID(rapid.IntRange(100, 101).Draw(m.T, "stranger")),
		Timer:   TimerKind(rapid.SampledFrom([]int{0, 1, 2, 3, 4, 6, 9}).Draw(m.T, "timer kind")),
		Result:  Result{State: AttemptState(rapid.IntRange(0, 9).Draw(m.T, "state"))},
		Graph:   m.w.g,
		Intent:  Intent(rapid.IntRange(4, 9).Draw(m.T, "intent")),
		Of:      Kind(rapid.IntRange(0, 8).Draw(m.T, "of")),
	}
	if ev.Kind == EvTimer && (r.has(ev.Task) && r.at(ev.Task).token == ev.Token || ev.Timer == TimerRunTimeout && Token(r.Generation) == ev.Token) {
		return // this report may be right
	}
	if ev.Kind == EvAssign && r.has(ev.Task) && r.at(ev.Task).state == Ready {
		return // this report would be valid
	}
	if (ev.Kind == EvArm || ev.Kind == EvSettle) && r.Attempt(ev.Task) != nil && r.Graph.Kind(ev.Task) == ev.Of && (ev.Token == 0 || ev.Token == r.at(ev.Task).token) {
		return // this report would be valid, too
	}
	if v := m.step(ev); v == Accepted || fingerprint(r) != before {
		m.Fatalf("%+v was %s", ev, v)
	}
}

// commit flushes the changes with all checks, and sometimes crashes.
func (m *machine) commit() {
	if err := m.w.flush(); err != nil {
		m.Fatalf("%v", err)
	}
	if rapid.IntRange(0, 5).Draw(m.T, "crash") > 0 {
		return
	}
	if err := m.w.crash(); err != nil {
		m.Fatalf("%v", err)
	}
	for t := range m.w.run.tasks { // a due retry waits for its timer again
		if m.w.run.tasks[t].state == RetryWait {
			m.fact(TaskID(t)).waiting = true
		}
	}
}

// TestSafetyThenLiveness applies random events. After each event, the counts are right, tokens rise, ends do
// not change, no task runs before its needs allow, and the naive implementation gives the same states. After
// each commit of 1…n events, the rows equal memory, whatever the state of the run is. Afterwards all tasks
// are assigned, all attempts are reported and all timers fire, and the run must end.
func TestSafetyThenLiveness(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t)
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			m.act()
			if rapid.IntRange(0, 2).Draw(t, "flush") == 0 {
				m.commit()
			}
		}
		m.commit()
		m.finish()
		m.commit()
	})
}

// finish plays a fair world, in which everything continues that can continue.
func (m *machine) finish() {
	r := m.w.run
	if r.State == RunSubmitted {
		m.step(Event{Kind: EvSubmit, Graph: m.w.g, Own: m.w.own})
	}
	m.intent(IntentRun)
	for turn := 0; !r.State.Terminal(); turn++ {
		if turn > 20*(r.Graph.lenOr1()) {
			m.Fatalf("the run does not end: %s", fingerprint(r))
		}
		for r.Ready() > 0 {
			m.step(Event{Kind: EvAssign, Task: r.NextReady(), Handler: 1})
		}
		var held []Event
		r.Held(func(a *AttemptRow) {
			ev := Event{Kind: EvReport, Task: a.Task, Token: a.Token, Handler: a.Handler, Result: Result{State: AttemptSucceeded}}
			if turn%3 == 1 {
				ev.Result.State = AttemptFailed
			}
			if a.Task == LeaderTask {
				ev.Kind, ev.Graph, ev.Own = EvSplit, m.w.g, m.w.own
			}
			held = append(held, ev)
		})
		for _, ev := range held {
			m.step(ev)
		}
		m.answer()
		m.finishLogical(turn%3 == 1)
		timers := m.w.timers
		m.w.timers = nil
		for _, tm := range timers {
			if tm.Kind == TimerRetry || tm.Kind == TimerDeferred {
				m.step(Event{Kind: EvTimer, Timer: tm.Kind, Task: tm.Task, Token: tm.Token})
			}
		}
	}
}

// answer plays an operator who decides about every lost task.
func (m *machine) answer() {
	for t := range m.w.run.tasks {
		if m.w.run.tasks[t].state == RetryWait && m.w.run.tasks[t].revoked {
			m.step(Event{Kind: EvMark, Task: TaskID(t), Mark: rapid.SampledFrom([]Mark{MarkRetry, MarkSkip, MarkFailed}).Draw(m.T, "answer")})
		}
	}
}

func (g *Graph) lenOr1() int {
	if g == nil {
		return 1
	}
	return g.Len()
}
