package sim

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/memory"
)

// The exhaustive check plays every history of one small run within bounds. It uses the real Step and the real
// store contract. There are two workers with one slot each, and one owner at a time. These events are
// possible: a worker reports to the owner, and the commit then succeeds or fails, or the owner dies before or
// after it. The successor of a dead owner takes the shard and loads it, and only then the dead owner's last
// transaction is tried. A worker dies, and its report may still arrive late.

// action is one event. Actions are tried in this order.
type action struct {
	kind   actionKind
	worker int
}

type actionKind uint8

const (
	report    actionKind = iota // the worker's attempt ends, and the report is committed
	failed                      // the owner's commit fails, and the owner loads its rows again
	unknown                     // the owner's commit succeeds, but the owner does not learn this
	dieBefore                   // the owner dies before the commit
	dieAfter                    // the commit succeeds, and the owner dies before any answer
	perish                      // the worker dies, and its attempt with it
	haunted                     // the report of a dead worker arrives
)

var actionNames = [...]string{"reports", "reports, the commit fails", "reports, the reply is lost", "reports, the owner dies before the commit",
	"reports, the owner dies after the commit", "dies", "haunts"}

func (a action) String() string { return fmt.Sprintf("worker %d %s", a.worker, actionNames[a.kind]) }

// bounds limits an exploration.
type bounds struct {
	plan   *plan
	fails  map[dag.TaskID]bool // tasks whose attempts fail
	faults int                 // number of faults of all kinds in one history
	// wrong and anyToken are bugs that the exploration must find. wrong is a graph that runs instead of the
	// right one. With anyToken, a report is applied to the newest attempt, whatever its token.
	wrong    *plan
	anyToken bool
}

// explored is the result of an exploration.
type explored struct {
	states, steps, ends int
	found               []string // violations, each with its history
	outcomes            map[string]bool
}

const holders = 2

// scene is the state of one history.
type scene struct {
	b       *bounds
	st      *memory.Store
	fence   store.Fence
	run     *dag.Run
	holder  [holders]dag.HandlerID
	runs    [holders]*dag.AttemptRow // the attempt of each worker
	ghosts  []dag.AttemptRow         // the attempts of dead workers
	faults  int
	next    dag.HandlerID
	clock   dag.Micros
	shadow  shadow
	said    map[attemptKey]dag.AttemptState
	timers  []dag.Timer
	refuse  bool // the next commit fails
	trouble []string
}

var sceneRun = dag.RunID{0xe}

func (s *scene) now() dag.Now {
	s.clock += 10
	return dag.Now{Wall: s.clock}
}

// graph returns the graph that runs.
func (b *bounds) graph() *dag.Graph {
	if b.wrong != nil {
		return b.wrong.g
	}
	return b.plan.g
}

func newScene(b *bounds) *scene {
	s := &scene{b: b, next: 1, clock: 1000, said: map[attemptKey]dag.AttemptState{}}
	s.st = memory.New(memory.Options{Clock: func() dag.Micros { return s.clock }, Fault: func(op memory.Op) memory.Outcome {
		if op.Kind == memory.CommitBefore && s.refuse {
			return memory.FailBefore
		}
		return memory.OK
	}})
	s.shadow = shadow{name: "run", plan: b.plan, row: dag.RunRow{Header: dag.Header{ID: sceneRun}}}
	for i := range s.holder {
		s.holder[i] = s.register()
	}
	s.take()
	s.run = dag.NewRun(dag.Header{ID: sceneRun, Workflow: 1, Version: 1, Created: 1000})
	s.step(dag.Event{Kind: dag.EvSubmit, Graph: b.graph(), Handler: s.holder[0]})
	s.commit()
	return s
}

func (s *scene) register() dag.HandlerID {
	s.next++
	return s.next
}

func (s *scene) take() {
	got, err := s.st.Acquire(context.Background(), s.register(), []dag.ShardID{0})
	must(err)
	s.fence = got[0].Fence
}

func (s *scene) fail(format string, args ...any) {
	s.trouble = append(s.trouble, fmt.Sprintf(format, args...))
}

func (s *scene) step(ev dag.Event) dag.Verdict {
	var fx dag.Effects
	v := s.run.Step(&ev, s.now(), &fx)
	s.timers = append(s.timers, fx.Timers...)
	return v
}

// fill assigns ready tasks to free workers and makes the transaction. Pauses end at once.
func (s *scene) fill() *store.Batch {
	for len(s.timers) > 0 {
		t := s.timers[0]
		if s.timers = s.timers[1:]; t.Kind != dag.TimerRetry {
			continue
		}
		s.step(dag.Event{Kind: dag.EvTimer, Timer: t.Kind, Task: t.Task, Token: t.Token})
	}
	for i := range s.runs {
		if s.runs[i] == nil && s.run.Ready() > 0 {
			t := s.run.NextReady()
			if v := s.step(dag.Event{Kind: dag.EvAssign, Task: t, Handler: s.holder[i]}); v != dag.Accepted {
				s.fail("a ready task refuses its slot: %s", v)
			}
			_, token := s.run.Task(t)
			s.runs[i] = &dag.AttemptRow{Run: sceneRun, Task: t, Token: token, Handler: s.holder[i]}
		}
	}
	b := &store.Batch{Fences: []store.Fence{s.fence}}
	s.run.Flush(&b.Changes, s.clock)
	return b
}

// commit writes the results of the steps and checks them. It returns false if the commit failed.
func (s *scene) commit() bool {
	b := s.fill()
	if b.Rows() == 0 {
		return true
	}
	if !s.write(b) {
		return false
	}
	rec := s.judge()
	if rec == nil || rec.Run.State.Terminal() {
		return true
	}
	var fx dag.Effects
	loaded, err := dag.Load(&rec.Run, s.b.graph(), rec.Attempts, dag.Now{Wall: s.clock}, &fx)
	if err != nil {
		s.fail("load: %v", err)
	} else if d := dag.Diff(s.run, loaded); d != "" {
		s.fail("memory: %s", d)
	}
	return true
}

func (s *scene) write(b *store.Batch) bool {
	_, err := s.st.Commit(context.Background(), b)
	if err == nil {
		s.fence.Seq++
	} else if !errors.Is(err, store.ErrUnavailable) {
		s.fail("commit: %v", err)
	}
	return err == nil
}

// judge checks the change from the earlier rows to the stored ones.
func (s *scene) judge() *store.RunRecord {
	recs, err := s.st.Load(context.Background(), store.LoadQuery{IDs: []dag.RunID{sceneRun}})
	must(err)
	if len(recs) == 0 {
		if len(s.shadow.attempts) > 0 {
			s.fail("the run is gone")
		}
		return nil
	}
	for _, f := range judgeRun(&s.shadow, &recs[0], s.said) {
		s.fail("%s: %s", f.rule, f.what)
	}
	s.shadow.row, s.shadow.attempts = recs[0].Run, recs[0].Attempts
	return &recs[0]
}

// load continues as an owner that has taken the shard. Attempts of dead workers are lost. Attempts that no
// worker has are assigned again with the same token.
func (s *scene) load() {
	s.refuse = false
	s.take()
	rec := s.judge()
	s.runs = [holders]*dag.AttemptRow{}
	if rec == nil || rec.Run.State.Terminal() {
		s.run = nil
		return
	}
	var fx dag.Effects
	run, err := dag.Load(&rec.Run, s.b.graph(), rec.Attempts, s.now(), &fx)
	if err != nil {
		s.fail("load: %v", err)
		s.run = nil
		return
	}
	s.run, s.timers = run, fx.Timers
	for i := range rec.Attempts {
		a := &rec.Attempts[i]
		if a.State.Ended() {
			continue
		}
		if w := slices.Index(s.holder[:], a.Handler); w >= 0 {
			s.runs[w] = a
		} else {
			s.step(dag.Event{Kind: dag.EvLost, Task: a.Task, Token: a.Token, Handler: a.Handler, Reason: "gone"})
		}
	}
	s.commit()
}

// enabled returns the actions that are possible now.
func (s *scene) enabled() []action {
	var all []action
	if s.run == nil || s.run.State.Terminal() {
		return nil
	}
	for w := range s.runs {
		if s.runs[w] == nil {
			continue
		}
		all = append(all, action{report, w})
		if s.faults < s.b.faults {
			for _, k := range []actionKind{failed, unknown, dieBefore, dieAfter, perish} {
				all = append(all, action{k, w})
			}
		}
	}
	if len(s.ghosts) > 0 {
		all = append(all, action{haunted, 0})
	}
	return all
}

func (s *scene) play(a action) {
	if a.kind != report && a.kind != haunted {
		s.faults++
	}
	switch a.kind {
	case perish:
		if had := s.runs[a.worker]; had != nil {
			s.ghosts = append(s.ghosts, *had)
			s.holder[a.worker], s.runs[a.worker] = s.register(), nil
			s.step(dag.Event{Kind: dag.EvLost, Task: had.Task, Token: had.Token, Handler: had.Handler, Reason: "gone"})
			s.commit()
		}
		return
	case haunted:
		had := s.ghosts[0]
		s.ghosts = s.ghosts[1:]
		if v := s.report(&had); v != dag.Stale && v != dag.Duplicate {
			s.fail("a dead worker's report is %s", v)
		}
		s.commit()
		return
	}
	had := *s.runs[a.worker]
	if v := s.report(&had); v != dag.Accepted {
		s.fail("a report of the holder is %s", v)
	}
	s.runs[a.worker] = nil
	s.ended(a.kind, &had)
}

// ended completes the transaction with a report. The transaction succeeds, fails, or its owner dies. The
// worker keeps the report until an owner has accepted it, so the report may come again.
func (s *scene) ended(k actionKind, had *dag.AttemptRow) {
	switch k {
	case report:
		s.commit()
		return
	case failed:
		s.refuse = true
		s.commit()
	case unknown, dieAfter:
		s.commit()
	case dieBefore:
		pending := s.fill()
		s.load()
		// The transaction of the dead owner arrives only now. The store must refuse it.
		if _, err := s.st.Commit(context.Background(), pending); !errors.Is(err, store.ErrFenced) {
			s.fail("a stale owner's commit: %v", err)
		}
		s.judge()
		return
	}
	s.load()
	if k != failed && s.run != nil { // the worker got no answer, so it repeats the report
		if v := s.report(had); v != dag.Duplicate {
			s.fail("a report said twice is %s", v)
		}
		s.commit()
	}
}

func (s *scene) report(a *dag.AttemptRow) dag.Verdict {
	res := dag.Result{State: dag.AttemptSucceeded, Exited: true}
	if s.b.fails[a.Task] {
		res = dag.Result{State: dag.AttemptFailed, Cause: dag.CauseExit, Exited: true, ExitCode: 1}
	}
	if s.b.anyToken {
		h, token, held := s.run.Holder(a.Task)
		if held {
			return s.step(dag.Event{Kind: dag.EvReport, Task: a.Task, Token: token, Handler: h, Result: res})
		}
	}
	s.said[attemptKey{a.Run, a.Task, a.Token}] = res.State
	return s.step(dag.Event{Kind: dag.EvReport, Task: a.Task, Token: a.Token, Handler: a.Handler, Result: res})
}

var sceneSeed = maphash.MakeSeed()

// hash identifies a scene by its rows without times, and by the dead processes. The two workers are
// interchangeable, and the numbers of their handlers do not matter.
func (s *scene) hash() uint64 {
	var h maphash.Hash
	h.SetSeed(sceneSeed)
	r := &s.shadow.row
	fmt.Fprint(&h, r.State, r.Intent, r.Cause, s.faults, len(s.ghosts))
	for i := range s.shadow.attempts {
		a := &s.shadow.attempts[i]
		fmt.Fprint(&h, a.Task, a.Token, a.State, a.Cause, slices.Contains(s.holder[:], a.Handler), ";")
	}
	for i := range s.ghosts {
		fmt.Fprint(&h, s.ghosts[i].Task, s.ghosts[i].Token, ",")
	}
	return h.Sum64()
}

// explore plays every history within its bounds. For each step it plays the scene from the beginning,
// because the real code cannot be copied in the middle of a history.
func explore(b *bounds) *explored {
	e := &explored{outcomes: map[string]bool{}}
	seen := map[uint64]bool{}
	type node struct{ way []action }
	todo := []node{{}}
	for len(todo) > 0 && len(e.found) == 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		s := newScene(b)
		for _, a := range n.way {
			s.play(a)
		}
		e.steps++
		if len(s.trouble) > 0 {
			e.found = append(e.found, fmt.Sprintf("%v after %v", s.trouble, n.way))
			continue
		}
		h := s.hash()
		if seen[h] {
			continue
		}
		seen[h] = true
		e.states++
		next := s.enabled()
		if len(next) == 0 {
			e.end(s, n.way)
		}
		for _, a := range next {
			todo = append(todo, node{append(slices.Clone(n.way), a)})
		}
	}
	return e
}

// end checks a history in which no further action is possible.
func (e *explored) end(s *scene, way []action) {
	e.ends++
	r := &s.shadow.row
	if !r.State.Terminal() {
		e.found = append(e.found, fmt.Sprintf("the run is %s and nothing moves it, after %v", r.State, way))
		return
	}
	e.outcomes[fmt.Sprint(r.State, s.b.plan.naive(s.shadow.attempts))] = true
}
