package sim

import (
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// TestSpaces changes the quotas and the demanded levels of three namespaces while runs begin and end.
// Whatever fails, no attempt begins at a level that its namespace no longer allows, also on a node that is
// cut off. No node that is bound to namespaces gets a task of another one. No run begins beyond a quota, and
// every count equals a recount after each transaction.
func TestSpaces(t *testing.T) {
	all := soak(0, 200, nil, Stage{Spaces: true})
	for _, seed := range all.bad {
		t.Errorf("seed %d: %.400s\n\tgo test ./internal/sim -run TestSeed$ -seed %d -spaces -v", seed, all.what[seed], seed)
	}
	if n := all.kinds["level changed"]; n < 500 {
		t.Errorf("only %d levels changed", n)
	}
	if n := all.kinds["granted to a bound node"]; n < 100 {
		t.Errorf("only %d tasks were granted to bound nodes", n)
	}
}

// TestSpacesCanFail: the simulator finds a node that ignores the levels of namespaces or uses outdated
// levels, a node that mistakes the namespaces of tasks, a store that does not compare quotas, and counts that
// are lost, wrong or only in memory.
func TestSpacesCanFail(t *testing.T) {
	changed := func(change func(b *store.Batch)) func(v *view, b *store.Batch) (dag.Micros, error) {
		return func(v *view, b *store.Batch) (dag.Micros, error) {
			c := *b
			change(&c)
			return v.write(&c)
		}
	}
	for _, m := range []*Mutant{
		{Name: "lawless", lawless: true},
		{Name: "rules of any age", stale: true},
		{Name: "placements without namespaces", nameless: true},
		{Name: "tasks of another namespace", strayed: true},
		{Name: "unchecked", commit: changed(func(b *store.Batch) {
			b.Uses = append([]store.UseUpdate(nil), b.Uses...)
			for i := range b.Uses {
				b.Uses[i].Check = false
			}
		})},
		{Name: "logs count again", commit: changed(func(b *store.Batch) {
			b.Uses = append([]store.UseUpdate(nil), b.Uses...)
			for i := range b.Uses {
				b.Uses[i].Logged *= 10
			}
		})},
		{Name: "logs do not count", commit: changed(func(b *store.Batch) {
			b.Uses = append([]store.UseUpdate(nil), b.Uses...)
			for i := range b.Uses {
				b.Uses[i].Logged = 0
			}
		})},
		{Name: "what ended runs keep is not counted", commit: changed(func(b *store.Batch) { b.Kept = nil })},
		{Name: "sizes are kept in memory only", commit: changed(func(b *store.Batch) {
			b.Events = append([]dag.EventRow(nil), b.Events...)
			for i := range b.Events {
				b.Events[i].Weight = 0
			}
		})},
	} {
		if all := soak(0, 100, m, Stage{Spaces: true}); len(all.bad) == 0 {
			t.Errorf("%s: no seed shows it", m.Name)
		} else {
			t.Logf("%s: %s", m.Name, all.what[all.bad[0]])
		}
	}
}
