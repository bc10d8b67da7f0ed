package engine_test

import (
	"context"
	"errors"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// demand sets the isolation of the namespace of all workflows.
func (n *node) demand(level string) {
	n.t.Helper()
	if _, err := engine.NamespacesOf(n.Engine).Change(context.Background(), "test", "ann", func(is *store.Namespace) { is.Isolation = level }); err != nil {
		n.t.Fatal(err)
	}
}

// levelled returns an engine that offers several levels. Its attempts are held.
func levelled(t *testing.T, st store.Store, levels ...string) *node {
	h := newHands(t)
	h.held = true
	return start(t, st, h, bounded, func(c *engine.Config) {
		c.Traits.Labels, c.Traits.Levels = map[string]string{dag.LabelIsolation: levels[0]}, levels
	})
}

// placeOf returns the placement with which the only held attempt of a run was assigned.
func (n *node) placeOf(run dag.RunID) dag.Place {
	n.t.Helper()
	eventually(n.t, "the run has an attempt", func() bool { return len(of(n.hands, run)) == 1 })
	return of(n.hands, run)[0].Place
}

// of returns the held attempts of a run.
func of(h *hands, run dag.RunID) (all []engine.Assignment) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for k, a := range h.live {
		if k.run == run {
			all = append(all, a)
		}
	}
	return all
}

// TestDemandedIsolation: each attempt that begins has the level that its namespace demands at that time, or
// the higher one of its task. A task that no worker can give the level waits with the reason, also after a
// restart, and runs once the demand is lower.
func TestDemandedIsolation(t *testing.T) {
	for name, open := range openers {
		t.Run(name, func(t *testing.T) {
			st := open(t)
			n := levelled(t, st, "fence", "user")
			plain := n.apply("plain", graph(t, "a"))
			strict := n.apply("strict", graph(t, "a", func(s *dag.GraphSpec) {
				s.Tasks[0].Policy.Place = dag.NewPlace("", "", map[string]string{dag.LabelIsolation: "user"})
			}))
			before := n.submit(plain)
			if p := n.placeOf(before); p != dag.Anywhere {
				t.Errorf("without a demand: %s", p)
			}
			n.demand("user")
			if p := n.placeOf(n.submit(plain)); p.Isolation() != "user" {
				t.Errorf("at user: %s", p)
			}
			n.demand("fence")
			if p := n.placeOf(n.submit(strict)); p.Isolation() != "user" {
				t.Errorf("the demand lowers the level of a task: %s", p)
			}
			n.demand("box")
			waits, other := n.submit(plain), n.submit(strict)
			for _, id := range []dag.RunID{waits, other} {
				x, err := n.Explain(t.Context(), id, "a")
				if err != nil || len(x.Reasons) != 1 || x.Reasons[0].Code != "no_worker" || x.Reasons[0].Args["why"] != "no worker offers isolation box" ||
					x.Reasons[0].Unblocks != "a worker for it: skein worker --isolation box" {
					t.Errorf("explained: %+v, %v", x, err)
				}
			}
			if all, err := n.Unplaced(t.Context(), "test", graph(t, "a")); err != nil || len(all) != 1 {
				t.Errorf("at an apply: %+v, %v", all, err)
			}
			n.sound()
			n.close()

			n = levelled(t, st, "fence", "user")
			eventually(t, "the attempts of the earlier process are lost and wait", func() bool {
				x, err := n.Explain(t.Context(), before, "a")
				return err == nil && len(x.Reasons) == 1 && x.Reasons[0].Code == "no_worker"
			})
			if live := n.hands.holding(0); len(live) != 0 {
				t.Errorf("%v run below the demanded level after a restart", live)
			}
			n.demand("")
			if p := n.placeOf(waits); p != dag.Anywhere {
				t.Errorf("without a demand: %s", p)
			}
			for _, a := range n.hands.holding(5) {
				endOf(n.hands, a)
			}
			n.quiet()
		})
	}
}

// TestDemandedUser: a task of a namespace with a Unix user starts only on a worker that permits this user.
// Until then it waits with the reason.
func TestDemandedUser(t *testing.T) {
	for name, open := range openers {
		t.Run(name, func(t *testing.T) {
			h := newHands(t)
			h.held = true
			n := start(t, open(t), h, bounded, func(c *engine.Config) {
				c.Traits.Labels, c.Traits.Levels, c.Traits.Users = map[string]string{dag.LabelIsolation: "fence"}, []string{"fence", "user"}, []string{"ann"}
			})
			as := func(level, user string) error {
				_, err := engine.NamespacesOf(n.Engine).Change(t.Context(), "test", "ann", func(is *store.Namespace) { is.Isolation, is.RunAs = level, user })
				return err
			}
			if err := as("fence", "ann"); !errors.Is(err, errkind.ErrInvalid) {
				t.Errorf("a user at the level fence: %v", err)
			}
			w := n.apply("w", graph(t, "a"))
			if err := as("user", "bob"); err != nil {
				t.Fatal(err)
			}
			run := n.submit(w)
			eventually(t, "the task waits with the reason", func() bool {
				x, err := n.Explain(t.Context(), run, "a")
				return err == nil && len(x.Reasons) == 1 && x.Reasons[0].Code == "no_worker" && x.Reasons[0].Args["why"] == "no worker permits the user bob" &&
					x.Reasons[0].Unblocks == "a worker for it: skein worker --isolation user --task-users bob"
			})
			if err := as("user", "ann"); err != nil {
				t.Fatal(err)
			}
			if p := n.placeOf(run); p.User() != "ann" {
				t.Errorf("placed on %s", p)
			}
			for _, a := range n.hands.holding(1) {
				endOf(n.hands, a)
			}
			n.quiet()
		})
	}
}

// TestBoundPlacement: a placement that a worker of some namespaces can fit names the namespace of the task.
func TestBoundPlacement(t *testing.T) {
	st := openers["memory"](t)
	h := newHands(t)
	h.held = true
	n := start(t, st, h, bounded, func(c *engine.Config) { c.Traits.Groups = []string{"etl"} })
	w := n.apply("w", graph(t, "a", func(s *dag.GraphSpec) { s.Tasks[0].Policy.Place = dag.NewPlace("", "etl", nil) }))
	if p := n.placeOf(n.submit(w)); p.String() != "group etl, namespace test" {
		t.Errorf("%s", p)
	}
	for _, a := range n.hands.holding(1) {
		endOf(n.hands, a)
	}
	n.quiet()
}

// early is a store that a node of an earlier version also uses.
type early struct{ store.Store }

func (early) LevelsStand() bool { return false }

// TestEarlierNodes: while a node of an earlier version is a member, no level can be demanded, and placements
// have no part that this node does not know.
func TestEarlierNodes(t *testing.T) {
	h := newHands(t)
	h.held = true
	n := start(t, early{openers["memory"](t)}, h, bounded, func(c *engine.Config) { c.Traits.Groups = []string{"etl"} })
	_, err := engine.NamespacesOf(n.Engine).Change(t.Context(), "test", "ann", func(is *store.Namespace) { is.Isolation = "user" })
	if !errors.Is(err, errkind.ErrConflict) {
		t.Errorf("a level was set: %v", err)
	}
	n.quotas(store.Quotas{Runs: 9})
	w := n.apply("w", graph(t, "a", func(s *dag.GraphSpec) { s.Tasks[0].Policy.Place = dag.NewPlace("", "etl", nil) }))
	if p := n.placeOf(n.submit(w)); p.String() != "group etl" {
		t.Errorf("%s", p)
	}
	endOf(h, h.holding(1)[0])
	n.quiet()
}

// TestTraitsAfterReload: the traits of an engine have the extensions of the last reload.
func TestTraitsAfterReload(t *testing.T) {
	n := start(t, openMemory(t), newHands(t), func(c *engine.Config) { c.Traits.Groups = []string{"etl"} })
	engine.Extend(n.Engine, []dag.Extension{{Kind: "slurm", Version: "1.4.0"}}, nil)
	if is := n.Traits(); len(is.Extensions) != 1 || is.Extensions[0].Kind != "slurm" || len(is.Groups) != 1 {
		t.Errorf("%+v", is)
	}
	n.quiet()
}
