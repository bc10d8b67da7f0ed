package storetest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// reloads plays real runs on the store, in the loop of an owner: events, Step, Flush, one transaction.
// Afterwards, a fresh load must equal the owner's memory.
func reloads() []check {
	return []check{
		{"random histories equal their rows", func(b *bed) { histories(b, nil) }},
		{"random histories survive unknown commits", func(b *bed) {
			histories(b, []Fault{NoFault, NoFault, Lost, Written, Unavailable})
		}},
		{"a chain, a fan and a failure", plainHistories},
	}
}

// driven is a run in the owner's memory, with the data that restores the run after a lost commit.
type driven struct {
	header dag.Header
	graph  *dag.Graph
	leader bool // Leader work splits the run
	run    *dag.Run
	inbox  []heard // events since the last commit
	fired  []heard // fired retry timers; no row stores them, so a reload must repeat them
}

type heard struct {
	event dag.Event
	now   dag.Now
}

// loop is an owner of several runs.
type loop struct {
	b    *bed
	t    fataler
	now  dag.Now
	runs []*driven
}

// fataler has the common methods of rapid.T and testing.T.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

func (l *loop) start(graph *dag.Graph, leader bool) *driven {
	l.b.count++
	d := &driven{graph: graph, leader: leader, header: dag.Header{
		ID: runID(l.b.count), Workflow: 1, Version: 1, Origin: dag.OriginManual, User: "ada",
		Params: []byte(`{"n":1}`), Created: l.now.Wall,
	}}
	d.run = dag.NewRun(d.header)
	l.runs = append(l.runs, d)
	return d
}

// hear steps a run with an event. The clock advances by one second for each event.
func (l *loop) hear(d *driven, ev dag.Event) dag.Verdict {
	l.now.Wall += 1_000_000
	l.now.Mono += time.Second
	d.inbox = append(d.inbox, heard{ev, l.now})
	var fx dag.Effects
	return d.run.Step(&ev, l.now, &fx)
}

// batch collects the changes of all runs.
func (l *loop) batch() *store.Batch {
	x := l.b.batch()
	for _, d := range l.runs {
		if d.run.Pending() > 0 {
			d.run.Flush(&x.Changes, l.now.Wall)
		}
	}
	return x
}

// commit writes one transaction, and compares every run with a fresh load.
func (l *loop) commit(fault Fault) {
	l.t.Helper()
	held := slices.Clone(l.b.fences)
	x := l.batch()
	l.b.next(fault)
	err := l.b.commit(x)
	switch {
	case errors.Is(err, store.ErrUnknown), errors.Is(err, store.ErrUnavailable):
		if l.b.take()[0].Seq == held[0].Seq {
			l.again()
		}
	case err != nil:
		l.t.Fatalf("commit: %v", err)
	}
	for _, d := range l.runs {
		for _, h := range d.inbox {
			if h.event.Kind == dag.EvTimer && h.event.Timer == dag.TimerRetry {
				d.fired = append(d.fired, h)
			}
		}
		d.inbox = d.inbox[:0]
		if loaded := l.load(d); loaded == nil {
			l.t.Fatalf("run %s is not in the store", d.header.ID)
		} else if diff := dag.Diff(d.run, loaded); diff != "" {
			l.t.Fatalf("memory is not what a load gives: %s", diff)
		}
	}
}

// again reacts to a lost commit like an owner: it forgets the runs, loads them, and applies the kept events.
// The result must equal the memory before.
func (l *loop) again() {
	l.t.Helper()
	for _, d := range l.runs {
		was := d.run
		if d.run = l.load(d); d.run == nil {
			d.run = dag.NewRun(d.header)
		}
		var fx dag.Effects
		for _, h := range slices.Concat(d.fired, d.inbox) {
			d.run.Step(&h.event, h.now, &fx)
		}
		if diff := dag.Diff(was, d.run); diff != "" {
			l.t.Fatalf("the inbox applied again leads elsewhere: %s", diff)
		}
	}
	if err := l.b.commit(l.batch()); err != nil {
		l.t.Fatalf("commit once more: %v", err)
	}
}

func (l *loop) load(d *driven) *dag.Run {
	l.t.Helper()
	records, err := l.b.s.Load(l.b.ctx, store.LoadQuery{IDs: []dag.RunID{d.header.ID}})
	if err != nil || len(records) > 1 {
		l.t.Fatalf("load: %d records, %v", len(records), err)
	}
	if len(records) == 0 {
		return nil
	}
	if string(records[0].Run.Params) != string(d.header.Params) {
		l.t.Fatalf("the parameters became %q", records[0].Run.Params)
	}
	var fx dag.Effects
	run, err := dag.Load(&records[0].Run, d.graph, records[0].Attempts, l.now, &fx)
	if err != nil {
		l.t.Fatalf("load: %v", err)
	}
	return run
}

// histories plays random histories on one store. Each history has several runs at a time.
func histories(b *bed, faults []Fault) {
	rapid.Check(b.T, func(t *rapid.T) {
		l := &loop{b: b, t: t, now: dag.Now{Wall: epoch * 1000, Mono: time.Hour}}
		for range rapid.IntRange(1, 3).Draw(t, "runs") {
			l.start(randomGraph(t), rapid.Bool().Draw(t, "leader"))
		}
		for range rapid.IntRange(1, 8).Draw(t, "commits") {
			for range rapid.IntRange(0, 8).Draw(t, "events") {
				l.random(t, l.runs[rapid.IntRange(0, len(l.runs)-1).Draw(t, "run")])
			}
			fault := NoFault
			if len(faults) > 0 {
				fault = rapid.SampledFrom(faults).Draw(t, "fault")
			}
			l.commit(fault)
		}
		l.pagesMatch()
	})
}

// pagesMatch compares the pages of the shard's unfinished runs with the memory.
func (l *loop) pagesMatch() {
	l.t.Helper()
	unfinished := map[dag.RunID]bool{}
	for after := (dag.RunID{}); ; {
		page, err := l.b.s.Load(l.b.ctx, store.LoadQuery{After: after, Limit: 100})
		if err != nil {
			l.t.Fatalf("load: %v", err)
		}
		if len(page) == 0 {
			break
		}
		for _, rec := range page {
			after = rec.Run.ID
			unfinished[after] = true
		}
	}
	for _, d := range l.runs {
		if d.run.Unfinished() != unfinished[d.header.ID] {
			l.t.Fatalf("run %s is %s, in the shard's pages: %v", d.header.ID, d.run.State, unfinished[d.header.ID])
		}
	}
}

// random draws an event for a run. The run may refuse the event.
func (l *loop) random(t *rapid.T, d *driven) {
	if d.run.State == dag.RunSubmitted {
		ev := dag.Event{Kind: dag.EvSubmit, Handler: l.b.owner}
		if !d.leader {
			ev.Graph = d.graph
		}
		l.hear(d, ev)
		return
	}
	if d.run.Graph == nil && !d.run.State.Terminal() {
		l.randomLeader(t, d)
		return
	}
	task := dag.TaskID(rapid.IntRange(0, d.graph.Len()-1).Draw(t, "task"))
	switch n := rapid.IntRange(0, 99).Draw(t, "event"); {
	case n < 80 && d.run.Graph != nil:
		l.randomTask(t, d, task)
	case n < 88:
		intent := rapid.SampledFrom([]dag.Intent{dag.IntentRun, dag.IntentPause, dag.IntentPause, dag.IntentStop, dag.IntentKill})
		l.hear(d, dag.Event{Kind: dag.EvIntent, Intent: intent.Draw(t, "intent"), Actor: "ada", Reason: "because"})
	case n < 90:
		l.hear(d, dag.Event{Kind: dag.EvCheck})
	case n < 94 && d.run.State.Terminal():
		l.hear(d, dag.Event{Kind: dag.EvRecover, Actor: "ada", Reason: "again"})
	default: // the holder of an older attempt
		l.hear(d, dag.Event{Kind: dag.EvReport, Task: task, Token: 99, Handler: l.b.owner, Result: dag.Result{State: dag.AttemptSucceeded}})
	}
}

// randomLeader draws the next event of the Leader work.
func (l *loop) randomLeader(t *rapid.T, d *driven) {
	h, token, held := d.run.Holder(dag.LeaderTask)
	ev := dag.Event{Kind: dag.EvAssign, Task: dag.LeaderTask, Token: token, Handler: l.b.owner}
	if held {
		ev.Handler = h
		switch n := rapid.IntRange(0, 9).Draw(t, "split"); {
		case n < 7:
			ev.Kind, ev.Graph = dag.EvSplit, d.graph
		case n < 8:
			ev.Kind, ev.Err = dag.EvSplit, "there is a cycle: a → b → a"
		default:
			ev.Kind, ev.Reason = dag.EvLost, "gone"
		}
	}
	l.hear(d, ev)
}

// randomTask draws the next event of one task.
func (l *loop) randomTask(t *rapid.T, d *driven, task dag.TaskID) {
	state, token := d.run.Task(task)
	ev := dag.Event{Task: task, Token: token, Handler: l.b.owner, At: l.now.Wall}
	switch {
	case state == dag.RetryWait:
		ev.Kind, ev.Timer = dag.EvTimer, dag.TimerRetry
	case !state.Held():
		ev.Kind = dag.EvAssign
	default:
		switch n := rapid.IntRange(0, 9).Draw(t, "word"); {
		case n < 2:
			ev.Kind = dag.EvStarted
		case n < 3:
			ev.Kind, ev.Reason = dag.EvLost, "gone"
		case n < 4:
			ev.Kind, ev.Timer = dag.EvTimer, dag.TimerOverdue
		default:
			ev.Kind = dag.EvReport
			ev.Result = randomResult(t, l.now.Wall)
		}
	}
	l.hear(d, ev)
}

func randomResult(t *rapid.T, now dag.Micros) dag.Result {
	r := rapid.SampledFrom([]dag.Result{
		{State: dag.AttemptSucceeded, Exited: true, Outputs: []byte(`{"go":true}`)},
		{State: dag.AttemptSucceeded, Exited: true, Outputs: []byte(`{"go":false}`)},
		{State: dag.AttemptSucceeded, Exited: true},
		{State: dag.AttemptFailed, Cause: dag.CauseExit, Exited: true, ExitCode: 2, Message: "exit 2"},
		{State: dag.AttemptFailed, Cause: dag.CauseTimeout, Signal: "SIGKILL", Message: "ran past its timeout", TimedOut: true},
		{State: dag.AttemptStopped, Cause: dag.CauseStopped, Signal: "SIGTERM"},
	}).Draw(t, "result")
	r.Started, r.Finished = now-500, now
	return r
}

// when is a condition whose value depends only on its text.
type when struct{ text, reads string }

func (w when) Source() string { return w.text + w.reads }
func (w when) Handles() bool  { return w.text == "always" || w.text == "failure" }

func (w when) Reads() dag.Reads {
	if w.reads == "" {
		return dag.Reads{}
	}
	return dag.Reads{Tasks: []string{w.reads}}
}

func (w when) Holds(v dag.View) (bool, error) {
	switch w.text {
	case "always":
		return true, nil
	case "failure":
		return v.Failure, nil
	case "broken":
		return false, errors.New("no such output")
	}
	_, outputs := v.Task(w.reads)
	return string(outputs) == `{"go":true}`, nil
}

// randomGraph draws a graph of up to seven tasks with conditions and retries.
func randomGraph(t *rapid.T) *dag.Graph {
	spec := dag.GraphSpec{EndOnFailure: rapid.IntRange(0, 4).Draw(t, "end on failure") == 0}
	for n := range rapid.IntRange(1, 7).Draw(t, "tasks") {
		task := dag.TaskSpec{Name: taskName(n)}
		for need := range n {
			if rapid.IntRange(0, 2).Draw(t, "need") == 0 {
				task.Needs = append(task.Needs, taskName(need))
			}
		}
		if rapid.Bool().Draw(t, "retries") {
			task.Policy.Retry = dag.Retry{Max: 2, Delay: 3 * time.Second, Backoff: 1.7, Jitter: 0.3}
		}
		if len(task.Needs) > 0 {
			task.If = rapid.SampledFrom([]dag.Condition{nil, nil, nil, when{"always", ""}, when{"failure", ""},
				when{"broken", ""}, when{"outputs of ", task.Needs[0]}, when{"outputs of ", task.Needs[len(task.Needs)-1]}}).Draw(t, "if")
		}
		spec.Tasks = append(spec.Tasks, task)
	}
	g, err := dag.NewGraph(spec)
	if err != nil {
		t.Fatalf("graph: %v", err)
	}
	return g
}

func taskName(n int) string { return fmt.Sprintf("t%d", n) }

// plainHistories plays three runs to their end, with a commit after every event.
func plainHistories(b *bed) {
	l := &loop{b: b, t: b.T, now: dag.Now{Wall: epoch * 1000, Mono: time.Hour}}
	for _, needs := range [][][]int{{{}, {0}, {1}, {2}}, {{}, {0}, {0}, {0}, {1, 2, 3}}, {{}, {0}, {0}, {1, 2}}} {
		var spec dag.GraphSpec
		for n, of := range needs {
			task := dag.TaskSpec{Name: taskName(n)}
			for _, need := range of {
				task.Needs = append(task.Needs, taskName(need))
			}
			spec.Tasks = append(spec.Tasks, task)
		}
		g, err := dag.NewGraph(spec)
		b.ok(err)
		d := l.start(g, false)
		l.commit(NoFault) // writes the row of the new run
		l.hear(d, dag.Event{Kind: dag.EvSubmit, Graph: g, Handler: b.owner})
		l.commit(NoFault)
	}
	for n, d := range l.runs {
		for task := range dag.TaskID(d.graph.Len()) {
			if state, _ := d.run.Task(task); state != dag.Ready {
				continue
			}
			l.hear(d, dag.Event{Kind: dag.EvAssign, Task: task, Handler: b.owner})
			l.commit(NoFault)
			_, token := d.run.Task(task)
			result := dag.Result{State: dag.AttemptSucceeded, Outputs: []byte(`{}`)}
			if n == 2 && task == 1 {
				result = dag.Result{State: dag.AttemptFailed, Cause: dag.CauseExit, Exited: true, ExitCode: 1}
			}
			l.hear(d, dag.Event{Kind: dag.EvReport, Task: task, Token: token, Handler: b.owner, Result: result})
			l.commit(NoFault)
		}
	}
	ends := []dag.RunState{dag.RunSucceeded, dag.RunSucceeded, dag.RunFailed}
	for n, d := range l.runs {
		row, err := b.s.Run(b.ctx, d.header.ID)
		b.ok(err)
		b.same(row.State, ends[n], "the end")
		counts, err := dag.CountStates(row.Final)
		b.ok(err)
		if n == 2 {
			b.same(counts, map[dag.TaskState]int{dag.Succeeded: 2, dag.Failed: 1, dag.UpstreamFailed: 1}, "final states")
		}
	}
}
