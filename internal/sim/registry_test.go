package sim

import "testing"

// TestRegistry gives the nodes a registry that is away, loses all sessions, hides living members and lists
// dead ones. No member is declared dead while its counter moves, each shard has one owner, and everything
// ends.
func TestRegistry(t *testing.T) {
	all := soak(0, 400, nil, Stage{Registry: true})
	for _, seed := range all.bad {
		t.Errorf("seed %d: %.400s\n\tgo test ./internal/sim -run TestSeed$ -seed %d -registry -v", seed, all.what[seed], seed)
	}
	for _, kind := range []string{"deposed sooner", "registry away", "registry emptied", "registry lists the dead", "registry gives an old list", "registry hides a living member"} {
		if all.kinds[kind] < 10 {
			t.Errorf("%d × %s", all.kinds[kind], kind)
		}
	}
}

// TestRegistryBackDuringVerdict plays a seed in which a member that was silent for long enough comes back to
// the registry while the order to depose it is on its way to the store. The order must still depose it.
func TestRegistryBackDuringVerdict(t *testing.T) {
	stage := &Stage{Registry: true, Handles: true}
	defer stage.Close()
	for _, f := range Run(stage, 102257, nil, nil).Found {
		t.Error(f)
	}
}

// TestRegistryGoesBack does the same as TestRegistry, with a store that goes back to an earlier state.
func TestRegistryGoesBack(t *testing.T) {
	all := soak(0, 150, nil, Stage{Registry: true, Back: true})
	for _, seed := range all.bad {
		t.Errorf("seed %d: %.400s\n\tgo test ./internal/sim -run TestSeed$ -seed %d -registry -back -v", seed, all.what[seed], seed)
	}
}
