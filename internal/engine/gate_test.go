package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/memory"
)

// friends is a Peers whose nodes are alive: attempts of other nodes are not lost.
type friends struct{ alone }

func (*friends) Alive(dag.HandlerID) bool { return true }

// pair returns two engines of a cluster over one store of two shards. Their attempts run until the test ends
// them. No message is read until a test calls Meet.
func pair(t *testing.T, change ...func(*engine.Config)) (a, b *node) {
	t.Helper()
	st := memory.New(memory.Options{Shards: 2})
	t.Cleanup(func() { _ = st.Close() })
	one := func(name string) *node {
		h := newHands(t)
		h.held = true
		n := start(t, st, h, append([]func(*engine.Config){naming, func(c *engine.Config) { c.Peers, c.Node = &friends{}, name }}, change...)...)
		is := n.Handler()
		if err := st.Join(t.Context(), store.Member{Handler: is.ID, UUID: is.UUID, Name: name, State: store.MemberActive}); err != nil {
			t.Fatal(err)
		}
		return n
	}
	return one("a"), one("b")
}

// own makes a node own these shards.
func (n *node) own(shards ...dag.ShardID) {
	n.t.Helper()
	if got, err := n.Own(context.Background(), shards); err != nil || !slices.Equal(got, shards) {
		n.t.Fatalf("owns %v, want %v: %v", got, shards, err)
	}
}

// meet makes a node read its messages, and waits until the node has processed them. It repeats this while
// there are messages, because another node may write one after a read.
func (n *node) meet() {
	n.t.Helper()
	eventually(n.t, "what was said is taken in", func() bool {
		if err := n.Meet(context.Background()); err != nil {
			n.t.Fatal(err)
		}
		for s := range dag.ShardID(2) {
			if page, err := n.store.Messages(context.Background(), s, 10); err != nil || n.Owns(s) && len(page) > 0 {
				return false
			}
		}
		return true
	})
}

// homes makes a node that owns both shards apply a workflow with names of queues or locks in each shard.
func (n *node) homes(what names) (of [2]store.Workflow) {
	n.t.Helper()
	for i := 0; of[0].ID == 0 || of[1].ID == 0; i++ {
		if i == 100 {
			n.t.Fatal("no workflow is in one of the shards")
		}
		w := n.naming(fmt.Sprint("w", i), what)
		of[w.Shard] = w
	}
	return of
}

var done = dag.Result{State: dag.AttemptSucceeded, Exited: true}

// asking makes a run of shard 1 ask for the only queue slot. Node b owns shard 1, and node a is the admission
// owner.
func asking(t *testing.T) (a, b *node, of [2]store.Workflow, run dag.RunID) {
	a, b = pair(t)
	a.own(0, 1)
	a.queue("q", 1)
	of = a.homes(names{Queue: "q"})
	a.own(0)
	b.own(1)
	return a, b, of, b.submit(of[1])
}

// TestGateTaken: shard 0 moves while a grant is in flight. Its new owner counts this grant. It does not count
// the grant of a run that has left, if the previous owner has read that message.
func TestGateTaken(t *testing.T) {
	a, b, of, run := asking(t)
	a.meet()
	next := a.submit(of[0])
	a.own()
	b.own(0, 1) // the grant is not read yet
	if s := b.state(next); s != dag.RunWaiting {
		t.Fatalf("a run that found the place given away is %s", s)
	}
	b.meet()
	k := b.hands.holding(1)
	if len(k) != 1 || k[0].run != run {
		t.Fatalf("%v were let through, want %s", k, run)
	}
	b.hands.end(k[0], done)
	if k = b.hands.holding(1); k[0].run != next {
		t.Fatalf("run %s is next, want %s", k[0].run, next)
	}
	b.hands.end(k[0], done)
	b.ends(next, dag.RunSucceeded)

	b.own(1)
	a.own(0)
	left := b.submit(of[1])
	a.meet() // a grants the slot
	if err := b.Do(t.Context(), engine.Command{Run: left, Intent: dag.IntentStop}); err != nil {
		t.Fatal(err)
	}
	b.ends(left, dag.RunStopped)
	a.meet() // a reads that the run has left
	a.own()
	a.own(0) // the grant still waits for the other
	next = a.submit(of[0])
	if k = a.hands.holding(1); k[0].run != next {
		t.Fatalf("run %s has the place, want %s", k[0].run, next)
	}
	b.meet()
	a.hands.end(k[0], done)
	a.ends(next, dag.RunSucceeded)
	a.free()
	a.verified()
}

// TestGateOwnerChanges: the shard of a run moves between its request and the grant, and again before the run
// leaves. Every message arrives twice.
func TestGateOwnerChanges(t *testing.T) {
	a, b, of, run := asking(t)
	a.again(0)
	b.own()
	a.own(0, 1)
	a.meet()
	k := a.hands.holding(1)
	if k[0].run != run {
		t.Fatalf("%s was let through, want %s", k[0].run, run)
	}
	a.own(0)
	b.own(1)
	second := b.submit(of[1])
	third := a.submit(of[0])
	a.again(0)
	a.meet()
	if _, err := b.Hear(t.Context(), a.Handler().ID, engine.Report{Run: run, Task: k[0].task, Token: k[0].token, Result: done}); err != nil {
		t.Fatal(err)
	}
	b.ends(run, dag.RunSucceeded)
	a.again(0) // the message that the run has left
	a.meet()
	a.again(1) // the message with the grant
	if s := a.state(third); s != dag.RunWaiting {
		t.Fatalf("run %s, which asked last, is %s", third, s)
	}
	b.meet()
	if k = b.hands.holding(1); k[0].run != second {
		t.Fatalf("run %s is next, want %s", k[0].run, second)
	}
	b.hands.end(k[0], done)
	b.ends(second, dag.RunSucceeded)
	a.meet()
	k = a.hands.holding(2)
	if k[1].run != third {
		t.Fatalf("run %s is last, want %s", k[1].run, third)
	}
	a.hands.end(k[1], done) // the other attempt was reported by Hear
	a.ends(third, dag.RunSucceeded)
	a.free()
	a.verified()
}

// again repeats the messages that wait for a shard.
func (n *node) again(s dag.ShardID) {
	n.t.Helper()
	page, err := n.store.Messages(context.Background(), s, 10)
	if err != nil || len(page) == 0 {
		n.t.Fatalf("%d messages wait for shard %d: %v", len(page), s, err)
	}
	for i := range page {
		page[i].ID = 0
	}
	if _, err := n.store.Commit(context.Background(), &store.Batch{Messages: page}); err != nil {
		n.t.Fatal(err)
	}
}

// TestGateTakenAtOnce: an engine that takes over admission and gets a run at the same time knows all
// holders.
func TestGateTakenAtOnce(t *testing.T) {
	a, b, of, run := asking(t)
	a.meet()
	b.meet()
	b.hands.holding(1)
	a.own()
	ids := make(chan dag.RunID, 1)
	owned := make(chan error, 1)
	if err := b.Ask(t.Context(), func() error {
		go func() {
			_, err := b.Own(context.Background(), []dag.ShardID{0, 1})
			owned <- err
		}()
		eventually(t, "the change waits", func() bool { return b.Waiting() == 1 })
		go func() {
			got, err := b.Submit(context.Background(), submission(of[1]))
			if err != nil {
				t.Error(err)
			}
			ids <- got.Run
		}()
		eventually(t, "the run waits, too", func() bool { return b.Waiting() == 2 })
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := <-owned; err != nil {
		t.Fatal(err)
	}
	next := <-ids
	if s := b.state(next); s != dag.RunWaiting {
		v, _ := b.GetRun(t.Context(), next)
		t.Fatalf("while run %s has the only place, the next is %s: %s", run, s, v.Message)
	}
	b.hands.end(b.hands.holding(1)[0], done)
	b.hands.end(b.hands.holding(1)[0], done)
	b.ends(next, dag.RunSucceeded)
	b.free()
	b.verified()
}

// TestGateJudgesLate: a run whose request was not read before admission moved is refused nevertheless if
// its queue says so or its lock is taken. The same holds for a run whose queue was removed meanwhile.
func TestGateJudgesLate(t *testing.T) {
	a, b, of, run := asking(t)
	a.meet()
	b.meet()
	k := b.hands.holding(1)[0]
	a.queue("q", 1, func(q *store.Queue) { q.Overflow = store.OverflowSkip })
	late := b.submit(of[1])
	a.own()
	a.own(0)
	a.meet()
	b.meet()
	b.ends(late, dag.RunSkipped)
	b.hands.end(k, done)
	b.ends(run, dag.RunSucceeded)
	a.meet() // a reads that the run has left
	late = b.submit(of[1])
	if err := a.DropQueue(t.Context(), "q", 0); err != nil {
		t.Fatal(err)
	}
	a.own()
	a.own(0)
	a.meet()
	b.meet()
	b.ends(late, dag.RunFailed)
	if v, err := b.GetRun(t.Context(), late); err != nil || v.Cause != dag.CauseQueue {
		t.Errorf("%s: %v", v.Message, err)
	}
	a.free()
	a.verified()
}

// TestClaimsCircle: two families wait for each other's locks. The run that began to wait later fails with a
// message that describes the circle.
func TestClaimsCircle(t *testing.T) {
	h := newHands(t)
	h.held = true
	n := start(t, openers["memory"](t), h, naming, calls)
	with := func(name, tasks string, what names, change ...func(*dag.GraphSpec)) store.Workflow {
		def, err := json.Marshal(what)
		if err != nil {
			t.Fatal(err)
		}
		w, _, err := n.Apply(t.Context(), engine.Definition{Namespace: "test", Name: name, Def: def, Graph: graph(t, tasks, change...).Pack(), Digest: def, User: "ada"})
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	wantB := with("wantB", "x", names{Locks: []string{"b"}})
	wantA := with("wantA", "x", names{Locks: []string{"a"}})
	hasA := n.submit(with("hasA", "go; wantB: go", names{Locks: []string{"a"}}, logical(map[string]*dag.Logic{"wantB": call})))
	hasB := n.submit(with("hasB", "go; wantA: go", names{Locks: []string{"b"}}, logical(map[string]*dag.Logic{"wantA": call})))
	live := h.holding(2)
	h.end(live[0], done)
	eventually(t, "the first child waits", func() bool {
		all := runsOf(t, n.store, wantB)
		return len(all) == 1 && all[0].State == dag.RunWaiting
	})
	h.end(live[1], done)
	n.ends(hasB, dag.RunFailed) // its child asked last
	young := runsOf(t, n.store, wantA)[0]
	for _, part := range []string{"circle", "lock a is held by run " + hasA.String(), "lock b is held by run " + hasB.String()} {
		if young.Cause != dag.CauseCycle || !strings.Contains(young.Message, part) {
			t.Errorf("it failed with %s: %q, want %q", young.Cause, young.Message, part)
		}
	}
	h.end(h.holding(1)[0], done) // the other child has its lock now
	n.ends(hasA, dag.RunSucceeded)
	n.quiet()
	n.free()
}

// TestOverflowAndLock: a run that wants a queue slot and a lock first waits for the lock. When it gets the
// lock but the queue is full, the run is denied, and the next run gets the lock.
func TestOverflowAndLock(t *testing.T) {
	for overflow, end := range map[string]dag.RunState{store.OverflowSkip: dag.RunSkipped, store.OverflowFail: dag.RunFailed} {
		h := newHands(t)
		h.held = true
		n := start(t, openers["memory"](t), h, naming)
		n.queue("q", 1, func(q *store.Queue) { q.Overflow = overflow })
		both := n.naming("both", names{Queue: "q", Locks: []string{"l"}})
		n.submit(n.naming("lock", names{Locks: []string{"l"}}))
		sent := n.submit(both)
		n.submit(n.naming("queue", names{Queue: "q"}))
		live := h.holding(2)
		if s := n.state(sent); s != dag.RunWaiting {
			t.Fatalf("while the lock is taken it is %s", s)
		}
		n.reloads()
		h.end(live[0], done)
		n.ends(sent, end)
		h.end(live[1], done)
		n.quiet()
		n.free()
		kept := n.submit(both)
		h.end(h.holding(1)[0], done)
		n.ends(kept, dag.RunSucceeded)
		n.quiet()
		n.free()
		n.close()
	}
}

// TestWindowRefilled: more runs wait than fit into a window; all of them are admitted, in order.
func TestWindowRefilled(t *testing.T) {
	const waiting = 460
	st := openers["memory"](t)
	n := start(t, st, newHands(t), naming)
	n.queue("q", 1)
	pause := func(state string) {
		t.Helper()
		if _, err := n.SetQueueState(t.Context(), "q", engine.QueueState{State: state}); err != nil {
			t.Fatal(err)
		}
	}
	pause(store.QueuePaused)
	w := n.naming("w", names{Queue: "q"})
	var ids []dag.RunID
	for range waiting {
		ids = append(ids, n.submit(w))
	}
	n.close()
	h := newHands(t)
	n = start(t, st, h, naming)
	pause(store.QueueActive)
	n.quiet()
	var got []dag.RunID
	for _, k := range h.order {
		got = append(got, k.run)
	}
	if !slices.Equal(got, ids) {
		t.Errorf("%d of %d runs were let through, or in another order", len(got), len(ids))
	}
	n.free()
}
