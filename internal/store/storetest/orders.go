package storetest

import (
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

func movedOn(b *bed, c store.Cluster) {
	first, other := b.member(c, 1, "a"), b.member(c, 2, "b")
	wanted := func() dag.HandlerID {
		_, shards := b.look(c)
		return shards[0].Wanted
	}
	b.ok(c.Move(b.ctx, 0, first.Handler))
	second := b.member(c, 3, "a")
	b.same(wanted(), second.Handler, "wanted, of a node that was replaced")
	b.ok(c.Leave(b.ctx, second.Handler))
	b.ok(c.Join(b.ctx, other))
	b.same(wanted(), second.Handler, "wanted, when another node joins")
	third := b.member(c, 4, "a")
	b.same(wanted(), third.Handler, "wanted, of a node that was away")
}

func orders(b *bed, c store.Cluster) {
	one, two := b.member(c, 1, "a"), b.member(c, 2, "b")
	stand := func(node, what string, want ...bool) {
		b.Helper()
		members, _ := b.look(c)
		o, w := members[one.Handler], members[two.Handler]
		b.same([]bool{o.Cordoned, o.Stopped, w.Cordoned, w.Stopped}, want, "cordoned and stopped after "+what+" "+node)
	}
	order := func(node, what string, on, changed bool) {
		b.Helper()
		got, err := c.Order(b.ctx, store.Order{Node: node, What: what, Actor: "ada"}, on)
		b.ok(err)
		b.same(got, changed, "changed")
	}
	order("a", store.OrderCordon, false, false)
	stand("a", "nothing", false, false, false, false)
	order("a", store.OrderCordon, true, true)
	order("a", store.OrderCordon, true, false)
	stand("a", "cordon", true, false, false, false)
	order("b", store.OrderStop, true, true)
	stand("b", "stop", true, false, false, true)
	order("", store.OrderStop, true, true)
	stand("all", "stop", true, true, false, true)
	all, err := c.Orders(b.ctx)
	b.ok(err)
	for i := range all {
		if all[i].At <= 0 {
			b.Fatalf("order %+v has no time", all[i])
		}
		all[i].At = 0
	}
	b.same(all, []store.Order{{Node: "", What: store.OrderStop, Actor: "ada"}, {Node: "a", What: store.OrderCordon, Actor: "ada"},
		{Node: "b", What: store.OrderStop, Actor: "ada"}}, "orders")
	b.ok(c.Leave(b.ctx, one.Handler))
	one = b.member(c, 3, "a")
	stand("all", "leaving and joining", true, true, false, true)
	order("", store.OrderStop, false, true)
	order("b", store.OrderStop, false, true)
	order("a", store.OrderCordon, false, true)
	stand("all", "no order", false, false, false, false)
	for _, o := range []store.Order{{Node: "a", What: "dance"}, {Node: "a\x00", What: store.OrderStop}, {Node: "a", What: store.OrderStop, Actor: "\xff"}} {
		_, err := c.Order(b.ctx, o, true)
		b.is(err, store.ErrRefused)
	}
	one.State = store.MemberDrained
	_, err = c.Renew(b.ctx, one)
	b.ok(err)
	members, _ := b.look(c)
	b.same(members[one.Handler].State, store.MemberDrained, "the state")
}
