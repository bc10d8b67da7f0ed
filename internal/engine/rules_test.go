package engine_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/memory"
)

// unreading is the store as one node sees it. The node cannot read namespaces while cut is set.
type unreading struct {
	store.Store
	store.Cluster
	cut *atomic.Bool
}

func (s unreading) NamespaceList(ctx context.Context) ([]store.Namespace, error) {
	if s.cut.Load() {
		return nil, store.ErrUnavailable
	}
	return s.Store.NamespaceList(ctx)
}

// TestNarrowedRules: when the call that narrows the rules of a namespace returns, no node begins an attempt
// by the earlier rules. This is so even if the other node cannot read the database, and if a caller repeats
// the call because it lost the answer.
func TestNarrowedRules(t *testing.T) {
	var cut atomic.Bool
	a, b := pair(t, func(c *engine.Config) {
		if c.QuotasEach = 20 * time.Millisecond; c.Node == "b" {
			c.Store = unreading{c.Store, c.Store.(store.Cluster), &cut}
		}
	})
	of, other := engine.NamespacesOf(a.Engine), engine.NamespacesOf(b.Engine)
	set := func(change func(*store.Namespace)) {
		t.Helper()
		if _, err := of.Change(t.Context(), "test", "ann", change); err != nil {
			t.Fatal(err)
		}
	}
	// read returns a reading in which there are no rules. Afterwards the other node no longer reads
	// namespaces.
	read := func() (from engine.Reading) {
		t.Helper()
		eventually(t, "the other node knows that there are no rules", func() bool {
			is, last, err := other.Demands(t.Context(), "test")
			from = last
			return err == nil && is.Isolation == "" && is.Demands == store.Demands{}
		})
		cut.Store(true)
		return from
	}
	for name, change := range map[string]func(*store.Namespace){
		"a level":        func(is *store.Namespace) { is.Isolation = "fence" },
		"a higher level": func(is *store.Namespace) { is.Isolation = "box" },
		"paths":          func(is *store.Namespace) { is.Isolation, is.AllowRead = "fence", "/srv/a" },
		"other paths":    func(is *store.Namespace) { is.Isolation, is.AllowRead = "fence", "/srv/b" },
		"calls":          func(is *store.Namespace) { is.Egress = "public" },
	} {
		set(func(is *store.Namespace) { is.Isolation, is.Demands = "", store.Demands{} })
		from := read()
		set(change)
		if !from.Old(time.Now()) {
			t.Errorf("%s: the call returned while an attempt could begin by the rules before", name)
		}
		if is, _, err := other.Demands(t.Context(), "test"); err == nil {
			t.Errorf("%s: a node that cannot read the database takes the rules for %+v", name, is)
		}
		cut.Store(false)
		if is, from, err := other.Demands(t.Context(), "test"); err != nil || is.Isolation+is.Egress == "" || from.Old(time.Now()) {
			t.Errorf("%s: afterwards the node knows %+v, %v", name, is, err)
		}
	}

	set(func(is *store.Namespace) { is.Isolation, is.Demands = "", store.Demands{} })
	from := read()
	rows, err := of.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rows[0].Revision, rows[0].Isolation = rows[0].Revision+1, "user"
	if _, err := a.store.PutNamespace(t.Context(), rows[0]); err != nil { // a call whose answer was lost
		t.Fatal(err)
	}
	set(func(is *store.Namespace) { is.Isolation = "user" })
	if !from.Old(time.Now()) {
		t.Error("the repeated call returned while an attempt could begin by the rules before")
	}
}

// TestMayRead checks which paths the rules of a namespace allow.
func TestMayRead(t *testing.T) {
	n := start(t, openers["memory"](t), newHands(t), bounded)
	of := engine.NamespacesOf(n.Engine)
	may := func(path string) bool {
		t.Helper()
		return of.MayRead(t.Context(), "test", path) == nil
	}
	if !may("/etc") {
		t.Error("without rules, a path is refused")
	}
	if _, err := of.Change(t.Context(), "test", "ann", func(is *store.Namespace) {
		is.Isolation, is.AllowRead, is.AllowWrite = "fence", "/srv/in", "/srv/out"
	}); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{"/srv/in": true, "/srv/in/": true, "/srv/out": true, "/srv/in/a": false, "/srv/in/../x": false, "/etc": false, "/": false} {
		if may(path) != want {
			t.Errorf("%s is allowed: %v", path, !want)
		}
	}
	if name, err := of.Of(t.Context(), n.apply("w", graph(t, "a")).ID); err != nil || name != "test" {
		t.Errorf("the namespace of a workflow is %q, %v", name, err)
	}
}

// TestNarrowedAlone: on a node that is alone, which does not wait, a job that was made before a change does
// not begin by the earlier rules.
func TestNarrowedAlone(t *testing.T) {
	st := memory.New(memory.Options{})
	t.Cleanup(func() { _ = st.Close() })
	n := start(t, st, newHands(t), func(c *engine.Config) { c.QuotasEach = time.Hour })
	of := engine.NamespacesOf(n.Engine)
	for name, c := range map[string]struct {
		change   func(*store.Namespace)
		narrower bool
	}{
		"a level": {func(is *store.Namespace) { is.Isolation = "fence" }, true},
		"a quota": {func(is *store.Namespace) { is.Runs = 7 }, false},
	} {
		_, from, err := of.Demands(t.Context(), name)
		if err != nil || from.Old(time.Now()) {
			t.Fatal(name, err)
		}
		if _, err := of.Change(t.Context(), name, "ann", c.change); err != nil {
			t.Fatal(err)
		}
		if from.Old(time.Now()) != c.narrower {
			t.Errorf("%s: an attempt may begin by the rules before: %v", name, c.narrower)
		}
		if _, from, err := of.Demands(t.Context(), name); err != nil || from.Old(time.Now()) {
			t.Errorf("%s: afterwards %v, %v", name, from, err)
		}
	}
}
