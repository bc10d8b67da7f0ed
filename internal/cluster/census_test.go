package cluster

import (
	"fmt"
	"testing"

	"skein.dev/skein/internal/store"
)

// TestCensus counts members and slots, and the shards without an owner.
func TestCensus(t *testing.T) {
	members := []store.Member{
		{Handler: 1, State: store.MemberActive, Slots: 4, Busy: 1},
		{Handler: 2, State: store.MemberActive, Cordoned: true},
		{Handler: 3, State: store.MemberActive, Worker: true, Slots: 10, Busy: 12, Traits: store.Traits{Groups: []string{"b", "a"}}},
		{Handler: 4, State: store.MemberLeaving, Worker: true, Slots: 1, Traits: store.Traits{Kinds: []string{"k"}}},
	}
	c := countMembers(members)
	if is, want := fmt.Sprint(c.all, c.busy, c.members), fmt.Sprint(
		map[string]int64{"\n": 4, "a,b\n": 10, "\nk": 1}, map[string]int64{"\n": 1, "a,b\n": 10, "\nk": 0},
		map[string]int{"node\nactive": 1, "node\ncordoned": 1, "worker\nactive": 1, "worker\nleaving": 1}); is != want {
		t.Errorf("%s, want %s", is, want)
	}
	if n := unowned(members, []store.ShardRow{{Owner: 1}, {Owner: 0}, {Owner: 3}, {Owner: 9}}); n != 3 {
		t.Errorf("%d shards have no owner, want 3", n)
	}
}
