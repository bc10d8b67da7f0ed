package engine_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/trigger"
	"skein.dev/skein/internal/workflow"
)

// names is a definition with a queue and locks only.
type names struct {
	Queue  string   `json:"queue,omitempty"`
	Locks  []string `json:"locks,omitempty"`
	Policy string   `json:"lock_policy,omitempty"`
}

// naming gives an engine the names in definitions.
func naming(cfg *engine.Config) { cfg.Namer = trigger.New(cfg.Store) }

// held returns a node that finds the queues and locks of definitions, and whose attempts end only when a test
// ends them.
func held(t *testing.T) (*hands, *node) {
	t.Helper()
	h := newHands(t)
	h.held = true
	return h, start(t, openMemory(t), h, naming)
}

// naming applies a workflow of one task that names queues or locks.
func (n *node) naming(name string, what names) store.Workflow {
	n.t.Helper()
	def, err := json.Marshal(what)
	if err != nil {
		n.t.Fatal(err)
	}
	g := wide(n.t, 1)
	w, _, err := n.Apply(n.t.Context(), engine.Definition{Namespace: "test", Name: name, Def: def, Graph: g.Pack(), Digest: def, User: "ada"})
	if err != nil {
		n.t.Fatal(err)
	}
	return w
}

// queue makes or changes a queue.
func (n *node) queue(name string, limit int32, change ...func(*store.Queue)) {
	n.t.Helper()
	q := store.Queue{Name: name, Limit: limit, Order: store.QueueFIFO, Overflow: store.OverflowWait}
	for _, c := range change {
		c(&q)
	}
	if _, err := n.SetQueue(n.t.Context(), q, 0); err != nil {
		n.t.Fatal(err)
	}
}

// runs returns the runs of attempts.
func runs(of []attempt) (ids []dag.RunID) {
	for _, a := range of {
		ids = append(ids, a.run)
	}
	return ids
}

// free requires that no run holds or waits for a slot or lock.
func (n *node) free() {
	n.t.Helper()
	held, err := n.store.Holding(context.Background(), dag.RunID{}, 10)
	lines, err2 := n.store.Lines(context.Background())
	if err != nil || err2 != nil || len(held)+len(lines) > 0 {
		n.t.Fatalf("still held: %+v, in line: %+v (%v, %v)", held, lines, err, err2)
	}
}

func params(p string) func(*engine.Submission) {
	return func(s *engine.Submission) { s.Params = []byte(p) }
}

func urgent(p dag.Priority) func(*engine.Submission) {
	return func(s *engine.Submission) { s.Priority = p }
}

func TestQueueLimit(t *testing.T) {
	for name, open := range openers {
		t.Run(name, func(t *testing.T) {
			h := newHands(t)
			h.held = true
			n := start(t, open(t), h, naming)
			n.queue("q", 2)
			w := n.naming("w", names{Queue: "q"})
			var ids []dag.RunID
			for range 5 {
				ids = append(ids, n.submit(w))
			}
			if got := runs(h.holding(2)); !slices.Equal(got, ids[:2]) {
				t.Fatalf("started %v, want the first two of %v", got, ids)
			}
			for i := range ids {
				live := h.holding(min(2, 5-i))
				if len(live) > 2 {
					t.Fatalf("%d runs are through a queue of 2", len(live))
				}
				n.reloads()
				h.end(live[0], dag.Result{State: dag.AttemptSucceeded, Exited: true})
			}
			h.held = false
			n.quiet()
			n.free()
		})
	}
}

func (n *node) reloads() {
	n.t.Helper()
	n.sound()
}

func TestQueueOrderAndKeys(t *testing.T) {
	h, n := held(t)
	n.queue("q", 1, func(q *store.Queue) { q.Order, q.PerKey = store.QueuePriority, "params.site" })
	w := n.naming("w", names{Queue: "q"})
	a1 := n.submit(w, params(`{"site":"a"}`))
	b1 := n.submit(w, params(`{"site":"b"}`))
	low := n.submit(w, params(`{"site":"a"}`), urgent(dag.Low))
	high := n.submit(w, params(`{"site":"a"}`), urgent(dag.Highest))
	n.queue("odd", 1, func(q *store.Queue) { q.PerKey = "params.site + 1" })
	bad := n.submit(n.naming("odd", names{Queue: "odd"}), params(`{"site":"a"}`))
	n.ends(bad, dag.RunFailed)
	if v, _ := n.GetRun(t.Context(), bad); v.Cause != dag.CauseQueue || !strings.Contains(v.Message, "per_key") {
		t.Errorf("a run without a key failed with %s: %s", v.Cause, v.Message)
	}
	live := h.holding(2)
	if got := runs(live); !slices.Equal(got, []dag.RunID{a1, b1}) {
		t.Fatalf("started %v", got)
	}
	ok := dag.Result{State: dag.AttemptSucceeded}
	h.end(live[0], ok)
	live = h.holding(2)
	if live[1].run != high {
		t.Fatalf("run %s is next for site a, want the urgent one, %s", live[1].run, high)
	}
	h.end(live[1], ok)
	if live = h.holding(2); live[1].run != low {
		t.Fatalf("run %s is next, want %s", live[1].run, low)
	}
	h.end(live[0], ok)
	h.end(live[1], ok)
	n.quiet()
	n.free()
}

func TestQueueOverflowAndStates(t *testing.T) {
	h, n := held(t)
	ok := dag.Result{State: dag.AttemptSucceeded}
	none := n.naming("none", names{Queue: "nowhere"})
	id := n.submit(none)
	n.ends(id, dag.RunFailed)
	if v, _ := n.GetRun(t.Context(), id); v.Cause != dag.CauseQueue || !strings.Contains(v.Message, "nowhere") {
		t.Errorf("%s: %s", v.Cause, v.Message)
	}
	n.queue("skip", 1, func(q *store.Queue) { q.Overflow = store.OverflowSkip })
	n.queue("fail", 1, func(q *store.Queue) { q.Overflow = store.OverflowFail })
	skip, fail := n.naming("skips", names{Queue: "skip"}), n.naming("fails", names{Queue: "fail"})
	n.submit(skip)
	n.submit(fail)
	live := h.holding(2)
	n.ends(n.submit(skip), dag.RunSkipped)
	n.ends(n.submit(fail), dag.RunFailed)
	for _, a := range live {
		h.end(a, ok)
	}

	n.queue("q", 1)
	w := n.naming("w", names{Queue: "q"})
	if _, err := n.SetQueueState(t.Context(), "q", engine.QueueState{State: store.QueuePaused, Actor: "ada", Reason: "repairs"}); err != nil {
		t.Fatal(err)
	}
	waits := n.submit(w)
	if s := n.state(waits); s != dag.RunWaiting {
		t.Fatalf("a run of a paused queue is %s", s)
	}
	x, err := n.Explain(t.Context(), waits, "")
	if err != nil || len(x.Reasons) == 0 || x.Reasons[0].Code != "queue_paused" {
		t.Errorf("explained: %+v, %v", x, err)
	}
	if err := n.DropQueue(t.Context(), "q", 0); err == nil {
		t.Error("a queue in which somebody waits was removed")
	}
	if _, err := n.SetQueueState(t.Context(), "q", engine.QueueState{State: store.QueueDraining, Reason: "moving"}); err != nil {
		t.Fatal(err)
	}
	live = h.holding(1)
	if live[0].run != waits {
		t.Fatalf("a draining queue let %s through, not who waited", live[0].run)
	}
	late := n.submit(w)
	n.ends(late, dag.RunFailed)
	if v, _ := n.GetRun(t.Context(), late); !strings.Contains(v.Message, "moving") {
		t.Errorf("sent away with: %s", v.Message)
	}
	h.end(live[0], ok)
	n.quiet()
	n.free()
	if err := n.DropQueue(t.Context(), "q", 0); err != nil {
		t.Errorf("a queue that nobody uses: %v", err)
	}
}

// TestQueueUntil: a pause with an end ends at that time; a rate spreads starts evenly.
func TestQueueUntil(t *testing.T) {
	h := newHands(t)
	n := start(t, openers["memory"](t), h, naming)
	n.queue("q", 0, func(q *store.Queue) { q.Rate, q.Each = 10, 1_000_000 })
	w := n.naming("w", names{Queue: "q"})
	until := dag.Micro(time.Now()) + 200_000
	if _, err := n.SetQueueState(t.Context(), "q", engine.QueueState{State: store.QueuePaused, Until: until}); err != nil {
		t.Fatal(err)
	}
	var ids []dag.RunID
	for range 5 {
		ids = append(ids, n.submit(w))
	}
	var granted []dag.Micros
	for _, id := range ids {
		n.ends(id, dag.RunSucceeded)
		row, err := n.store.Run(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		granted = append(granted, row.Claim.Granted)
	}
	if granted[0] < until {
		t.Errorf("the first got its place %d µs before the pause ended", until-granted[0])
	}
	if spread := granted[4] - granted[0]; spread < 300_000 {
		t.Errorf("5 runs at 10 a second got their places within %d µs", spread)
	}
	n.quiet()
	n.free()
}

// TestQueueRateIsExplained: a run that waits for a rate gets its own instant, not that of the first run.
func TestQueueRateIsExplained(t *testing.T) {
	n := start(t, openers["memory"](t), newHands(t), naming)
	hour := dag.Micros(time.Hour.Microseconds())
	n.queue("q", 0, func(q *store.Queue) { q.Rate, q.Each = 2, hour })
	w := n.naming("w", names{Queue: "q"})
	n.ends(n.submit(w), dag.RunSucceeded)
	var expected []dag.Micros
	for range 3 {
		x, err := n.Explain(t.Context(), n.submit(w), "")
		if err != nil || len(x.Reasons) != 1 {
			t.Fatalf("%v: %+v", err, x)
		}
		expected = append(expected, x.Reasons[0].Expected)
	}
	if expected[1] != expected[0]+hour/2 || expected[2] != expected[0]+hour {
		t.Errorf("three in line at 2 an hour are expected at %v", expected)
	}
}

func TestLocks(t *testing.T) {
	for name, open := range openers {
		t.Run(name, func(t *testing.T) {
			h := newHands(t)
			h.held = true
			n := start(t, open(t), h, naming)
			ok := dag.Result{State: dag.AttemptSucceeded}
			one, two := n.naming("one", names{Locks: []string{"x/${{ params.day }}"}}), n.naming("two", names{Locks: []string{"x/1", "y"}})
			fail := n.naming("fail", names{Locks: []string{"y"}, Policy: "fail"})
			a := n.submit(one, params(`{"day":"1"}`))
			other := n.submit(one, params(`{"day":"2"}`))
			both := n.submit(two)
			b := n.submit(one, params(`{"day":"1"}`)) // behind the run that needs both keys
			live := h.holding(2)
			if got := runs(live); !slices.Equal(got, []dag.RunID{a, other}) {
				t.Fatalf("started %v", got)
			}
			n.reloads()
			first := n.token(live[0])
			h.end(live[0], ok)
			live = h.holding(2)
			if live[1].run != both {
				t.Fatalf("run %s got the lock, want the one that waits for two, %s", live[1].run, both)
			}
			second := n.token(live[1])
			n.ends(n.submit(fail), dag.RunFailed)
			x, err := n.Explain(t.Context(), b, "")
			if err != nil || !slices.ContainsFunc(x.Reasons, func(r inspect.Reason) bool { return r.Code == "lock_held" && strings.Contains(r.Holder, both.String()) }) {
				t.Errorf("why %s waits: %+v, %v", b, x, err)
			}
			h.end(live[1], ok)
			live = h.holding(2)
			if third := n.token(live[1]); live[1].run != b || first >= second || second >= third {
				t.Fatalf("tokens %d, %d, %d", first, second, third)
			}
			for _, l := range live {
				h.end(l, ok)
			}
			n.quiet()
			n.free()
		})
	}
}

// token returns SKEIN_LOCK_TOKEN of the tasks of a run.
func (n *node) token(a attempt) int64 {
	n.hands.mu.Lock()
	defer n.hands.mu.Unlock()
	return n.hands.live[a].LockToken
}

// TestClaimVerbs: a run that is paused or stopped leaves its queue. A new generation takes its queue slot
// and locks again.
func TestClaimVerbs(t *testing.T) {
	h, n := held(t)
	n.queue("q", 1)
	w := n.naming("w", names{Queue: "q", Locks: []string{"l"}})
	first, paused, stopped, last := n.submit(w), n.submit(w), n.submit(w), n.submit(w)
	live := h.holding(1)
	do := func(id dag.RunID, i dag.Intent) {
		t.Helper()
		if err := n.Do(t.Context(), engine.Command{Run: id, Intent: i}); err != nil {
			t.Fatal(err)
		}
		n.reloads()
	}
	do(paused, dag.IntentPause)
	do(stopped, dag.IntentStop)
	n.ends(stopped, dag.RunStopped)
	h.end(live[0], dag.Result{State: dag.AttemptFailed, Exited: true, ExitCode: 1})
	n.ends(first, dag.RunFailed)
	if live = h.holding(1); live[0].run != last {
		t.Fatalf("run %s is next, want %s", live[0].run, last)
	}
	if v, err := n.Recovered(t.Context(), first); err != nil || v != dag.Accepted {
		t.Fatal(v, err)
	}
	if s := n.state(first); s != dag.RunWaiting {
		t.Fatalf("a recovered run of a full queue is %s", s)
	}
	n.reloads()
	do(paused, dag.IntentRun)
	h.end(live[0], dag.Result{State: dag.AttemptSucceeded})
	if live = h.holding(1); live[0].run != first {
		t.Fatalf("run %s is next, want the recovered one, %s", live[0].run, first)
	}
	h.end(live[0], dag.Result{State: dag.AttemptSucceeded})
	n.ends(first, dag.RunSucceeded)
	if live = h.holding(1); live[0].run != paused {
		t.Fatalf("run %s is next, want the resumed one, %s", live[0].run, paused)
	}
	h.end(live[0], dag.Result{State: dag.AttemptSucceeded})
	n.quiet()
	n.free()
}

// TestClaimsCrash kills the process at each commit of a workload in which every run waits for other runs,
// before and after the write.
func TestClaimsCrash(t *testing.T) {
	for name, open := range openers {
		t.Run(name, func(t *testing.T) {
			for at, more := 1, true; more && at < 60; at += 1 + at/12 {
				for _, after := range []bool{false, true} {
					more = claimsCrash(t, open(t), at, after)
				}
			}
		})
	}
}

// counting checks that no more runs are active than allowed.
type counting struct {
	mu   sync.Mutex
	live map[string]int
	most map[string]int
}

func (c *counting) run(t testing.TB, what ...string) {
	c.mu.Lock()
	for _, w := range what {
		if c.live[w]++; c.live[w] > c.most[w] {
			t.Errorf("%d runs at once hold %s, %d may", c.live[w], w, c.most[w])
		}
	}
	c.mu.Unlock()
	time.Sleep(100 * time.Microsecond)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range what {
		c.live[w]--
	}
}

func claimsCrash(t *testing.T, st store.Store, at int, after bool) (died bool) {
	t.Helper()
	m := newMortal(st, 0, after)
	h := newHands(t)
	of := sync.Map{} // workflow → the queues and locks that its runs use
	c := &counting{live: map[string]int{}, most: map[string]int{"q": 2, "l": 1, "k": 1}}
	result := func(a engine.Assignment) dag.Result {
		what, _ := of.Load(a.Workflow)
		c.run(t, what.([]string)...)
		return dag.Result{State: dag.AttemptSucceeded}
	}
	h.result = result
	n := start(t, m, h, naming)
	n.queue("q", 2)
	ws := []store.Workflow{n.naming("a", names{Queue: "q"}), n.naming("b", names{Queue: "q", Locks: []string{"l"}}),
		n.naming("c", names{Locks: []string{"k", "l"}}), n.naming("d", names{Locks: []string{"k"}})}
	for i, what := range [][]string{{"q"}, {"q", "l"}, {"k", "l"}, {"k"}} {
		of.Store(ws[i].ID, what)
	}
	m.mu.Lock()
	m.at = m.count + at
	m.mu.Unlock()
	const each = 6
	first := n
	for i := range each * len(ws) {
		go func() { _, _ = first.Submit(context.Background(), submission(ws[i%len(ws)])) }()
	}
	ended := func() bool {
		select {
		case <-m.died:
			return true
		default:
			return n.Stats().RunsEnded.Load() >= int64(each*len(ws)) && n.Idle()
		}
	}
	eventually(t, "the process dies, or everything ends", ended)
	select {
	case <-m.died:
		died = true
	default:
	}
	n.close()
	c.mu.Lock()
	clear(c.live) // the attempts of the dead process are gone
	c.mu.Unlock()
	next := newHands(t)
	next.result, next.past = result, nil
	n = start(t, st, next, naming)
	n.quiet()
	n.free()
	n.close()
	if lines, err := inspect.Verify(context.Background(), st, compile); err != nil || len(lines) > 0 {
		t.Fatalf("commit %d, after %t: %+v, %v", at, after, lines, err)
	}
	return died
}

// TestLoweredLimit: if a run has passed the limit of its workflow, it counts against the limit while it waits
// in a queue. If the limit is lowered, the run may still begin, like a run that has begun may continue. A
// restart does not change that.
func TestLoweredLimit(t *testing.T) {
	for name, restarts := range map[string]bool{"alive": false, "restarted": true} {
		t.Run(name, func(t *testing.T) {
			h, st := newHands(t), openMemory(t)
			h.held = true
			planned := func(cfg *engine.Config) { cfg.Planner = trigger.New(cfg.Store) }
			n := start(t, st, h, naming, planned)
			limited := func(most int32) store.Workflow {
				t.Helper()
				def, err := json.Marshal(workflow.Workflow{Queue: "q", MaxRuns: most})
				if err != nil {
					t.Fatal(err)
				}
				w, _, err := n.Apply(t.Context(), engine.Definition{Namespace: "test", Name: "w", Def: def, Graph: wide(t, 1).Pack(), Digest: def, User: "ada"})
				if err != nil {
					t.Fatal(err)
				}
				return w
			}
			explained := func(run dag.RunID, code string) {
				t.Helper()
				x, err := n.Explain(t.Context(), run, "")
				if err != nil || !slices.ContainsFunc(x.Reasons, func(r inspect.Reason) bool { return r.Code == code }) {
					t.Errorf("run %s is explained by %+v, %v; want %q", run, x.Reasons, err, code)
				}
			}
			n.queue("q", 1)
			w := limited(2)
			running, queued, waiting := n.submit(w), n.submit(w), n.submit(w)
			h.holding(1)
			limited(1)
			if restarts {
				n.close()
				again := newHands(t)
				again.held, again.past, h = true, h, again
				n = start(t, st, h, naming, planned)
				n.sound()
			}
			explained(queued, "queue_full")
			explained(waiting, "run_limit")
			n.queue("q", 2)
			live := h.holding(2)
			if got := runs(live); !slices.Equal(got, []dag.RunID{running, queued}) {
				t.Fatalf("%v run, want %s and %s", got, running, queued)
			}
			h.end(live[0], done)
			n.ends(running, dag.RunSucceeded)
			if s := n.state(waiting); s != dag.RunWaiting {
				t.Errorf("the third run is %s while the second one has the only place", s)
			}
			h.end(live[1], done)
			n.ends(queued, dag.RunSucceeded)
			live = h.holding(1)
			h.end(live[0], done)
			n.ends(waiting, dag.RunSucceeded)
			n.quiet()
			n.free()
		})
	}
}
