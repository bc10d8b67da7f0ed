package tally

import (
	"cmp"
	"maps"
	"slices"
	"sort"

	"skein.dev/skein/internal/store"
)

// NamesMax bounds the tasks of a workflow that have a row of their own on one day. Each version may bring new
// names. The attempts of further tasks are summed in the row store.TallyRest.
//
// Invariant: all attempts of a name on a day are in one row. They are in the row of the name, as long as the
// day has one. A day whose rows are NamesMax gets no further names, because its rows are only deleted
// together.
const NamesMax = 2000

// names are the tasks that have rows, by day.
type names map[int32]map[string]bool

func (n names) add(k store.TallyKey) {
	if k.Span != store.TallyDay || k.Task == "" || k.Task == store.TallyRest {
		return
	}
	if n[k.At] == nil {
		n[k.At] = map[string]bool{}
	}
	n[k.At][k.Task] = true
}

// bound moves the counts of names beyond NamesMax to the rest of their day. n are the names that have rows
// already, and rest returns the stored rest of a day, or nil.
func (c Counts) bound(n names, rest func(day int32) *Cell) {
	keys := slices.Collect(maps.Keys(c))
	sort.Slice(keys, func(i, j int) bool {
		a, b := &keys[i], &keys[j]
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Task, b.Task)) < 0
	})
	for _, k := range keys {
		if k.Span != store.TallyDay || k.Task == "" || n[k.At][k.Task] {
			continue
		}
		if len(n[k.At]) < NamesMax {
			n.add(k)
			continue
		}
		to := k
		to.Task = store.TallyRest
		if c[to] == nil {
			c[to] = &Cell{}
			if is := rest(k.At); is != nil {
				c[to].Merge(is)
			}
		}
		c[to].Merge(c[k])
		delete(c, k)
	}
}
