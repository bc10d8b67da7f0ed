package worker

import "hash/maphash"

// begunMax is how many attempts a keeper remembers to have begun: no token is run twice, also if the worker
// that knew of it has been replaced.
const begunMax = 8192

// begun remembers the attempts that were begun last, by sums. Two attempts of one sum: the second is not
// run, and comes again under another token.
type begun struct {
	seed maphash.Seed
	sums []uint64
	next int
	in   map[uint64]bool
}

func newBegun() begun { return begun{seed: maphash.MakeSeed(), in: map[uint64]bool{}} }

func (b *begun) has(id ID) bool { return b.in[maphash.Comparable(b.seed, id)] }

func (b *begun) add(id ID) {
	sum := maphash.Comparable(b.seed, id)
	switch {
	case b.in[sum]:
		return
	case len(b.sums) < begunMax:
		b.sums = append(b.sums, sum)
	default:
		delete(b.in, b.sums[b.next])
		b.sums[b.next] = sum
		b.next = (b.next + 1) % begunMax
	}
	b.in[sum] = true
}
