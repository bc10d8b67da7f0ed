package sim

import "testing"

// TestGoesBack: the store goes back to an earlier state, as after a failover that lost commits,
// while everything else fails, too. No token is given twice, and all that the store still knows
// comes to its end.
func TestGoesBack(t *testing.T) {
	stage := &Stage{Back: true}
	defer stage.Close()
	back := 0
	for seed := range uint64(1000) {
		w := Run(stage, seed, nil, nil)
		back += w.backs
		for _, f := range w.Found {
			t.Errorf("seed %d: %.400s\n\tgo test ./internal/sim -run TestSeed$ -seed %d -back -v", seed, f, seed)
		}
	}
	if back < 100 {
		t.Errorf("the store went back %d times", back)
	}
}
