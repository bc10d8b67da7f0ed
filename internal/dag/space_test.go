package dag

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestSpace checks the demands of a namespace on placements, and which workers then fit.
func TestSpace(t *testing.T) {
	group, label := NewPlace("", "etl", nil), NewPlace("", "", map[string]string{"disk": "ssd"})
	shop, strict := &Space{Name: "shop"}, &Space{Name: "shop", Isolation: "user"}
	named := &Space{Name: "shop", Isolation: "user", User: "ann"}
	for range 2 { // from the cache, too
		for _, c := range []struct {
			of   *Space
			p    Place
			want string
		}{
			{nil, group, "group etl"}, {shop, Anywhere, "any worker"}, {shop, label, "label disk=ssd"}, {shop, group, "group etl, namespace shop"},
			{shop, NewPlace("w1", "", nil), "node w1, namespace shop"}, {strict, Anywhere, "isolation user"}, {strict, group, "group etl, isolation user, namespace shop"},
			{strict, NewPlace("", "", map[string]string{LabelIsolation: "box"}), "isolation box"}, {&Space{Isolation: "fence"}, group, "group etl, isolation fence"},
			{named, Anywhere, "isolation user, user ann"}, {named, group, "group etl, isolation user, namespace shop, user ann"},
		} {
			if got := c.of.Place(c.p); got.String() != c.want || c.of.Place(got) != got {
				t.Errorf("%s: %s, want %s", c.p, got, c.want)
			}
		}
	}
	p := shop.Place(group)
	for namespace, fits := range map[string]bool{"shop": true, "bank": false, "": true} {
		w := &Traits{Groups: []string{"etl"}}
		if namespace != "" {
			w.Namespaces = []string{namespace}
		}
		if p.Fits("x", w) != fits || !group.Fits("x", w) {
			t.Errorf("a task of shop on a worker of %q: %v", namespace, !fits)
		}
	}
	for _, w := range []struct {
		is   Traits
		fits bool
	}{{Traits{Levels: []string{"user"}}, false}, {Traits{Levels: []string{"user"}, Users: []string{"bob"}}, false}, {Traits{Users: []string{"ann"}}, false},
		{Traits{Levels: []string{"user"}, Users: []string{"bob", "ann"}}, true}} {
		if named.Place(Anywhere).Fits("x", &w.is) != w.fits {
			t.Errorf("a task of the user ann on %+v: %v", w.is, !w.fits)
		}
	}
	if function := (&Traits{Kinds: []string{"k"}, Labels: map[string]string{LabelIsolation: "user"}}); !named.Place(Anywhere.OfKind("k")).Fits("x", function) {
		t.Error("a task function needs the user of its namespace")
	}
	if p.Space() != "shop" || group.Space() != "" {
		t.Errorf("%q", p.Space())
	}
}

// TestHouse: while the demands of the namespace change, each ready task is in the list of its placement, in
// the order in which the tasks became ready.
func TestHouse(t *testing.T) {
	places := []Place{Anywhere, NewPlace("", "etl", nil), NewPlace("", "", map[string]string{LabelIsolation: "user"})}
	spaces := []*Space{nil, {Name: "shop"}, {Name: "shop", Isolation: "fence"}, {Isolation: "box"}}
	rapid.Check(t, func(t *rapid.T) {
		var fx Effects
		b, s := Board{}, GraphSpec{}
		for i := range rapid.IntRange(1, 8).Draw(t, "tasks") {
			p := Policy{Place: rapid.SampledFrom(places).Draw(t, "place"), Priority: Priority(rapid.IntRange(0, 1).Draw(t, "priority"))}
			s.Tasks = append(s.Tasks, TaskSpec{Name: string(rune('a' + i)), Policy: p})
		}
		g, err := NewGraph(s)
		must(err)
		r := NewRun(Header{Created: 1})
		r.Step(&Event{Kind: EvSubmit, Graph: g}, Now{Wall: 9}, &fx)
		b.Update(r)
		var ready []TaskID
		for i := range g.Len() {
			ready = append(ready, TaskID(i))
		}
		for range 20 {
			if rapid.Bool().Draw(t, "change") {
				rapid.SampledFrom(spaces).Draw(t, "space").House(r)
				b.Update(r)
			}
			b.Places(func(p Place, q *Queue) {
				in := slices.DeleteFunc(slices.Clone(ready), func(task TaskID) bool { return r.Place(task) != p })
				slices.SortStableFunc(in, func(a, b TaskID) int { return int(g.Policy(a).Priority) - int(g.Policy(b).Priority) })
				if q.Tasks() != len(in) || r.ReadyAt(p) != len(in) || len(in) > 0 && in[0] != func() TaskID { first, _ := r.best(p); return first }() {
					t.Fatalf("%s: %d of %d, want %v", p, q.Tasks(), r.ReadyAt(p), in)
				}
			})
			if head, at := b.Head(9, func(Place) bool { return true }); head != nil && rapid.Bool().Draw(t, "take") {
				task := r.NextAt(at)
				ready = slices.DeleteFunc(ready, func(o TaskID) bool { return o == task })
				r.Step(&Event{Kind: EvAssign, Task: task, Handler: 1}, Now{Wall: 9}, &fx)
				if token := r.tasks[task].token; rapid.Bool().Draw(t, "lost") && token < lossesMax {
					r.Step(&Event{Kind: EvLost, Task: task, Token: token, Handler: 1}, Now{Wall: 9}, &fx)
					r.Step(&Event{Kind: EvTimer, Timer: TimerRetry, Task: task, Token: token}, Now{Wall: 9}, &fx)
					ready = append(ready, task)
				}
				b.Update(r)
			}
			sum := 0
			b.Places(func(_ Place, q *Queue) { sum += q.Tasks() })
			if sum != len(ready) {
				t.Fatalf("%d tasks are queued, %d are ready", sum, len(ready))
			}
		}
		if b.Remove(r); b.Len() != 0 || len(b.placed) != 0 || len(r.placed) > 2*len(places) {
			t.Fatalf("%d left, %d lists", b.Len(), len(r.placed))
		}
	})
}
