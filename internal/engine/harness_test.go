package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/memory"
	"skein.dev/skein/internal/store/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// attempt names an attempt.
type attempt struct {
	run   dag.RunID
	task  dag.TaskID
	token dag.Token
}

// hands is an executor under a test's control. By default it reports every attempt from separate goroutines,
// in any order, with the result that the function result returns.
type hands struct {
	t      testing.TB
	e      *engine.Engine
	result func(a engine.Assignment) dag.Result // nil means success
	drop   func() bool                          // whether a Start is lost
	twice  func() bool                          // whether a report is sent twice
	// held says that attempts run until take or end is called.
	held bool

	wg      sync.WaitGroup
	mu      sync.Mutex
	live    map[attempt]engine.Assignment
	order   []attempt // in the order of their starts
	done    map[attempt]bool
	cancels []dag.Cancel
	dead    bool
	past    *hands // the hands of an earlier process
}

func newHands(t testing.TB) *hands {
	return &hands{t: t, live: map[attempt]engine.Assignment{}, done: map[attempt]bool{}}
}

func (h *hands) Start(as []engine.Assignment) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range as {
		k := attempt{a.Run, a.Task, a.Token}
		if h.drop != nil && h.drop() {
			continue
		}
		if _, running := h.live[k]; running {
			continue
		}
		if h.done[k] || h.past.had(k) {
			h.t.Errorf("attempt %v was started again after its report", k)
		}
		h.live[k] = a
		h.order = append(h.order, k)
		if !h.held && !h.dead {
			h.wg.Go(func() { h.end(k, h.outcome(a)) })
		}
	}
}

func (h *hands) had(k attempt) bool {
	if h == nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	_, live := h.live[k]
	return live || h.done[k] || h.past.had(k)
}

func (h *hands) outcome(a engine.Assignment) dag.Result {
	if h.result == nil {
		return dag.Result{State: dag.AttemptSucceeded, Exited: true}
	}
	return h.result(a)
}

// end reports an attempt.
func (h *hands) end(k attempt, r dag.Result) {
	h.e.Report(engine.Report{Run: k.run, Task: k.task, Token: k.token, Result: r})
	if h.twice != nil && h.twice() {
		h.e.Report(engine.Report{Run: k.run, Task: k.task, Token: k.token, Result: r})
		h.e.Report(engine.Report{Run: k.run, Task: k.task, Token: k.token + 1, Result: r})
	}
	h.mu.Lock()
	delete(h.live, k)
	h.done[k] = true
	h.mu.Unlock()
}

func (h *hands) Cancel(cs []dag.Cancel) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range cs {
		k := attempt{c.Run, c.Task, c.Token}
		h.cancels = append(h.cancels, c)
		if _, live := h.live[k]; live && h.held {
			h.wg.Go(func() { h.end(k, dag.Result{State: dag.AttemptStopped, Signal: "SIGTERM"}) })
		}
	}
}

func (h *hands) Running(run dag.RunID, task dag.TaskID, token dag.Token) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, live := h.live[attempt{run, task, token}]
	return live
}

func (h *hands) Live(run dag.RunID, task dag.TaskID, token dag.Token) bool {
	return h.Running(run, task, token)
}

// holding waits until n attempts are live, and returns them in the order of their starts.
func (h *hands) holding(n int) []attempt {
	h.t.Helper()
	var now []attempt
	eventually(h.t, fmt.Sprintf("%d attempts are held", n), func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		now = now[:0]
		for _, k := range h.order {
			if _, live := h.live[k]; live {
				now = append(now, k)
			}
		}
		return len(now) >= n
	})
	return now
}

// has reports whether an attempt of the run is held.
func (h *hands) has(run dag.RunID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for k := range h.live {
		if k.run == run {
			return true
		}
	}
	return false
}

// starts returns how many attempts were started.
func (h *hands) starts() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.order)
}

// node is an engine that runs.
type node struct {
	*engine.Engine
	t     testing.TB
	hands *hands
	store store.Store
	slots int
	stop  context.CancelFunc
	done  chan error
	once  sync.Once
}

// start runs an engine over a store and waits until it owns it.
func start(t testing.TB, st store.Store, h *hands, change ...func(*engine.Config)) *node {
	t.Helper()
	n := launch(t, st, h, change...)
	select {
	case <-n.Ready():
	case err := <-n.done:
		t.Fatalf("the engine ended at once: %v", err)
	}
	return n
}

func launch(t testing.TB, st store.Store, h *hands, change ...func(*engine.Config)) *node {
	t.Helper()
	cfg := engine.Config{Store: st, Executor: h, Compile: compile, Node: "n", Slots: 8}
	for _, c := range change {
		c(&cfg)
	}
	e, err := engine.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	h.e = e
	ctx, stop := context.WithCancel(context.Background())
	n := &node{Engine: e, t: t, hands: h, store: st, slots: cfg.Slots, stop: stop, done: make(chan error, 1)}
	go func() { n.done <- e.Run(ctx) }()
	t.Cleanup(n.close)
	return n
}

// close stops the engine and everything that reports to it.
func (n *node) close() {
	n.once.Do(func() {
		n.stop()
		if err := <-n.done; err != nil {
			n.t.Errorf("Run: %v", err)
		}
		n.hands.mu.Lock()
		n.hands.dead = true
		n.hands.mu.Unlock()
		n.hands.wg.Wait()
	})
}

// apply makes a workflow of a graph.
func (n *node) apply(name string, g *dag.Graph) store.Workflow {
	n.t.Helper()
	w, _, err := n.Apply(n.t.Context(), engine.Definition{Namespace: "test", Name: name, Graph: g.Pack(), Digest: g.Pack(), User: "ada"})
	if err != nil {
		n.t.Fatal(err)
	}
	return w
}

// submit starts a run.
func (n *node) submit(w store.Workflow, change ...func(*engine.Submission)) dag.RunID {
	n.t.Helper()
	s := submission(w)
	for _, c := range change {
		c(&s)
	}
	a, err := n.Submit(n.t.Context(), s)
	if err != nil {
		n.t.Fatal(err)
	}
	return a.Run
}

func submission(w store.Workflow) engine.Submission {
	return engine.Submission{Workflow: w, Priority: dag.Medium, Origin: dag.OriginAPI, User: "ada"}
}

// state returns the state in a run's row.
func (n *node) state(id dag.RunID) dag.RunState {
	n.t.Helper()
	row, err := n.store.Run(context.Background(), id)
	if err != nil {
		n.t.Fatal(err)
	}
	return row.State
}

func (n *node) ends(id dag.RunID, want dag.RunState) {
	n.t.Helper()
	eventually(n.t, "the run ends", func() bool { return n.state(id).Terminal() })
	if is := n.state(id); is != want {
		v, _ := n.GetRun(context.Background(), id)
		n.t.Fatalf("the run %s is %s (%s), want %s", id, is, v.Message, want)
	}
}

// quiet waits until no run is unfinished, and checks the invariants of that state.
func (n *node) quiet() {
	n.t.Helper()
	eventually(n.t, "every run ends", func() bool { return n.Idle() && n.Free() == n.slots && n.Waiting() == 0 })
	n.sound()
}

// sound checks the invariants that hold between any two transactions.
func (n *node) sound() {
	n.t.Helper()
	diff, err := n.MemoryDiff(context.Background())
	if err != nil || diff != "" {
		n.t.Fatalf("memory is not what its rows say: %s %v", diff, err)
	}
	n.verified()
}

func (n *node) verified() {
	n.t.Helper()
	found, err := inspect.Verify(context.Background(), n.store, compile)
	if err != nil || len(found) > 0 {
		n.t.Fatalf("verify: %v %+v", err, found)
	}
}

// patience is the time after which a test stops waiting for a condition. No result depends on it.
const patience = 60 * time.Second

// eventually waits for a condition.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(500 * time.Microsecond)
	defer tick.Stop()
	over := time.NewTimer(patience)
	defer over.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-over.C:
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// openers are the stores that a test runs on.
var openers = map[string]func(t testing.TB) store.Store{
	"memory": openMemory,
	"sqlite": openSQLite,
}

func openMemory(t testing.TB) store.Store {
	st := memory.New(memory.Options{})
	t.Cleanup(func() { _ = st.Close() })
	return st
}

func openSQLite(t testing.TB) store.Store {
	st, err := sqlite.Open(filepath.Join(t.TempDir(), "skein.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return st
}

// cond is a condition whose meaning is its text.
type cond string

func (c cond) Source() string   { return string(c) }
func (c cond) Handles() bool    { return c == "always" || c == "failure" }
func (c cond) Reads() dag.Reads { return dag.Reads{} }
func (c cond) Holds(v dag.View) (bool, error) {
	switch c {
	case "always":
		return true, nil
	case "failure":
		return v.Failure, nil
	case "never":
		return false, nil
	case "panic":
		panic("a condition with a bug")
	}
	return false, errors.New("what is\x00 that?")
}

func compile(text string) (dag.Condition, error) { return cond(text), nil }

// graph reads "a; b: a; c: a b" as tasks and their needs.
func graph(t testing.TB, text string, change ...func(*dag.GraphSpec)) *dag.Graph {
	t.Helper()
	var spec dag.GraphSpec
	for _, part := range strings.Split(text, ";") {
		name, needs, _ := strings.Cut(part, ":")
		spec.Tasks = append(spec.Tasks, dag.TaskSpec{Name: strings.TrimSpace(name), Needs: strings.Fields(needs)})
	}
	return build(t, spec, change...)
}

func build(t testing.TB, spec dag.GraphSpec, change ...func(*dag.GraphSpec)) *dag.Graph {
	t.Helper()
	for _, c := range change {
		c(&spec)
	}
	g, err := dag.NewGraph(spec)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// wide returns a graph of n tasks without needs.
func wide(t testing.TB, n int) *dag.Graph {
	t.Helper()
	spec := dag.GraphSpec{Tasks: make([]dag.TaskSpec, n)}
	for i := range spec.Tasks {
		spec.Tasks[i].Name = fmt.Sprintf("t%d", i)
	}
	return build(t, spec)
}

// randomGraph draws a graph of up to eight tasks with conditions and retries.
func randomGraph(t testing.TB, r *rand.Rand) *dag.Graph {
	t.Helper()
	spec := dag.GraphSpec{EndOnFailure: r.IntN(5) == 0}
	if r.IntN(4) == 0 {
		spec.Timeout = time.Hour
	}
	for i := range 1 + r.IntN(8) {
		task := dag.TaskSpec{Name: fmt.Sprintf("t%d", i)}
		for need := range i {
			if r.IntN(3) == 0 {
				task.Needs = append(task.Needs, fmt.Sprintf("t%d", need))
			}
		}
		if len(task.Needs) > 0 {
			task.If = [...]dag.Condition{nil, nil, nil, cond("always"), cond("failure"), cond("never")}[r.IntN(6)]
		}
		if r.IntN(2) == 0 {
			task.Policy.Retry = dag.Retry{Max: 2, Delay: time.Duration(r.IntN(3)) * time.Millisecond}
		}
		task.Policy.Priority = dag.Priority(r.IntN(dag.Levels))
		spec.Tasks = append(spec.Tasks, task)
	}
	return build(t, spec)
}
