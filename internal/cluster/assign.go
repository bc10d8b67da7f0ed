package cluster

import (
	"cmp"
	"slices"
	"sort"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// assign returns the owner of each shard. Every node computes this from the same rows, with the same result.
// assign spreads shards evenly, and moves no more of them than needed.
//
// A shard that an operator has moved stays at its node, and counts for that node. A shard that was moved
// because of its load also stays, but counts for the node from which it came, so that no other shard moves
// back in exchange. Members that are leaving, cordoned or stopped get no shard. If there are no other
// members, no shard has an owner.
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
	rows := slices.Clone(shards)
	sort.Slice(rows, func(i, j int) bool { return rows[i].ID < rows[j].ID })
	has := map[dag.HandlerID]int{}
	give := func(s dag.ShardID, h, counts dag.HandlerID) {
		to[s] = h
		has[counts]++
	}
	for _, s := range rows {
		switch {
		case slices.Contains(able, s.Wanted):
			give(s.ID, s.Wanted, s.Wanted)
		case !slices.Contains(able, s.Shift.To):
		case slices.Contains(able, s.Shift.Counts):
			give(s.ID, s.Shift.To, s.Shift.Counts)
		default:
			give(s.ID, s.Shift.To, s.Shift.To)
		}
	}
	room := shares(able, has, rows, to)
	for _, s := range rows { // an owner keeps its shards, as many as its share allows
		if _, done := to[s.ID]; !done && room[s.Owner] > 0 {
			room[s.Owner]--
			give(s.ID, s.Owner, s.Owner)
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
		give(s.ID, h, h)
	}
	return to
}

// shares returns the number of further shards that each member may have, so that the shards are spread
// evenly. The remainder goes to the members that have the most shards now, so that no shard moves without
// need.
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
