package sim

import (
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// TestQuotas bounds the unfinished runs of all shards together. Whatever fails, there are never more, each
// shard's count is exact, and a refused start is accepted once there is room.
func TestQuotas(t *testing.T) {
	all := soak(0, 300, nil, Stage{Quotas: true})
	for _, seed := range all.bad {
		t.Errorf("seed %d: %.400s\n\tgo test ./internal/sim -run TestSeed$ -seed %d -quotas -v", seed, all.what[seed], seed)
	}
}

// TestQuotasGoBack does the same as TestQuotas, with a store that goes back to an earlier state.
func TestQuotasGoBack(t *testing.T) {
	all := soak(0, 150, nil, Stage{Quotas: true, Back: true})
	for _, seed := range all.bad {
		t.Errorf("seed %d: %.400s\n\tgo test ./internal/sim -run TestSeed$ -seed %d -quotas -back -v", seed, all.what[seed], seed)
	}
}

// TestQuotasCanFail checks that the simulator finds a store that ignores the quota, and a store that loses a
// count.
func TestQuotasCanFail(t *testing.T) {
	for _, m := range []*Mutant{
		{Name: "unchecked", commit: func(v *view, b *store.Batch) (dag.Micros, error) {
			c := *b
			c.Uses = nil
			for _, u := range b.Uses {
				c.Uses = append(c.Uses, store.UseUpdate{NamespaceUse: u.NamespaceUse})
			}
			return v.write(&c)
		}},
		{Name: "uncounted", commit: func(v *view, b *store.Batch) (dag.Micros, error) {
			c := *b
			if c.Uses = nil; c.Rows() == 0 {
				return v.Clock(t.Context())
			}
			return v.write(&c)
		}},
	} {
		if all := soak(0, 200, m, Stage{Quotas: true}); len(all.bad) == 0 {
			t.Errorf("%s: no seed shows it", m.Name)
		}
	}
}
