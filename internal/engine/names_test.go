package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// inSpace applies a workflow of a namespace whose runs name a queue, and whose task q1 names it, too.
func (n *node) inSpace(namespace, def string, g *dag.Graph) store.Workflow {
	n.t.Helper()
	w, _, err := n.Apply(n.t.Context(), engine.Definition{Namespace: namespace, Name: "w", Def: []byte(def), Graph: g.Pack(), Digest: g.Pack(), User: "ada"})
	if err != nil {
		n.t.Fatal(err)
	}
	return w
}

// TestQueuesOfNamespaces: a workflow that names a queue uses the queue of its namespace or, if there is none,
// the shared queue of that name. The runs of one queue do not wait for those of the other, also after a
// restart.
func TestQueuesOfNamespaces(t *testing.T) {
	for name, open := range openers {
		t.Run(name, func(t *testing.T) {
			h := newHands(t)
			h.held = true
			n := start(t, open(t), h, naming)
			n.queue("q", 1)
			n.queue("shop/q", 1)
			n.queue("shop", 1, func(q *store.Queue) { q.PerKey = `"q"` }) // its line would be shop/q
			shop, web := n.inSpace("shop", `{"queue":"q"}`, wide(t, 1)), n.inSpace("web", `{"queue":"q"}`, wide(t, 1))
			other := n.inSpace("other", `{"queue":"shop"}`, wide(t, 1))
			first := []dag.RunID{n.submit(shop), n.submit(web), n.submit(other)}
			second := n.submit(shop)
			if got := runs(h.holding(3)); !slices.Equal(got, first) {
				t.Fatalf("started %v, want %v", got, first)
			}
			if r, err := n.GetRun(t.Context(), second); err != nil || r.State != dag.RunWaiting || r.Claim.Queue != "shop/q" {
				t.Fatalf("the second run of shop: %+v, %v", r, err)
			}
			x, err := n.Explain(t.Context(), second, "")
			if err != nil || len(x.Reasons) != 1 || x.Reasons[0].Args["queue"] != "shop/q" {
				t.Errorf("explained by %+v, %v", x.Reasons, err)
			}
			for queue, want := range map[string][2]int64{"q": {1, 0}, "shop/q": {1, 1}, "shop": {1, 0}} {
				if v, err := n.QueueOf(t.Context(), queue); err != nil || v.Held != want[0] || v.Waiting != want[1] {
					t.Errorf("queue %s: %d held, %d waiting, %v", queue, v.Held, v.Waiting, err)
				}
			}
			n.reloads()
			if err := n.DropQueue(t.Context(), "shop/q", 0); err == nil {
				t.Error("a queue in use is removed")
			}
			h.end(h.holding(3)[1], done) // a run of another queue
			n.ends(first[1], dag.RunSucceeded)
			if s := n.state(second); s != dag.RunWaiting {
				t.Errorf("the second run of shop is %s", s)
			}
			h.held = false
			for _, k := range h.now() {
				h.end(k, done)
			}
			n.quiet()
			n.free()
			if err := n.DropQueue(t.Context(), "shop/q", 0); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestTaskQueuesOfNamespaces: tasks that name a queue use the queue of their namespace.
func TestTaskQueuesOfNamespaces(t *testing.T) {
	h, n := held(t)
	n.queue("q", 1)
	n.queue("shop/q", 1)
	g := graph(t, "q1; q2", queued)
	shop, web := n.inSpace("shop", `{}`, g), n.inSpace("web", `{}`, g)
	ours := n.submit(shop)
	n.submit(web)
	if h.holding(2); h.in() != 2 {
		t.Fatalf("%d tasks of both queues are assigned", h.in())
	}
	n.sound()
	if r, err := n.GetRun(t.Context(), ours); err != nil || len(r.Shares) != 1 || r.Shares[0].Queue != "shop/q" || r.Shares[0].Has() != 1 {
		t.Errorf("the shares of the run of shop: %+v, %v", r.Shares, err)
	}
	v, err := n.QueueOf(t.Context(), "shop/q")
	if err != nil || len(v.Crews) != 1 || v.Crews[0].Run != ours || !slices.Equal(v.Crews[0].Running, []string{"q1"}) {
		t.Errorf("the queue of shop: %+v, %v", v.Crews, err)
	}
	n.reloads()
	for range 4 {
		if live := h.now(); len(live) > 0 {
			h.end(live[0], done)
			n.sound()
		}
	}
	n.quiet()
	n.free()
}

// locking applies a workflow of a namespace whose runs hold a lock.
func (n *node) locking(namespace, lock string) store.Workflow {
	n.t.Helper()
	return n.inSpace(namespace, `{"locks":["`+lock+`"]}`, wide(n.t, 1))
}

// TestLocksOfNamespaces: a lock belongs to the namespace of the workflow that names it, unless the name
// begins with global/. Namespaces that share their locks use the names without a namespace. The setting
// cannot change while a run could hold a lock under its earlier name.
func TestLocksOfNamespaces(t *testing.T) {
	for name, open := range openers {
		t.Run(name, func(t *testing.T) {
			h := newHands(t)
			h.held = true
			n := start(t, open(t), h, naming, bounded)
			share := func(namespace, locks string) error {
				_, err := engine.NamespacesOf(n.Engine).Change(t.Context(), namespace, "ann", func(is *store.Namespace) { is.Locks = locks })
				return err
			}
			for _, ns := range []string{"old", "older"} {
				if err := share(ns, store.LocksShared); err != nil {
					t.Fatal(err)
				}
			}
			begin := func(w store.Workflow) dag.RunID { return n.submit(w) }
			shop := begin(n.locking("shop", "dock"))
			web := begin(n.locking("web", "dock"))
			old := begin(n.locking("old", "dock"))
			if got := runs(h.holding(3)); !slices.Equal(got, []dag.RunID{shop, web, old}) {
				t.Fatalf("started %v, want %v", got, []dag.RunID{shop, web, old})
			}
			waits := func(namespace, lock string, holder dag.RunID) dag.RunID {
				t.Helper()
				id := begin(n.inLock(namespace, lock))
				r, err := n.GetRun(t.Context(), id)
				if err != nil || r.State != dag.RunWaiting || r.Message != "" {
					t.Fatalf("a run of %s: %s %s, %v", namespace, r.State, r.Message, err)
				}
				x, err := n.Explain(t.Context(), id, "")
				if err != nil || len(x.Reasons) != 1 || x.Reasons[0].Args["lock"] != "dock" || !strings.Contains(x.Reasons[0].Holder, holder.String()) {
					t.Errorf("explained by %+v, %v", x.Reasons, err)
				}
				return id
			}
			waits("shop", "dock", shop)
			waits("older", "dock", old)
			waits("web", "global/dock", old)
			all, err := n.Locks(t.Context())
			if err != nil || len(all) != 3 || all[0].Namespace != "" || all[1].Namespace != "shop" || all[2].Namespace != "web" || all[2].Name != "dock" {
				t.Errorf("locks %+v, %v", all, err)
			}
			if err := share("shop", store.LocksShared); !errors.Is(err, errkind.ErrConflict) {
				t.Errorf("changed while runs hold locks: %v", err)
			}
			n.reloads()
			h.held = false
			for _, k := range h.now() {
				h.end(k, done)
			}
			n.quiet()
			n.free()
			if err := share("shop", store.LocksShared); err != nil {
				t.Error(err)
			}
		})
	}
}

// inLock does the same as locking, with another workflow.
func (n *node) inLock(namespace, lock string) store.Workflow {
	n.t.Helper()
	def := `{"locks":["` + lock + `"]}`
	g := wide(n.t, 1)
	w, _, err := n.Apply(n.t.Context(), engine.Definition{Namespace: namespace, Name: "second", Def: []byte(def), Graph: g.Pack(), Digest: []byte(def), User: "ada"})
	if err != nil {
		n.t.Fatal(err)
	}
	return w
}

// TestLockNames: no lock name in a definition can be the stored name of a lock of a namespace.
func TestLockNames(t *testing.T) {
	_, n := held(t)
	id := n.submit(n.inSpace("web", `{"locks":["shop\u001fdock"]}`, wide(t, 1)))
	n.ends(id, dag.RunFailed)
	if r, err := n.GetRun(t.Context(), id); err != nil || r.Cause != dag.CauseLock {
		t.Errorf("%s %s, %v", r.Cause, r.Message, err)
	}
}

// TestEarlierNames: while a node of an earlier version is a member, there are no queues of namespaces, no
// demands except the level of isolation, and all locks are shared.
func TestEarlierNames(t *testing.T) {
	h := newHands(t)
	h.held = true
	n := start(t, unnamed{openers["memory"](t)}, h, naming, bounded)
	if _, err := n.SetQueue(t.Context(), store.Queue{Name: "shop/q", Order: store.QueueFIFO, Overflow: store.OverflowWait}, 0); !errors.Is(err, errkind.ErrConflict) {
		t.Errorf("a queue of a namespace: %v", err)
	}
	n.queue("q", 1)
	if _, err := engine.NamespacesOf(n.Engine).Change(t.Context(), "shop", "ann", func(is *store.Namespace) { is.Egress = "public" }); !errors.Is(err, errkind.ErrConflict) {
		t.Errorf("a demand: %v", err)
	}
	n.submit(n.locking("shop", "dock"))
	second := n.submit(n.locking("web", "dock"))
	h.holding(1)
	if s := n.state(second); s != dag.RunWaiting {
		t.Errorf("the second run is %s", s)
	}
	h.held = false
	for _, k := range h.now() {
		h.end(k, done)
	}
	n.quiet()
}

// unnamed is a store that a node of an earlier version also uses.
type unnamed struct{ store.Store }

func (unnamed) NamesStand() bool { return false }

// TestQueuesOfNamespaceAreBounded: the editors of a namespace cannot fill the memory of the admission owner.
func TestQueuesOfNamespaceAreBounded(t *testing.T) {
	n := start(t, openMemory(t), newHands(t), naming)
	for i := range engine.QueuesOwnMax {
		n.queue(fmt.Sprintf("shop/q%d", i), 1)
	}
	n.queue("shop/q1", 2)
	n.queue("q100", 1)
	n.queue("web/q", 1)
	more := store.Queue{Name: "shop/more", Limit: 1, Order: store.QueueFIFO, Overflow: store.OverflowWait}
	if _, err := n.SetQueue(t.Context(), more, 0); !errors.Is(err, errkind.ErrConflict) {
		t.Errorf("a queue beyond the limit: %v", err)
	}
	if err := n.DropQueue(t.Context(), "shop/q1", 0); err != nil {
		t.Fatal(err)
	}
	n.queue("shop/more", 1)
}
