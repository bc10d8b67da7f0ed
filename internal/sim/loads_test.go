package sim

import (
	"testing"

	"skein.dev/skein/internal/store"
)

// TestLoads balances shards by their load while nodes die, freeze and report wrong loads. No shard moves back
// and forth, no shard has two owners, and after the last fault the load is spread within a bounded number of
// periods.
func TestLoads(t *testing.T) {
	all := soak(0, 150, nil, Stage{Load: true})
	for _, seed := range all.bad {
		t.Errorf("seed %d: %.400s\n\tgo test ./internal/sim -run TestSeed$ -seed %d -loads -v", seed, all.what[seed], seed)
	}
	for _, kind := range []string{"shift", "crash during a shift", "lie about the load", "old figures", "move by hand"} {
		if all.kinds[kind] < 20 {
			t.Errorf("%s: %d times", kind, all.kinds[kind])
		}
	}
	t.Logf("%d shifts, %d of them interrupted by the death of a node", all.kinds["shift"], all.kinds["crash during a shift"])
}

// TestLoadsCanFail checks that the simulator finds a rule without hysteresis, and a store that forgets
// shifts.
func TestLoadsCanFail(t *testing.T) {
	for _, m := range []*Mutant{
		{Name: "rash", rash: true},
		{Name: "forgotten", shift: func(*view, store.ShiftMove) (bool, error) { return true, nil }},
	} {
		all := soak(0, 10, m, Stage{Load: true})
		if len(all.bad) == 0 {
			t.Errorf("%s: no seed shows it", m.Name)
			continue
		}
		t.Logf("%s: seed %d, %.100s", m.Name, all.bad[0], all.what[all.bad[0]])
	}
}
