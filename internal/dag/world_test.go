package dag

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	_ "pgregory.net/rapid" // its flags
)

var rewrite = flag.Bool("rewrite", false, "write the transcripts in testdata anew")

// TestMain gives the property tests more cases than rapid's default, unless the flag rapid.checks is set.
func TestMain(m *testing.M) {
	flag.Parse()
	told := false
	flag.Visit(func(f *flag.Flag) { told = told || f.Name == "rapid.checks" })
	if !told {
		must(flag.Set("rapid.checks", "300"))
	}
	must(flag.Set("rapid.nofailfile", "true")) // the seed is printed, so no file is written into the source tree
	os.Exit(m.Run())
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// testCond is the small condition language of these tests.
//
//	success() failure() always() never() error()   params(JSON)
//	clean()   success(), but decided like failure() when every need has ended
//	status(TASK)=STATE   out(TASK)=JSON
type testCond struct{ src, name, arg, want string }

func cond(src string) Condition {
	c := &testCond{src: src}
	c.name, c.want, _ = strings.Cut(src, "=")
	c.name, c.arg, _ = strings.Cut(strings.TrimSuffix(c.name, ")"), "(")
	return c
}

func compileCond(src string) (Condition, error) {
	if strings.HasPrefix(src, "bad") {
		return nil, errors.New("bad condition")
	}
	return cond(src), nil
}

func (c *testCond) Source() string { return c.src }

func (c *testCond) Handles() bool {
	return c.name == "failure" || c.name == "always" || c.name == "status" || c.name == "never" || c.name == "clean"
}

func (c *testCond) Reads() Reads {
	rd := Reads{Params: c.name == "params"}
	if c.name == "status" || c.name == "out" {
		rd.Tasks = []string{c.arg}
	}
	return rd
}

func (c *testCond) Holds(v View) (bool, error) {
	switch c.name {
	case "success", "clean":
		return v.Success, nil
	case "failure":
		return v.Failure, nil
	case "always":
		return true, nil
	case "params":
		return string(v.Params) == c.arg, nil
	case "status":
		state, _ := c.read(v)
		return state.String() == c.want, nil
	case "out":
		_, out := c.read(v)
		return string(out) == c.want, nil
	case "error":
		return false, errors.New("no such key: rows")
	}
	return false, nil
}

func (c *testCond) read(v View) (TaskState, []byte) {
	state, out := v.Task(c.arg)
	if !state.Terminal() {
		panic(fmt.Sprintf("condition %s reads task %s, which is %s", c.src, c.arg, state))
	}
	return state, out
}

// rowStore applies changes as a store does, including the guards.
type rowStore struct {
	run      *RunRow
	attempts map[attemptKey]AttemptRow
	events   []EventRow
}

type attemptKey struct {
	task  TaskID
	token Token
}

func (s *rowStore) apply(c *Changes) error {
	for _, row := range c.RunInserts {
		if s.run != nil {
			return fmt.Errorf("run inserted twice")
		}
		s.run = &row
	}
	for _, u := range c.RunUpdates {
		if s.run == nil || s.run.State != u.Was {
			return fmt.Errorf("run update expects %s, the row is %+v", u.Was, s.run)
		}
		head := s.run.Header // the header is written only once
		row := u.RunRow
		row.Header = head
		s.run = &row
	}
	for _, a := range c.AttemptInserts {
		k := attemptKey{a.Task, a.Token}
		if _, dup := s.attempts[k]; dup {
			return fmt.Errorf("attempt %+v inserted twice", k)
		}
		if s.attempts == nil {
			s.attempts = map[attemptKey]AttemptRow{}
		}
		s.attempts[k] = a
	}
	for _, u := range c.AttemptUpdates {
		k := attemptKey{u.Task, u.Token}
		if old, ok := s.attempts[k]; !ok || old.State != u.Was || old.State.Ended() && old.Outputs == nil { // the old outputs are a handle
			return fmt.Errorf("attempt %+v update expects %s, the row is %+v", k, u.Was, old)
		}
		s.attempts[k] = u.AttemptRow
	}
	s.events = append(s.events, c.Events...)
	return nil
}

func (s *rowStore) list() []AttemptRow {
	all := make([]AttemptRow, 0, len(s.attempts))
	for _, a := range s.attempts {
		all = append(all, a)
	}
	sort.Slice(all, func(i, j int) bool { // in an arbitrary order, so that no test relies on an order
		return (int(all[i].Task)*7+int(all[i].Token)*13)%11 < (int(all[j].Task)*7+int(all[j].Token)*13)%11
	})
	return all
}

// world is one run with its rows, clock, timers and the orders to its worker.
type world struct {
	g       *Graph // the graph of the workflow's version
	own     bool   // the graph is the run's own
	run     *Run
	rows    rowStore
	now     Now
	timers  []Timer
	cancels []Cancel
	changes Changes // the changes of the last flush
	heard   func(Event)
	// These are the requests to the owner, and its messages to other runs.
	prepares []Prepare
	orders   []Order
	errands  []Errand

	// beside, if not nil, decides for each condition of a step whether it is evaluated outside. The result
	// comes back before the next check, unless late returns true for the condition. In that case the
	// condition waits in asked.
	beside func() bool
	late   bool
	asked  []Evaluation

	generation int32 // the generation, and below it the states and tokens, after the last step
	states     []TaskState
	tokens     []Token
}

var testRun = RunID{0x01, 0x90, 0xa0, 0xb0, 0x12, 0x34, 0x7a, 0xbc, 0x8d, 0xef, 1, 2, 3, 4, 5, 6}

func newWorld(g *Graph) *world {
	w := &world{g: g, now: Now{Wall: 1_700_000_000_000_000, Mono: time.Minute}}
	w.run = NewRun(Header{ID: testRun, Workflow: 1, Version: 1, Priority: Medium, Origin: OriginManual, User: "ada",
		Params: []byte(`{"go":1}`), Created: w.now.Wall})
	return w
}

// step applies one event and checks every invariant.
func (w *world) step(ev Event) (Verdict, error) {
	fx := w.effects()
	if w.heard != nil {
		w.heard(ev)
	}
	records := len(w.run.records)
	pending := w.run.Pending()
	v := w.run.Step(&ev, w.now, &fx)
	w.answer(&fx)
	w.timers = append(w.timers, fx.Timers...)
	w.cancels = append(w.cancels, fx.Cancels...)
	w.prepares, w.orders, w.errands = append(w.prepares, fx.Prepares...), append(w.orders, fx.Orders...), append(w.errands, fx.Errands...)
	if v != Accepted && v != Stale && (len(w.run.records) != records || w.run.Pending() != pending) {
		return v, fmt.Errorf("%s was refused as %s, and changed something", ev.Kind, v)
	}
	if err := checkRun(w.run); err != nil {
		return v, fmt.Errorf("after %s of %d: %w", ev.Kind, ev.Task, err)
	}
	if err := w.checkHistory(); err != nil {
		return v, fmt.Errorf("after %s of %d: %w", ev.Kind, ev.Task, err)
	}
	return v, nil
}

func (w *world) effects() Effects {
	if w.beside == nil {
		return Effects{}
	}
	return Effects{Evaluate: func(c Condition, v View) (bool, error) {
		if w.run.Intent < IntentStop && w.beside() { // a stop waits for no condition
			return false, ErrCostly
		}
		return c.Holds(v)
	}}
}

// answer evaluates the conditions that a step has requested, the last one first. Each result is a separate
// event.
func (w *world) answer(fx *Effects) {
	if w.late {
		w.asked = append(w.asked, fx.Evaluations...)
		return
	}
	for n := len(fx.Evaluations); n > 0; n = len(fx.Evaluations) {
		e := fx.Evaluations[n-1]
		fx.Evaluations = fx.Evaluations[:n-1]
		w.run.Step(&Event{Kind: EvEvaluated, Generation: e.Generation, Evaluated: []Evaluated{e.Do()}}, w.now, fx)
	}
}

// flush commits, and checks that a load of the rows equals memory.
func (w *world) flush() error {
	w.changes = Changes{}
	rows := w.run.Pending()
	w.run.Flush(&w.changes, w.now.Wall)
	if w.changes.Rows() != rows || w.run.Pending() != 0 {
		return fmt.Errorf("flush wrote %d rows, %d were pending, %d are", w.changes.Rows(), rows, w.run.Pending())
	}
	if err := w.rows.apply(&w.changes); err != nil {
		return err
	}
	for _, e := range w.changes.Events {
		if _, err := UnpackRecords(e.Records); err != nil {
			return err
		}
	}
	other, _, err := w.load(Effects{})
	if err != nil {
		return err
	}
	if err := checkRun(other); err != nil {
		return fmt.Errorf("loaded run: %w", err)
	}
	if w.run.Evaluating() { // memory lags behind the rows
		return nil
	}
	if d := Diff(w.run, other); d != "" {
		return fmt.Errorf("memory and rows differ: %s", d)
	}
	return w.checkDerived()
}

func (w *world) load(fx Effects) (*Run, Effects, error) {
	row := *w.rows.run
	g, err := RunGraph(w.g, row.Graph, compileCond)
	if err != nil {
		return nil, fx, err
	}
	r, err := Load(&row, g, w.rows.list(), w.now, &fx)
	return r, fx, err
}

// crash forgets memory, timers and cancels, and loads the committed rows.
func (w *world) crash() error {
	r, fx, err := w.load(w.effects())
	if err != nil {
		return err
	}
	w.run, w.asked = r, nil
	if r.Stirs() {
		r.Step(&Event{Kind: EvCheck}, w.now, &fx)
	}
	w.answer(&fx)
	w.run, w.timers, w.cancels = r, fx.Timers, append(w.cancels, fx.Cancels...)
	w.prepares, w.orders = append(w.prepares, fx.Prepares...), append(w.orders, fx.Orders...)
	w.generation = 0 // uncommitted steps never happened
	return w.checkHistory()
}

func (w *world) checkDerived() error {
	if w.run.Graph == nil {
		return nil
	}
	views, err := Derive(w.run.Graph, w.rows.run, w.rows.list())
	if err != nil {
		return err
	}
	for t, v := range views {
		state, token := w.run.Task(TaskID(t))
		due := v.State == RetryWait && state == Ready // no row shows that the timer has fired
		if v.State != state && !due || v.Token != token {
			return fmt.Errorf("task %s is %s token %d, its rows say %s token %d", w.run.Graph.Name(TaskID(t)), state, token, v.State, v.Token)
		}
	}
	return nil
}

// checkHistory checks that tokens rise one by one, and that ends do not change within a generation.
func (w *world) checkHistory() error {
	r := w.run
	same := w.generation == r.Generation && len(w.states) == len(r.tasks)
	for t := range r.tasks {
		p := &r.tasks[t]
		if !same {
			continue
		}
		if w.states[t].Terminal() && p.state != w.states[t] {
			return fmt.Errorf("task %d went from %s to %s within a generation", t, w.states[t], p.state)
		}
		if d := p.token - w.tokens[t]; d < 0 || d > 1 || d == 1 && p.state != Assigned && !(p.own && p.revoked) {
			return fmt.Errorf("task %d went from token %d to %d, it is %s", t, w.tokens[t], p.token, p.state)
		}
	}
	w.generation, w.states, w.tokens = r.Generation, w.states[:0], w.tokens[:0]
	for t := range r.tasks {
		w.states = append(w.states, r.tasks[t].state)
		w.tokens = append(w.tokens, r.tasks[t].token)
	}
	return nil
}

// checkRun counts everything again.
func checkRun(r *Run) error {
	var left, failed, active, listed, retrying, deferred int32
	if r.leader.state.Held() {
		active++
	}
	for t := range r.tasks {
		p := &r.tasks[t]
		if !p.state.Terminal() {
			left++
		}
		if p.fails() {
			failed++
		}
		if p.state.Held() {
			active++
		}
		if p.listed {
			listed++
		}
		if p.state == RetryWait {
			retrying++
		}
		if p.state == Deferred {
			deferred++
		}
		if err := checkTask(r, TaskID(t)); err != nil {
			return fmt.Errorf("task %s: %w", r.Graph.Name(TaskID(t)), err)
		}
	}
	stands := r.ready.n
	for _, l := range r.placed {
		stands += l.list.n
	}
	for _, s := range r.shares {
		stands += int32(s.ready)
	}
	if left != r.left || failed != r.failed || active != r.active || listed != stands {
		return fmt.Errorf("left %d failed %d active %d listed %d, recount %d %d %d %d",
			r.left, r.failed, r.active, stands, left, failed, active, listed)
	}
	if err := checkSpreads(r); err != nil {
		return err
	}
	if retrying != r.retrying || deferred != r.deferred {
		return fmt.Errorf("retrying %d deferred %d, recount %d %d", r.retrying, r.deferred, retrying, deferred)
	}
	if idle := active == 0 && listed == 0 && retrying == 0 && deferred > r.fanning && !r.spreading() && r.Intent == IntentRun; idle != (r.State == RunSuspended) {
		return fmt.Errorf("the run is %s with %d active, %d listed, %d to be tried again, %d deferred", r.State, active, listed, retrying, deferred)
	}
	if err := checkSlots(r); err != nil {
		return err
	}
	if err := checkList(r); err != nil {
		return err
	}
	over := r.active == 0 && (r.deferred == 0 || r.Intent >= IntentStop && r.deferred == r.fanning) && (r.Intent >= IntentStop || r.left == 0 && len(r.tasks) > 0) && !handlesOf(r).owing()
	if r.State.Terminal() && (left > 0 || active > 0 || deferred > 0) || !r.State.Terminal() && over {
		return fmt.Errorf("run is %s with %d left, %d active, intent %s", r.State, left, active, r.Intent)
	}
	if r.State.Terminal() && (r.Ready() != 0 || r.FinishedAt == 0) {
		return fmt.Errorf("ended run has %d ready, finished at %d", r.Ready(), r.FinishedAt)
	}
	return nil
}

func checkTask(r *Run, t TaskID) error {
	p := &r.tasks[t]
	if _, ok := r.Graph.InstanceOf(t); ok {
		return checkInstance(r, t)
	}
	blockers, failure := int32(0), false
	for _, n := range r.Graph.Needs(t) {
		if !r.tasks[n].settled() {
			blockers++
		}
		failure = failure || r.tasks[n].fails()
	}
	switch p.state {
	case Pending:
		if p.blockers != blockers || blockers == 0 && !r.State.Terminal() && readableNow(r, t) {
			return fmt.Errorf("%d blockers, recount %d", p.blockers, blockers)
		}
		if failure && !r.Graph.handles(t) {
			return fmt.Errorf("pending behind a failure")
		}
	case Ready, Assigned, Running, RetryWait, Succeeded, Skipped, Deferred:
		if decreed(r, t) {
			break
		}
		if blockers > 0 || failure && !r.Graph.handles(t) {
			return fmt.Errorf("%s with %d blockers, failure %v", p.state, blockers, failure)
		}
	}
	if l := r.Graph.Logic(t); l != nil && (p.state.Held() || p.listed || p.state == Ready && r.Intent == IntentRun && r.State != RunWaiting && r.Graph.choosable(t, r)) || l == nil && p.state == Deferred {
		return fmt.Errorf("a task of kind %s is %s", r.Graph.Kind(t), p.state)
	}
	if p.state == Deferred && p.token > 0 && p.slot > 0 && r.slots[p.slot-1].State == AttemptDeferred && !p.listed {
		return nil
	}
	if p.state.Held() != (p.slot != 0) || p.state.Held() && p.token == 0 || p.listed && p.state != Ready {
		return fmt.Errorf("%s slot %d token %d listed %v", p.state, p.slot, p.token, p.listed)
	}
	if p.state.Held() && r.slots[p.slot-1].Token != p.token {
		return fmt.Errorf("token %d, its slot has %d", p.token, r.slots[p.slot-1].Token)
	}
	return nil
}

// readableNow reports whether the task's condition can be evaluated now.
func readableNow(r *Run, t TaskID) bool {
	c := r.Graph.Condition(t)
	return c == nil || readable(r.Graph, c, r)
}

// decreed reports whether the state of a task need not follow from its needs, because an operator or an
// earlier generation has decided it.
func decreed(r *Run, t TaskID) bool {
	kept, at := false, 0
	eachKept(r.base, func(s TaskState, count int) {
		kept = kept || at <= int(t) && int(t) < at+count && s != Pending
		at += count
	})
	return kept || r.tasks[t].own && r.tasks[t].revoked
}

// checkSlots checks that every slot is held, is free, or has ended and will be flushed. No slot may be lost.
func checkSlots(r *Run) error {
	ended := 0
	for i := range r.slots {
		if a := &r.slots[i]; a.State.Ended() && (a.dirty || slices.Contains(r.handles, int32(i))) {
			ended++
		}
	}
	if used := int(r.active) + int(r.deferred) + len(r.free) + ended; used != len(r.slots) {
		return fmt.Errorf("%d slots: %d active, %d free, %d ended", len(r.slots), r.active, len(r.free), ended)
	}
	return nil
}

func checkList(r *Run) error {
	n := int32(0)
	for p, l := range r.ready.levels {
		last := int32(0)
		for at := l.first; at != 0; at = r.tasks[at-1].blockers {
			last = at
			if n++; n > r.ready.n {
				return fmt.Errorf("the ready list is longer than %d", r.ready.n)
			}
			if t := &r.tasks[at-1]; !t.listed || r.Graph.Policy(TaskID(at-1)).Priority != Priority(p) {
				return fmt.Errorf("task %d in ready list %d: %+v", at-1, p, t)
			}
		}
		if last != l.last {
			return fmt.Errorf("ready list %d ends with %d, not %d", p, last, l.last)
		}
	}
	if n != r.ready.n {
		return fmt.Errorf("ready list has %d of %d", n, r.ready.n)
	}
	return nil
}
