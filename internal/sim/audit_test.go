package sim

import (
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// TestAudit audits the orders of people. Whatever fails, a change and its row are in one transaction, each
// row gets one index, and no index is given twice, even if a process dies between the row and the tree.
func TestAudit(t *testing.T) {
	all := soak(0, 300, nil, Stage{Audit: true})
	for _, seed := range all.bad {
		t.Errorf("seed %d: %.400s\n\tgo test ./internal/sim -run TestSeed$ -seed %d -audit -v", seed, all.what[seed], seed)
	}
	if all.kinds["audited order"] == 0 || all.kinds["crash"] == 0 {
		t.Errorf("nothing is shown: %v", all.kinds)
	}
}

// TestAuditGoesBack does the same as TestAudit, with a store that goes back to an earlier state.
func TestAuditGoesBack(t *testing.T) {
	all := soak(0, 150, nil, Stage{Audit: true, Back: true})
	for _, seed := range all.bad {
		t.Errorf("seed %d: %.400s\n\tgo test ./internal/sim -run TestSeed$ -seed %d -audit -back -v", seed, all.what[seed], seed)
	}
}

// TestAuditCanFail checks that the simulator finds a lost row, a row outside of the transaction of its
// change, and a step of which a part is lost.
func TestAuditCanFail(t *testing.T) {
	for _, m := range []*Mutant{
		{Name: "lost-row", commit: func(v *view, b *store.Batch) (dag.Micros, error) {
			c := *b
			c.Audit = nil
			return v.write(&c)
		}},
		{Name: "row-apart", commit: func(v *view, b *store.Batch) (dag.Micros, error) {
			c := *b
			c.Audit = nil
			if now, err := v.write(&c); err != nil || len(b.Audit) == 0 {
				return now, err
			}
			return 0, v.AddAudit(t.Context(), b.Audit...)
		}},
		{Name: "half-step", halfStep: true},
	} {
		if all := soak(0, 100, m, Stage{Audit: true}); len(all.bad) == 0 {
			t.Errorf("%s: no seed shows it", m.Name)
		}
	}
}
