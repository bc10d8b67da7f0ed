package store

import (
	"testing"

	"skein.dev/skein/internal/dag"
)

// TestEpochOf: an epoch contains the era, the floor and the count of takes, and rises with each of them.
func TestEpochOf(t *testing.T) {
	t.Parallel()
	last := int64(-1)
	for era := range dag.Era(4) {
		epochs := []int64{}
		for floor := range era + 1 {
			epochs = append(epochs, EpochOf(era, floor))
		}
		for floor, epoch := range epochs {
			f := Fence{Epoch: epoch + 7}
			if epoch <= last || f.Era() != era || f.Floor() != dag.Era(floor) || f.Takes() != 7 {
				t.Errorf("epoch %d follows %d: era %d, floor %d, taken %d times, want era %d, floor %d", epoch, last, f.Era(), f.Floor(), f.Takes(), era, floor)
			}
			last = epoch
		}
	}
	earlier := Fence{Epoch: 5*EpochsOfEra + 12} // a fence of a version without floors
	if earlier.Era() != 5 || earlier.Floor() != 5 || earlier.Takes() != 12 || EpochOf(5, 5) <= earlier.Epoch {
		t.Errorf("an epoch of an earlier version: era %d, floor %d, taken %d times", earlier.Era(), earlier.Floor(), earlier.Takes())
	}
	if end := (Fence{Epoch: EpochOf(dag.EraMax, dag.EraMax) + TakesOfEra - 1}); end.Era() != dag.EraMax || end.Floor() != dag.EraMax {
		t.Errorf("the last epoch is of era %d with floor %d", end.Era(), end.Floor())
	}
}

// TestNextEra: two timelines of which neither continues the other get different eras.
func TestNextEra(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		era, known dag.Era
		was, is    int64
		want       dag.Era
	}{
		"the next timeline":                          {3, 0, 7, 8, 4},
		"a timeline whose predecessor is lost":       {3, 0, 7, 9, 5},
		"this process knows a later era":             {3, 6, 7, 8, 7},
		"timelines that cannot be compared":          {3, 0, 7, 7, 4},
		"an earlier timeline":                        {3, 0, 7, 2, 4},
		"more timelines than there are eras":         {3, 0, 7, 9000, 4},
		"the last era, after which there is no more": {dag.EraMax, 0, 7, 8, dag.EraMax + 1},
	} {
		if is := NextEra(c.era, c.known, c.was, c.is); is != c.want {
			t.Errorf("%s: era %d, want %d", name, is, c.want)
		}
	}
}
