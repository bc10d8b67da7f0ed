package sim

import "testing"

// foundBack lists seeds that once showed a violation with a store that goes back.
var foundBack = []uint64{61115465, 62026355, 62027997}

// TestGoesBack makes the store go back to an earlier state, as after a failover that lost commits, while
// other faults happen. No token may be given twice, and everything that the store still knows must end.
func TestGoesBack(t *testing.T) {
	stage := &Stage{Back: true}
	defer stage.Close()
	back := 0
	play := func(seed uint64) {
		w := Run(stage, seed, nil, nil)
		back += w.backs
		for _, f := range w.Found {
			t.Errorf("seed %d: %.400s\n\tgo test ./internal/sim -run TestSeed$ -seed %d -back -v", seed, f, seed)
		}
	}
	for seed := range uint64(1000) {
		play(seed)
	}
	for _, seed := range foundBack {
		play(seed)
	}
	if back < 100 {
		t.Errorf("the store went back %d times", back)
	}
}

// TestTokenGivenAgain checks that a token that begins again after the store went back is a violation,
// whichever process gives it.
func TestTokenGivenAgain(t *testing.T) {
	one, two := &life{node: 0}, &life{node: 1}
	for name, c := range map[string]struct {
		backs int
		by    *life
		fault bool
	}{
		"the store never went back": {0, two, false},
		"another node":              {1, two, true},
		"the same node":             {1, one, true},
		"after two regresses":       {2, two, true},
	} {
		w := &World{Faults: map[string]int{}}
		w.witness.w, w.witness.given = w, map[attemptKey]begun{}
		w.witness.begins(one, attemptKey{})
		w.backs = c.backs
		w.witness.begins(c.by, attemptKey{})
		if fault := len(w.Found) > 0; fault != c.fault {
			t.Errorf("%s: %v", name, w.Found)
		}
	}
}
