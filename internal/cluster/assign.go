package cluster

import (
	"cmp"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// assign says which member each shard belongs to. Every node computes it by itself from the
// same rows and gets the same: spread evenly, moving no more than is needed. A shard that an
// operator has moved stays where it was put, and counts.
//
// Members that leave, are cordoned or stopped get nothing. Without such members no shard has an owner.
func assign(members []store.Member, shards []store.ShardRow) map[dag.ShardID]dag.HandlerID {
	var able []dag.HandlerID
	for i := range members {
		if members[i].Able() {
			able = append(able, members[i].Handler)
		}
	}
	to := make(map[dag.ShardID]dag.HandlerID, len(shards))
	if len(able) == 0 {
		return to
	}
	slices.Sort(able)
	rows := slices.SortedFunc(slices.Values(shards), func(a, b store.ShardRow) int { return cmp.Compare(a.ID, b.ID) })
	has := map[dag.HandlerID]int{}
	give := func(s dag.ShardID, h dag.HandlerID) {
		to[s] = h
		has[h]++
	}
	for _, s := range rows {
		if slices.Contains(able, s.Wanted) {
			give(s.ID, s.Wanted)
		}
	}
	room := shares(able, has, rows, to)
	for _, s := range rows { // an owner keeps its shards, up to its share
		if _, done := to[s.ID]; !done && room[s.Owner] > 0 {
			room[s.Owner]--
			give(s.ID, s.Owner)
		}
	}
	for _, s := range rows {
		if _, done := to[s.ID]; done {
			continue
		}
		h := slices.MaxFunc(able, func(a, b dag.HandlerID) int {
			return cmp.Or(cmp.Compare(room[a], room[b]), cmp.Compare(b, a))
		})
		room[h]--
		give(s.ID, h)
	}
	return to
}

// shares is how many more shards each member may have: the rest of an even part. The odd ones
// go to those that have most now, so that a shard does not move for nothing.
func shares(able []dag.HandlerID, has map[dag.HandlerID]int, rows []store.ShardRow, done map[dag.ShardID]dag.HandlerID) map[dag.HandlerID]int {
	owned := map[dag.HandlerID]int{}
	for _, s := range rows {
		if _, given := done[s.ID]; !given {
			owned[s.Owner]++
		}
	}
	order := slices.SortedFunc(slices.Values(able), func(a, b dag.HandlerID) int {
		return cmp.Or(cmp.Compare(has[b]+owned[b], has[a]+owned[a]), cmp.Compare(a, b))
	})
	part, odd := len(rows)/len(able), len(rows)%len(able)
	room := map[dag.HandlerID]int{}
	for i, h := range order {
		room[h] = part - has[h]
		if i < odd {
			room[h]++
		}
		room[h] = max(room[h], 0)
	}
	return room
}
