package access

import (
	"maps"
	"testing"
)

// TestUnder checks that Decide, Visible and Can return only rights that both principals have, in every place.
func TestUnder(t *testing.T) {
	places := []string{"shop", "web", "other", Everywhere}
	var all []*Principal
	for _, role := range []string{"viewer", "operator", "cluster"} {
		r, _ := BuiltinRole(role)
		for _, at := range []string{"shop", "web", Everywhere} {
			all = append(all, principal(t, Whole(), Binding{Role: r, Namespace: at}),
				principal(t, Scope{Verbs: VerbsOf(RunRead, RunStart), Namespaces: []string{"shop"}}, Binding{Role: r, Namespace: at}))
		}
	}
	all = append(all, nil)
	for _, p := range all[:len(all)-1] {
		for _, by := range all {
			under := p.Under(by)
			can := Can(under, now)
			for v := range Public {
				if Anywhere(under, v, now) != (Visible(under, v, now).All() || len(Visible(under, v, now).Names()) > 0) {
					t.Fatalf("%v anywhere: a list and the decision differ", v)
				}
				for _, where := range places {
					want := Decide(p, v, where, now) && Decide(by, v, where, now)
					if got := Decide(under, v, where, now); got != want {
						t.Fatalf("%v in %s: %v", v, where, got)
					}
					if got := (can[where] | can[Everywhere]).Has(v); got != want {
						t.Fatalf("can says %v of %v in %s", got, v, where)
					}
					if where != Everywhere && Visible(under, v, now).Has(where) != want {
						t.Fatalf("a list by %v shows %s: %v", v, where, !want)
					}
				}
			}
		}
	}
}

func TestLost(t *testing.T) {
	in := func(ns string, v ...Verb) map[string]Verbs { return map[string]Verbs{ns: VerbsOf(v...)} }
	for _, c := range []struct {
		had, has map[string]Verbs
		lost     bool
	}{
		{nil, nil, false},
		{nil, in("shop", Graph), false},
		{in("shop", Graph), nil, true},
		{in("shop", Graph), in("web", Graph), true},
		{in("shop", Graph), in(Everywhere, Graph, Events), false},
		{in(Everywhere, Graph), in("shop", Graph), true},
		{in("shop", Graph, Events), in("shop", Graph), true},
	} {
		if got := Lost(c.had, c.has); got != c.lost {
			t.Errorf("had %v, has %v: %v", maps.Collect(maps.All(c.had)), c.has, got)
		}
	}
}

// TestOnly: a principal belongs to a namespace if all of its rights are there.
func TestOnly(t *testing.T) {
	role, _ := BuiltinRole("viewer")
	in := func(namespaces ...string) (all []Binding) {
		for _, ns := range namespaces {
			all = append(all, Binding{Role: role, Namespace: ns})
		}
		return all
	}
	for _, c := range []struct {
		bindings []Binding
		scope    Scope
		want     string
	}{
		{in("shop"), Whole(), "shop"}, {in("shop", "shop"), Whole(), "shop"}, {in("shop", "web"), Whole(), ""}, {in(Everywhere), Whole(), ""},
		{in("shop", Everywhere), Whole(), ""}, {nil, Whole(), ""}, {in(Everywhere), Scope{Verbs: assignable, Namespaces: []string{"web"}}, "web"},
		{in("shop", "web"), Scope{Verbs: assignable, Namespaces: []string{"web"}}, "web"},
	} {
		p, err := NewPrincipal(User, "ann", c.bindings, c.scope)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := p.Only(); got != c.want || ok != (c.want != "") {
			t.Errorf("%v: %q, %v; want %q", c.bindings, got, ok, c.want)
		}
	}
	if _, ok := (*Principal)(nil).Only(); ok {
		t.Error("no principal belongs to a namespace")
	}
}
