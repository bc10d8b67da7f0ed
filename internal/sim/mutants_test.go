package sim

import "testing"

func mutantNamed(t *testing.T, name string) *Mutant {
	t.Helper()
	if name == "" {
		return nil
	}
	for _, m := range mutants {
		if m.Name == name {
			return m
		}
	}
	t.Fatalf("there is no mutant %q", name)
	return nil
}

var mutants []*Mutant
