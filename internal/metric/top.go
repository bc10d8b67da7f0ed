package metric

import (
	"maps"
	"slices"
)

// Other is the label value for all objects that have no label value of their own.
const Other = "other"

// Top keeps a V for each of the most used keys, and one for all others. A key that replaces another one
// begins with an empty V, and the counts of the replaced key are no longer shown. Top is not safe for
// concurrent use.
type Top[K comparable, V any] struct {
	max   int
	named map[K]*used[V]
	rest  map[K]uint64 // uses of keys that are counted as Other, since the last Turn
	Other V
}

type used[V any] struct {
	uses uint64
	v    V
}

// NewTop returns a Top that gives a V to at most limit keys.
func NewTop[K comparable, V any](limit int) *Top[K, V] {
	return &Top[K, V]{max: limit, named: map[K]*used[V]{}, rest: map[K]uint64{}}
}

// restFactor bounds the keys that are observed as candidates: at most restFactor times the number of named
// keys.
const restFactor = 10

// Of counts one use of a key, and returns its V.
func (t *Top[K, V]) Of(k K) *V {
	if u := t.named[k]; u != nil {
		u.uses++
		return &u.v
	}
	if len(t.named) < t.max {
		u := &used[V]{uses: 1}
		t.named[k] = u
		return &u.v
	}
	if n, in := t.rest[k]; in || len(t.rest) < restFactor*t.max {
		t.rest[k] = n + 1
	}
	return &t.Other
}

// Each calls f for every key that is named.
func (t *Top[K, V]) Each(f func(K, *V)) {
	for k, u := range t.named {
		f(k, &u.v)
	}
}

// Turn ends a period. A key that was used more than twice as often as a named one replaces it. A use counts
// half as much in each following period.
func (t *Top[K, V]) Turn() {
	if len(t.rest) > 0 {
		byUse := func(uses func(K) uint64) func(a, b K) int {
			return func(a, b K) int {
				switch x, y := uses(a), uses(b); {
				case x < y:
					return -1
				case x > y:
					return 1
				}
				return 0
			}
		}
		least := slices.SortedFunc(maps.Keys(t.named), byUse(func(k K) uint64 { return t.named[k].uses }))
		most := slices.SortedFunc(maps.Keys(t.rest), byUse(func(k K) uint64 { return t.rest[k] }))
		slices.Reverse(most)
		for i := range min(len(least), len(most)) {
			if t.rest[most[i]] <= 2*t.named[least[i]].uses {
				break
			}
			delete(t.named, least[i])
			t.named[most[i]] = &used[V]{uses: t.rest[most[i]]}
		}
		clear(t.rest)
	}
	for _, u := range t.named {
		u.uses /= 2
	}
}
