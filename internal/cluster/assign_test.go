package cluster

import (
	"testing"

	"pgregory.net/rapid"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

func apply(rows []store.ShardRow, to map[dag.ShardID]dag.HandlerID) (moved int) {
	for i := range rows {
		if h := to[rows[i].ID]; h != rows[i].Owner {
			moved++
			rows[i].Owner = h
		}
	}
	return moved
}

func counts(rows []store.ShardRow) map[dag.HandlerID]int {
	n := map[dag.HandlerID]int{}
	for _, r := range rows {
		n[r.Owner]++
	}
	return n
}

// TestAssign: while members come and go, shards are spread evenly, the order of the rows does not matter,
// and no more shards move than necessary.
func TestAssign(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := make([]store.ShardRow, rapid.IntRange(1, 40).Draw(t, "shards"))
		for i := range rows {
			rows[i].ID = dag.ShardID(i)
		}
		members := map[dag.HandlerID]bool{}
		next := dag.HandlerID(1)
		for range rapid.IntRange(1, 12).Draw(t, "changes") {
			if len(members) > 0 && rapid.Bool().Draw(t, "goes") {
				gone := rapid.SampledFrom(sorted(members)).Draw(t, "who")
				delete(members, gone)
				for i := range rows {
					if rows[i].Owner == gone {
						rows[i].Owner = 0
					}
				}
			} else {
				members[next] = true
				next++
			}
			if len(members) == 0 {
				continue
			}
			before := counts(rows)
			list := listOf(members)
			to := assign(list, rows)
			shuffled := rapid.Permutation(list).Draw(t, "order")
			other := assign(shuffled, rapid.Permutation(rows).Draw(t, "rows"))
			for s, h := range to {
				if other[s] != h {
					t.Fatalf("shard %d goes to %d or to %d", s, h, other[s])
				}
			}
			moved := apply(rows, to)
			part := len(rows) / len(members)
			need := before[0]
			over := 0
			for h := range members {
				if n := counts(rows)[h]; n < part || n > part+1 {
					t.Fatalf("member %d has %d of %d shards, %d members", h, n, len(rows), len(members))
				}
				over += max(0, before[h]-part-1)
			}
			if least := max(need, need+over); moved < least || moved > least+len(members) {
				t.Fatalf("%d shards moved, at least %d had to", moved, least)
			}
			if again := apply(rows, assign(list, rows)); again != 0 {
				t.Fatalf("%d shards moved although nothing changed", again)
			}
		}
	})
}

func sorted(m map[dag.HandlerID]bool) []dag.HandlerID {
	var all []dag.HandlerID
	for h := range dag.HandlerID(1000) {
		if m[h] {
			all = append(all, h)
		}
	}
	return all
}

func listOf(m map[dag.HandlerID]bool) []store.Member {
	var all []store.Member
	for _, h := range sorted(m) {
		all = append(all, store.Member{Handler: h, State: store.MemberActive})
	}
	return all
}

func TestAssignLeavingAndWanted(t *testing.T) {
	members := []store.Member{{Handler: 1, State: store.MemberActive}, {Handler: 2, State: store.MemberLeaving}, {Handler: 3, State: store.MemberActive}}
	rows := []store.ShardRow{{ID: 0, Owner: 2}, {ID: 1, Owner: 2, Wanted: 3}, {ID: 2, Owner: 1, Wanted: 3}, {ID: 3, Owner: 1, Wanted: 2}}
	to := assign(members, rows)
	want := map[dag.ShardID]dag.HandlerID{0: 1, 1: 3, 2: 3, 3: 1}
	for s, h := range want {
		if to[s] != h {
			t.Errorf("shard %d goes to %d, want %d", s, to[s], h)
		}
	}
	members[0].Cordoned, members[2].Stopped = true, true
	if to := assign(members, rows); len(to) != 0 {
		t.Errorf("one is cordoned, one leaves, one is stopped: %v", to)
	}
	if to := assign(nil, rows); len(to) != 0 {
		t.Errorf("without members: %v", to)
	}
}

// TestAssignShifted: a shard that was shifted stays at its node, and no other shard goes the other way. If
// that node is gone, the shard goes where there is room.
func TestAssignShifted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members := listOf(map[dag.HandlerID]bool{1: true, 2: true, 3: true})
		rows := make([]store.ShardRow, rapid.IntRange(3, 40).Draw(t, "shards"))
		for i := range rows {
			rows[i].ID = dag.ShardID(i)
		}
		apply(rows, assign(members, rows))
		shifts := map[dag.ShardID]dag.HandlerID{}
		for range rapid.IntRange(1, 12).Draw(t, "shifts") {
			s := &rows[rapid.IntRange(0, len(rows)-1).Draw(t, "shard")]
			counts := s.Owner
			if s.Shift.To != 0 {
				counts = s.Shift.Counts
			}
			to := dag.HandlerID(rapid.IntRange(1, 3).Draw(t, "to"))
			s.Shift, shifts[s.ID] = store.Shift{At: 1, From: s.Owner, To: to, Counts: counts}, to
			want := 1
			if s.Owner == to {
				want = 0
			}
			if moved := apply(rows, assign(members, rows)); moved != want {
				t.Fatalf("%d shards moved for one shift", moved)
			}
		}
		for s, h := range shifts {
			if rows[s].Owner != h {
				t.Fatalf("shard %d is at %d, it was shifted to %d", s, rows[s].Owner, h)
			}
		}
		for i := range rows {
			if rows[i].Owner == 3 {
				rows[i].Owner = 0
			}
		}
		to := assign(members[:2], rows)
		for i := range rows {
			if h := to[rows[i].ID]; h != 1 && h != 2 || rows[i].Shift.To == 1 && h != 1 || rows[i].Shift.To == 2 && h != 2 {
				t.Fatalf("shard %d goes to %d without its node: %+v", i, h, rows[i])
			}
		}
	})
}
