package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/store"
)

// queued makes the tasks whose names begin with q use the queue q.
func queued(s *dag.GraphSpec) {
	for i := range s.Tasks {
		if strings.HasPrefix(s.Tasks[i].Name, "q") {
			s.Tasks[i].Policy.Queue = "q"
		}
	}
}

// shares applies a workflow whose definition names no queue and no lock. Its tasks may name queues.
func (n *node) shares(name string, g *dag.Graph) store.Workflow {
	n.t.Helper()
	w, _, err := n.Apply(n.t.Context(), engine.Definition{Namespace: "test", Name: name, Def: []byte("{}"), Graph: g.Pack(), Digest: g.Pack(), User: "ada"})
	if err != nil {
		n.t.Fatal(err)
	}
	return w
}

// in counts the live attempts of tasks that use the queue.
func (h *hands) in() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.live {
		if strings.HasPrefix(a.Name, "q") {
			n++
		}
	}
	return n
}

// places requires these numbers of used slots and of waiting tasks.
func (n *node) places(held, waiting int64) inspect.QueueView {
	n.t.Helper()
	var v inspect.QueueView
	eventually(n.t, fmt.Sprintf("tasks have %d places and %d wait", held, waiting), func() (is bool) {
		var err error
		v, err = n.QueueOf(context.Background(), "q")
		return err == nil && v.TasksHeld == held && v.TasksWaiting == waiting
	})
	return v
}

// TestTaskQueueLimit: of the tasks of a queue, at most as many are assigned as it has slots, across all
// runs. Other tasks continue.
func TestTaskQueueLimit(t *testing.T) {
	for name, open := range openers {
		t.Run(name, func(t *testing.T) {
			h := newHands(t)
			h.held = true
			n := start(t, open(t), h, naming)
			n.queue("q", 2)
			one, other := n.shares("one", graph(t, "a; q1; q2; q3; b: q1", queued)), n.shares("other", graph(t, "c; q1; q2: q1", queued))
			n.submit(one)
			second := n.submit(other)
			live := h.holding(4) // a, c and two of the queue
			if len(live) != 4 || h.in() != 2 {
				t.Fatalf("%d attempts are live, %d of the queue", len(live), h.in())
			}
			n.sound()
			v := n.places(2, 2)
			if len(v.Crews) != 2 || v.Crews[0].Held != 2 || !slices.Equal(v.Crews[0].Running, []string{"q1", "q2"}) || !slices.Equal(v.Crews[1].Ready, []string{"q1"}) {
				t.Errorf("the queue tells %+v", v.Crews)
			}
			x, err := n.Explain(t.Context(), second, "q1")
			if err != nil || len(x.Reasons) != 1 || x.Reasons[0].Code != "queue_tasks" || x.Reasons[0].Args["queue"] != "q" || x.Reasons[0].Holder == "" {
				t.Errorf("explained by %+v, %v", x.Reasons, err)
			}
			if x, err = n.Explain(t.Context(), second, ""); err != nil || !slices.ContainsFunc(x.Reasons, func(r inspect.Reason) bool { return r.Code == "queue_tasks" }) {
				t.Errorf("the run is explained by %+v, %v", x.Reasons, err)
			}
			if err := n.DropQueue(t.Context(), "q", 0); err == nil || !strings.Contains(err.Error(), "tasks hold slots") {
				t.Errorf("a queue in use is dropped: %v", err)
			}
			for range 20 {
				if live = h.now(); len(live) == 0 {
					break
				}
				h.end(live[len(live)-1], dag.Result{State: dag.AttemptSucceeded, Exited: true})
				if h.in() > 2 {
					t.Fatalf("%d attempts of a queue of 2", h.in())
				}
				n.sound()
			}
			n.quiet()
			n.free()
			n.places(0, 0)
		})
	}
}

// now returns the live attempts, in the order of their starts.
func (h *hands) now() (live []attempt) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, k := range h.order {
		if _, is := h.live[k]; is {
			live = append(live, k)
		}
	}
	return live
}

// names returns the tasks of the live attempts.
func (h *hands) names() (all []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, k := range h.order {
		if a, is := h.live[k]; is {
			all = append(all, a.Name)
		}
	}
	return all
}

// TestTaskQueueTurns: runs take turns; in a queue by priority the more urgent comes first, and of one run the
// more urgent task.
func TestTaskQueueTurns(t *testing.T) {
	h, n := held(t)
	n.queue("q", 1)
	w := n.shares("w", graph(t, "q1; q2; q3", queued, func(s *dag.GraphSpec) {
		s.Tasks[0].Policy.Priority, s.Tasks[1].Policy.Priority, s.Tasks[2].Policy.Priority = dag.Low, dag.Low, dag.Medium
	}))
	a, b := n.submit(w), n.submit(w)
	next := func(run dag.RunID, task string) {
		t.Helper()
		k := h.holding(1)
		if len(k) != 1 || k[0].run != run || h.names()[0] != task {
			t.Fatalf("run %s task %s is next, want %s of %s", k[0].run, h.names(), task, run)
		}
		h.end(k[0], done)
	}
	next(a, "q3")
	next(a, "q1") // this run has waited longer than the other one
	next(b, "q3")
	h.holding(1)
	n.queue("q", 1, func(q *store.Queue) { q.Order = store.QueuePriority })
	c := n.submit(w, urgent(dag.Highest))
	next(a, "q2") // the run already has its slot
	next(c, "q3")
	next(c, "q1")
	next(c, "q2")
	next(b, "q1")
	next(b, "q2")
	n.quiet()
	n.free()
}

// TestTaskQueueStates: a queue that is paused or drained holds its tasks back. A task that is stopped,
// paused or too late gives up its slot or its request.
func TestTaskQueueStates(t *testing.T) {
	h, n := held(t)
	n.queue("q", 2)
	set := func(state string) {
		t.Helper()
		if _, err := n.SetQueueState(t.Context(), "q", engine.QueueState{State: state, Reason: "moves", Actor: "eve"}); err != nil {
			t.Fatal(err)
		}
	}
	w := n.shares("w", graph(t, "q1; q2; q3", queued))
	set(store.QueueDraining)
	a := n.submit(w)
	n.places(0, 3)
	if x, err := n.Explain(t.Context(), a, "q1"); err != nil || len(x.Reasons) != 1 || x.Reasons[0].Code != "queue_draining" || x.Reasons[0].Holder != "eve" {
		t.Errorf("explained by %+v, %v", x.Reasons, err)
	}
	set(store.QueuePaused)
	set(store.QueueActive)
	h.holding(2)
	b := n.submit(w)
	n.places(2, 4)
	do := func(run dag.RunID, to dag.Intent) {
		t.Helper()
		if err := n.Do(t.Context(), engine.Command{Run: run, Intent: to}); err != nil {
			t.Fatal(err)
		}
	}
	do(a, dag.IntentPause)
	n.places(2, 3)
	n.sound()
	do(a, dag.IntentRun)
	n.places(2, 4)
	do(b, dag.IntentStop)
	n.ends(b, dag.RunStopped)
	n.places(2, 1)
	n.sound()
	late := n.submit(n.shares("late", graph(t, "q1", queued, func(s *dag.GraphSpec) { s.Tasks[0].Policy.StartDeadline = time.Millisecond })))
	n.ends(late, dag.RunFailed)
	n.places(2, 1)
	do(a, dag.IntentKill)
	n.ends(a, dag.RunStopped)
	n.quiet()
	n.free()
}

// TestTaskQueueNames: each key, from a run's parameters, has queue slots of its own. A task whose queue does
// not exist fails at once with that message, and a recover works after the queue is made.
func TestTaskQueueNames(t *testing.T) {
	h, n := held(t)
	w := n.shares("w", graph(t, "a; q1: a; b: q1", queued))
	lost := n.submit(w, params(`{"site":"a"}`))
	h.end(h.holding(1)[0], done)
	n.ends(lost, dag.RunFailed)
	if v, err := n.GetRun(t.Context(), lost); err != nil || !strings.Contains(v.Message, "task q1 failed: there is no queue q, which a task names: make it with skein queue set q") {
		t.Errorf("it failed with %q, %v", v.Message, err)
	}
	n.queue("q", 1, func(q *store.Queue) { q.PerKey = "params.site" })
	if _, err := n.Recovered(t.Context(), lost); err != nil {
		t.Fatal(err)
	}
	// first ends the first task of a run, as soon as a handler has it.
	first := func(run dag.RunID) {
		t.Helper()
		var k attempt
		eventually(t, "the first task runs", func() bool {
			live := h.now()
			i := slices.IndexFunc(live, func(a attempt) bool { return a.run == run })
			if i >= 0 {
				k = live[i]
			}
			return i >= 0
		})
		h.end(k, done)
	}
	h.holding(1)
	first(n.submit(w, params(`{"site":"b"}`)))
	n.places(2, 0)
	first(n.submit(w, params(`{"site":"a"}`)))
	n.places(2, 1)
	n.sound()
	n.queue("q", 1, func(q *store.Queue) { q.PerKey = "params.site + 1" })
	bad := n.submit(w, params(`{"site":"a"}`))
	first(bad)
	n.ends(bad, dag.RunFailed)
	if v, _ := n.GetRun(t.Context(), bad); !strings.Contains(v.Message, "per_key") {
		t.Errorf("a run without a key fails with %q", v.Message)
	}
	for live := h.holding(2); len(live) > 0; live = h.now() {
		h.end(live[0], done)
		n.sound()
	}
	n.quiet()
	n.free()
}

// apart returns the admission owner, which owns shard 0, and the owner of shard 1. Each shard has a workflow
// that names the queue q, which has one slot.
func apart(t *testing.T, tasks string) (gate, other *node, of [2]store.Workflow) {
	t.Helper()
	gate, other = pair(t)
	gate.own(0, 1)
	gate.queue("q", 1)
	for i := 0; of[0].ID == 0 || of[1].ID == 0; i++ {
		w := gate.shares(fmt.Sprint("w", i), graph(t, tasks, queued))
		of[w.Shard] = w
	}
	gate.own(0)
	other.own(1)
	return gate, other, of
}

// TestTaskQueueElsewhere: shard 0 and the run have different owners. Queue slots are granted and returned by
// messages, which arrive twice; shard 0 moves while a message is in flight.
func TestTaskQueueElsewhere(t *testing.T) {
	a, b, of := apart(t, "q1; q2")
	far := b.submit(of[1])
	b.says()
	a.again(0)
	a.meet() // the message with the grant is written
	near := a.submit(of[0])
	a.again(1)
	a.own()
	a.own(0) // the admission owner loads its state from rows and messages
	if n := a.hands.starts(); n != 0 {
		t.Fatalf("%d attempts of run %s run beside the one whose place is on its way", n, near)
	}
	b.meet()
	k := b.hands.holding(1)
	if len(k) != 1 || k[0].run != far {
		t.Fatalf("%v have places", k)
	}
	b.verified()
	b.hands.end(k[0], done)
	b.says()
	a.again(0)
	a.meet()
	b.own()
	a.own(0, 1) // this node owns both shards, and the grant for the run that has waited longer is a message to itself
	a.meet()
	for _, run := range []dag.RunID{far, near, near} {
		live := a.hands.holding(1)
		if len(live) != 1 || live[0].run != run {
			t.Fatalf("%v have places, want %s", live, run)
		}
		a.hands.end(live[0], done)
	}
	a.ends(far, dag.RunSucceeded)
	a.ends(near, dag.RunSucceeded)
	a.free()
	if diff, err := a.MirrorGate(t.Context()); diff != "" || err != nil {
		t.Errorf("the gate: %s %v", diff, err)
	}
	a.verified()
}

// says waits until there is a message to the admission owner.
func (n *node) says() {
	n.t.Helper()
	eventually(n.t, "something is said to the gate", func() bool {
		page, err := n.store.Messages(context.Background(), 0, 1)
		return err == nil && len(page) > 0
	})
}

// TestTaskQueueLeft: a run ends while a slot for it is on its way, and a new admission owner reads its
// request without knowing that. Nothing leaks. After a recover, the run does not get the slot of its first
// generation.
func TestTaskQueueLeft(t *testing.T) {
	a, b, of := apart(t, "q1")
	run := b.submit(of[1])
	b.says()
	a.again(0)
	asked, err := a.store.Messages(t.Context(), 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	a.meet()
	if err := b.Do(t.Context(), engine.Command{Run: run, Intent: dag.IntentStop}); err != nil {
		t.Fatal(err)
	}
	b.ends(run, dag.RunStopped)
	if _, err := b.Recovered(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	b.meet() // the messages for the first generation
	if n := b.hands.starts(); n != 0 {
		t.Fatalf("%d attempts run on a place of an earlier life", n)
	}
	a.meet() // the messages that the run has left, and asks again
	b.meet()
	k := b.hands.holding(1)
	b.hands.end(k[0], done)
	b.ends(run, dag.RunSucceeded)
	a.meet()
	asked[0].ID = 0 // an old message
	if _, err := a.store.Commit(t.Context(), &store.Batch{Messages: asked}); err != nil {
		t.Fatal(err)
	}
	a.own()
	a.own(0)
	a.meet()
	next := a.submit(of[0])
	a.hands.end(a.hands.holding(1)[0], done)
	a.ends(next, dag.RunSucceeded)
	a.free()
	a.verified()
}

// TestTaskQueueCrash kills the process at each commit of runs that share one queue slot, before and after the
// commit is written. The rows never have two holders, and at the end no slot is held.
func TestTaskQueueCrash(t *testing.T) {
	for _, after := range []bool{false, true} {
		atEveryCommit(t, 7, func(k int) bool {
			st := openers["memory"](t)
			m := newMortal(st, k, after)
			first := newHands(t)
			n := start(t, m, first, naming)
			died := !crewWork(n, m.died)
			n.close()
			second := newHands(t)
			second.past = first
			n = start(t, st, second, naming)
			if !crewWork(n, nil) {
				t.Fatal("the second life died")
			}
			n.quiet()
			n.free()
			n.close()
			return died
		})
	}
}

// crewWork runs three runs with one queue slot. It returns false if the process died.
func crewWork(n *node, died <-chan struct{}) bool {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-died:
			cancel()
		case <-ctx.Done():
		}
	}()
	q := store.Queue{Name: "q", Limit: 1, Order: store.QueueFIFO, Overflow: store.OverflowWait}
	_, err := n.SetQueue(ctx, q, 0)
	g := graph(n.t, "q1; q2; c: q1", queued)
	for i := 0; err == nil && i < 3; i++ {
		var w store.Workflow
		if w, _, err = n.Apply(ctx, engine.Definition{Namespace: "test", Name: "w", Def: []byte("{}"), Graph: g.Pack(), Digest: []byte("w")}); err == nil {
			s := submission(w)
			s.Key = fmt.Sprint(i)
			_, err = n.Submit(ctx, s)
		}
	}
	over := false
	eventually(n.t, "it is done or dead", func() bool {
		select {
		case <-died:
			over = true
			return true
		default:
			return err == nil && n.Idle() && n.Free() == n.slots && n.Waiting() == 0
		}
	})
	return !over
}

// TestSweepDueRetry: a task whose retry is due and that waits for a slot is not a fault, however long it
// waits.
func TestSweepDueRetry(t *testing.T) {
	x := newSwept(t, func(c *engine.Config) { c.Slots = 1 })
	x.hands.held = true
	retried := x.apply("w", graph(t, "a", func(s *dag.GraphSpec) {
		s.Tasks[0].Policy.Retry = dag.Retry{Max: 1, Delay: 50 * time.Millisecond}
	}))
	first := x.submit(retried)
	k := x.hands.holding(1)[0]
	second := x.submit(x.apply("v", graph(t, "a")))
	x.hands.end(k, dag.Result{State: dag.AttemptFailed, Exited: true, ExitCode: 3})
	k = x.hands.holding(1)[0]
	x.later(10 * time.Minute)
	x.sweeps(0)
	x.hands.end(k, done)
	x.ends(second, dag.RunSucceeded)
	x.hands.end(x.hands.holding(1)[0], done)
	x.ends(first, dag.RunSucceeded)
	x.sound()
}

// TestSweepTaskQueue: a sweep finds no fault in tasks that wait for a queue slot while slots of workers are
// free.
func TestSweepTaskQueue(t *testing.T) {
	x := newSwept(t, naming)
	x.hands.held = true
	x.queue("q", 1)
	w := x.shares("w", graph(t, "q1", queued))
	first, second := x.submit(w), x.submit(w)
	k := x.hands.holding(1)
	x.later(10 * time.Minute)
	x.sweeps(0)
	x.hands.end(k[0], done)
	x.ends(first, dag.RunSucceeded)
	x.hands.end(x.hands.holding(1)[0], done)
	x.ends(second, dag.RunSucceeded)
	x.sound()
}
