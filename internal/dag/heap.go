package dag

import "bytes"

// runHeap is a heap by submission. Its members know their index. It does not use container/heap: every run
// passes through it, and calls through an interface cost a third more.
type runHeap []member

// member is a run in a runHeap. A copy of its time of submission and of its id is here, because a comparison
// that reads the run is a cache miss. The runs of one transaction often have the same time.
type member struct {
	created Micros
	id      RunID
	*seat
}

func (h *runHeap) push(s *seat) {
	*h = append(*h, member{s.run.Created, s.run.ID, s})
	s.where = int32(len(*h) - 1)
	h.up(len(*h) - 1)
}

func (h *runHeap) remove(i int) {
	last := len(*h) - 1
	(*h)[i] = (*h)[last]
	(*h)[last] = member{}
	*h = (*h)[:last]
	if i != last {
		(*h)[i].where = int32(i)
		h.up(h.down(i))
	}
}

// less reports whether the run at index i was submitted before the run at index j.
func (h runHeap) less(i, j int) bool {
	a, b := &h[i], &h[j]
	if a.created != b.created {
		return a.created < b.created
	}
	return bytes.Compare(a.id[:], b.id[:]) < 0
}

// up moves the member at index i towards the first, to its position.
func (h runHeap) up(i int) {
	for parent := (i - 1) / 2; i > 0 && h.less(i, parent); parent = (i - 1) / 2 {
		h.swap(i, parent)
		i = parent
	}
}

// down moves the member at index i away from the first, to its position, and returns its new index.
func (h runHeap) down(i int) int {
	for {
		c := 2*i + 1
		if c+1 < len(h) && h.less(c+1, c) {
			c++
		}
		if c >= len(h) || !h.less(c, i) {
			return i
		}
		h.swap(i, c)
		i = c
	}
}

func (h runHeap) swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].where, h[j].where = int32(i), int32(j)
}
