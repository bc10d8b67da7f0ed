package worker

import "hash/maphash"

// begunMax bounds the started attempts that a keeper remembers. They ensure that no token runs twice, even
// after another worker process has connected.
const begunMax = 8192

// begun remembers hashes of the most recently started attempts. If two attempts have the same hash, the
// second one does not run, and its task runs again under another token.
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
