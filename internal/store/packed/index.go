package packed

import (
	"encoding/binary"
	"slices"

	"skein.dev/skein/internal/dag"
)

// RunIndex numbers the runs of a transaction from 0, and finds their numbers.
//
// The end of a run's id, which is random, determines its position. If that is taken, the run is at one of the
// next positions. A transaction looks up thousands of runs several times, and a map would take several times
// as long. The zero value is empty.
type RunIndex struct {
	ids []dag.RunID
	// places holds the number of the run at each position plus 1, or 0 if the position is free. The length is a
	// power of two, and at least twice the number of ids.
	places []int32
}

// placesMin is the least number of positions.
const placesMin = 64

// Reset empties the index and reserves memory for a number of runs.
func (x *RunIndex) Reset(runs int) {
	x.ids = x.ids[:0]
	size := placesMin
	for size < 2*runs {
		size *= 2
	}
	if size > cap(x.places) {
		x.places = make([]int32, size)
	}
	x.places = x.places[:size]
	clear(x.places)
	if cap(x.ids) < runs {
		x.ids = make([]dag.RunID, 0, runs)
	}
}

// Add returns the number of a run. added reports whether the run is new.
func (x *RunIndex) Add(id dag.RunID) (n int, added bool) {
	if 2*(len(x.ids)+1) > len(x.places) {
		x.grow()
	}
	p := x.place(id)
	if *p == 0 {
		x.ids = append(x.ids, id)
		*p = int32(len(x.ids))
		added = true
	}
	return int(*p) - 1, added
}

// Find returns the number of a run, or -1.
func (x *RunIndex) Find(id dag.RunID) int {
	if len(x.places) == 0 {
		return -1
	}
	return int(*x.place(id)) - 1
}

// Has reports whether a run has a number.
func (x *RunIndex) Has(id dag.RunID) bool { return x.Find(id) >= 0 }

// Meets reports whether the two indexes have a run in common.
func (x *RunIndex) Meets(o *RunIndex) bool { return slices.ContainsFunc(o.ids, x.Has) }

// place returns the position of a run, or the free position for it.
func (x *RunIndex) place(id dag.RunID) *int32 {
	last := uint32(len(x.places) - 1)
	for i := binary.BigEndian.Uint32(id[len(id)-4:]) & last; ; i = (i + 1) & last {
		if p := &x.places[i]; *p == 0 || x.ids[*p-1] == id {
			return p
		}
	}
}

func (x *RunIndex) grow() {
	ids := x.ids
	x.ids, x.places = nil, nil
	x.Reset(2*len(ids) + 1)
	for _, id := range ids {
		x.Add(id)
	}
}
