package storetest

import (
	"strings"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// shifted checks the conditions of a shift: the owner, the epoch, two nodes, and a pause since the last
// shift. An operator's order excludes a shift, and removes one.
func shifted(b *bed, c store.Cluster) {
	a, o, worker := b.member(c, 1, "a"), b.member(c, 2, "o"), b.member(c, 3, "w")
	b.ok(c.Leave(b.ctx, worker.Handler))
	worker.Worker, worker.Home, worker.Lease = true, a.Handler, 1
	b.ok(c.Join(b.ctx, worker))
	got := b.claims(c, a.Handler, 0)
	good := store.ShiftMove{Shard: 0, Epoch: got[0].Epoch, From: a.Handler, To: o.Handler, Counts: a.Handler, Why: strings.Repeat("w", store.WhyMax), Apart: time.Hour}
	shift := func(what string, want bool, change func(m *store.ShiftMove)) {
		b.Helper()
		m := good
		if change != nil {
			change(&m)
		}
		done, err := c.Shift(b.ctx, m)
		b.ok(err)
		b.same(done, want, what)
	}
	is := func() store.Shift {
		b.Helper()
		_, shards := b.look(c)
		return shards[0].Shift
	}
	shift("an old epoch", false, func(m *store.ShiftMove) { m.Epoch-- })
	shift("of another owner", false, func(m *store.ShiftMove) { m.From = o.Handler })
	shift("to a worker", false, func(m *store.ShiftMove) { m.To = worker.Handler })
	shift("to no member", false, func(m *store.ShiftMove) { m.To = 4711 })
	b.ok(c.Move(b.ctx, 0, a.Handler))
	shift("a shard of an operator", false, nil)
	b.ok(c.Move(b.ctx, 0, 0))
	b.same(is(), store.Shift{}, "a shift that was refused")
	shift("a shift", true, nil)
	first := is()
	if first.At <= 0 {
		b.Errorf("the shift has no time: %+v", first)
	}
	b.same(first, store.Shift{At: first.At, From: a.Handler, To: o.Handler, Counts: a.Handler, Why: good.Why}, "the shift")
	shift("too soon", false, nil)
	shift("later", true, func(m *store.ShiftMove) { m.Apart = -1 })
	b.ok(c.Move(b.ctx, 0, 0))
	b.same(is(), store.Shift{}, "the shift after an order")
	_, err := c.Shift(b.ctx, store.ShiftMove{Shard: 1 << 20})
	b.is(err, store.ErrNotFound)
	_, err = c.Shift(b.ctx, store.ShiftMove{Shard: 0, Why: "\x00"})
	b.is(err, store.ErrRefused)
}

func shiftedOn(b *bed, c store.Cluster) {
	a, o := b.member(c, 1, "a"), b.member(c, 2, "o")
	got := b.claims(c, a.Handler, 0)
	done, err := c.Shift(b.ctx, store.ShiftMove{Shard: 0, Epoch: got[0].Epoch, From: a.Handler, To: o.Handler, Counts: a.Handler})
	b.ok(err)
	b.same(done, true, "shifted")
	is := func() []dag.HandlerID {
		b.Helper()
		_, shards := b.look(c)
		s := shards[0].Shift
		return []dag.HandlerID{s.From, s.To, s.Counts}
	}
	second := b.member(c, 3, "o")
	b.same(is(), []dag.HandlerID{a.Handler, second.Handler, a.Handler}, "after the new life of its node")
	b.ok(c.Leave(b.ctx, a.Handler))
	b.same(is(), []dag.HandlerID{a.Handler, second.Handler, a.Handler}, "after its former node has left")
	again := b.member(c, 4, "a")
	b.same(is(), []dag.HandlerID{again.Handler, second.Handler, again.Handler}, "after the new life of its former node")
}

func loadKept(b *bed, c store.Cluster) {
	m := b.member(c, 1, "a")
	is := func() *store.Load {
		b.Helper()
		members, _ := b.look(c)
		return members[m.Handler].Load
	}
	b.same(is() == nil, true, "a node that has measured nothing")
	m.Traits.Groups = []string{"etl"}
	for _, l := range []*store.Load{
		{Shards: []store.ShardLoad{{Shard: 1, Busy: 0.25, Rows: 120.5, Commits: 40, Wait: 0.0015}, {Shard: 7, Busy: 1}}, Callers: []store.CallerUse{{Name: "session/7", Rate: 2.5, Streams: 3}}},
		{}, nil,
	} {
		m.Load = l
		_, err := c.Renew(b.ctx, m)
		b.ok(err)
		got := is()
		b.same(got == nil, l == nil, "a load")
		if l != nil {
			b.same(append([]store.ShardLoad{}, got.Shards...), append([]store.ShardLoad{}, l.Shards...), "the load")
			b.same(append([]store.CallerUse{}, got.Callers...), append([]store.CallerUse{}, l.Callers...), "the callers")
		}
		members, _ := b.look(c)
		b.same(members[m.Handler].Traits.Groups, m.Traits.Groups, "the traits beside it")
	}
}
