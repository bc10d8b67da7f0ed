package sim

import (
	"strings"
	"sync"
	"testing"
)

// caughtWithin bounds the number of seeds until a bug must be found.
const caughtWithin = 10_000

func mutantNamed(t *testing.T, name string) *Mutant {
	t.Helper()
	if name == "" {
		return nil
	}
	for _, m := range Mutants {
		if m.Name == name {
			return m
		}
	}
	t.Fatalf("there is no mutant %q", name)
	return nil
}

// caught plays seeds until one finds the bug.
func caught(stage *Stage, m *Mutant) (seed uint64, rule string) {
	stage.Back, stage.Registry = m.eraless || m.recalls || m.unsettled, m.registry
	for seed := m.first; seed < m.first+caughtWithin; seed++ {
		if w := Run(stage, seed, m, nil); len(w.Found) > 0 {
			rule, _, _ := strings.Cut(w.Found[0], ":")
			return seed, rule
		}
	}
	return 0, ""
}

// shownByMutants lists the rules that no hand-made history can break, because they judge the world and not a
// run. For each of them a mutant must break it.
var shownByMutants = []string{"fence", "owner", "acknowledged", "memory", "started once", "false death", "false loss", "slots", "early", "outcome", "liveness", "heard", "walk", "limit of a workflow"}

// TestMutants checks that the simulator finds every known bug.
func TestMutants(t *testing.T) {
	var mu sync.Mutex
	rules := map[string]bool{}
	t.Run("all", func(t *testing.T) {
		for _, m := range Mutants {
			t.Run(m.Name, func(t *testing.T) {
				t.Parallel()
				stage := &Stage{}
				defer stage.Close()
				seed, rule := caught(stage, m)
				if rule == "" {
					t.Fatalf("%s: not caught within %d seeds", m.Like, caughtWithin)
				}
				t.Logf("%s: seed %d, %q", m.Like, seed, rule)
				mu.Lock()
				rules[rule] = true
				mu.Unlock()
			})
		}
	})
	for _, rule := range shownByMutants {
		if !rules[rule] {
			t.Errorf("no bug shows that the rule %q can fail", rule)
		}
	}
}
