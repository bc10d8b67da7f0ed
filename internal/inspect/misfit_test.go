package inspect_test

import (
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/store"
)

// TestMisfit: the reason names the label, group or kind that no member has.
func TestMisfit(t *testing.T) {
	w := func(name string, slots int32, cordoned bool, groups []string, labels map[string]string) store.Member {
		return store.Member{Name: name, Worker: true, Slots: slots, Cordoned: cordoned, Traits: store.Traits{Groups: groups, Labels: labels}}
	}
	there := []store.Member{{Name: "n1", Slots: 0, Traits: store.Traits{Groups: []string{"nodes"}}},
		w("w1", 4, false, []string{"etl"}, map[string]string{"disk": "ssd"}), w("w2", 4, false, []string{"web"}, nil), w("w3", 4, true, []string{"gpu"}, nil)}
	for _, tt := range []struct {
		p    dag.Place
		want string
	}{
		{dag.Anywhere, ""},
		{dag.NewPlace("w1", "etl", map[string]string{"disk": "ssd"}), ""},
		{dag.NewPlace("", "ELT", nil), "no worker has group ELT"},
		{dag.NewPlace("w9", "", map[string]string{"disk": "tape"}), "no worker has node w9, nor label disk=tape"},
		{dag.NewPlace("", "web", map[string]string{"disk": "ssd"}), "no worker has all of group web, label disk=ssd"},
		{dag.NewPlace("", "gpu", nil), "only w3 fits, and it is cordoned"},
		{dag.NewPlace("", "nodes", nil), "no worker has group nodes"}, // this node has no slots
	} {
		if got := inspect.Misfit(tt.p, there); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.p, got, tt.want)
		}
	}
	bound := w("w4", 4, false, []string{"shop"}, nil)
	bound.Traits.Namespaces = []string{"shop"}
	for p, want := range map[dag.Place]string{dag.NewPlace("", "shop", nil): "", dag.NewPlace("w4", "", nil): "",
		dag.Anywhere: "only w4 would do, and was invited for tasks that name its group or its name", dag.NewPlace("", "web", nil): "no worker has group web"} {
		if got := inspect.Misfit(p, []store.Member{bound}); got != want {
			t.Errorf("%s on a worker of a namespace: %q, want %q", p, got, want)
		}
	}
	in := &dag.Space{Name: "bank"}
	if got := inspect.Misfit(in.Place(dag.NewPlace("", "shop", nil)), []store.Member{bound}); got != "only w4 would do, and was not invited for namespace bank" {
		t.Errorf("a task of another namespace: %q", got)
	}
	if got := inspect.Misfit((&dag.Space{Isolation: "box"}).Place(dag.NewPlace("", "web", nil)), there); got != "no worker offers isolation box" {
		t.Errorf("a level that no worker offers: %q", got)
	}
	if got := inspect.Misfit(dag.Anywhere, there[:1]); got == "" {
		t.Errorf("a cluster without workers fits")
	}
}
