package storetest

import (
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

func claimed(b *bed, c store.Cluster) {
	m, other := b.member(c, 1, "a"), b.member(c, 2, "b")
	first := b.claims(c, m.Handler, 0)[0]
	got, err := c.Claim(b.ctx, other.Handler, b.every())
	b.ok(err)
	b.same(len(got), len(b.fences)-1, "shards that another did not have")
	for i, a := range got {
		b.same(a.Shard, dag.ShardID(i+1), "the order of shards")
	}
	again := b.claims(c, m.Handler, 0)[0]
	b.same(again.Fence, store.Fence{Shard: 0, Epoch: first.Epoch + 1, Seq: first.Seq}, "its own, once more")
	b.same(again.Previous, m.Handler, "the previous owner")
	b.ok(c.Release(b.ctx, []store.Fence{again.Fence}))
	b.same(b.owners(c)[0], dag.HandlerID(0), "the owner of a released shard")
	b.same(b.claims(c, other.Handler, 0)[0].Epoch, again.Epoch+1, "the epoch")
	b.same(b.owners(c), b.ownedBy(other.Handler), "owners")
	got, err = c.Claim(b.ctx, other.Handler, []dag.ShardID{0, 0})
	b.ok(err)
	b.same(len(got), 1, "a shard named twice")
}

func claimUnknown(b *bed, c store.Cluster) {
	m := b.member(c, 1, "a")
	for _, unknown := range []dag.ShardID{-1, 1 << 20} {
		_, err := c.Claim(b.ctx, m.Handler, []dag.ShardID{0, unknown})
		b.is(err, store.ErrNotFound)
	}
	b.same(b.owners(c), b.ownedBy(0), "owners")
}

func claimNothing(b *bed, c store.Cluster) {
	got, err := c.Claim(b.ctx, b.member(c, 1, "a").Handler, nil)
	b.ok(err)
	b.same(len(got), 0, "shards")
	b.ok(c.Release(b.ctx, nil))
	found, err := c.Submitted(b.ctx, nil, 10)
	b.ok(err)
	b.same(len(found), 0, "runs of no shard")
}

func claimTells(b *bed, c store.Cluster) {
	b.put(func(x *store.Batch) { x.Watermark = 4711 })
	before := slices.Clone(b.fences)
	m := b.member(c, 1, "a")
	for i, a := range b.claims(c, m.Handler, b.every()...) {
		b.same(a.Fence, store.Fence{Shard: before[i].Shard, Epoch: before[i].Epoch + 1, Seq: before[i].Seq}, "the fence")
		b.same(a.Watermark, dag.Micros(4711), "the watermark")
		b.same(a.Previous, b.owner, "the previous owner")
		if a.Now < 4711 {
			b.Fatalf("claim returned the clock %d", a.Now)
		}
	}
}

// claimOrphans checks that a shard can be claimed if its owner is not a member. Such an owner used the store
// without a cluster, or was declared dead during its own claim.
func claimOrphans(b *bed, c store.Cluster) {
	b.take()
	other := b.member(c, 1, "b")
	b.same(b.owners(c), b.ownedBy(0), "owners")
	b.claims(c, other.Handler, b.every()...)
}

// claimStranger checks that a deposed member cannot claim a shard, not even a free one.
func claimStranger(b *bed, c store.Cluster) {
	m := b.member(c, 1, "a")
	b.claims(c, m.Handler, 0)
	b.ok(c.Leave(b.ctx, m.Handler))
	got, err := c.Claim(b.ctx, m.Handler, b.every())
	b.ok(err)
	b.same(len(got), 0, "claimed shards")
	b.same(b.owners(c), b.ownedBy(0), "owners")
}

func claimFences(b *bed, c store.Cluster) {
	w := b.world()
	old := b.member(c, 1, "a")
	take := func(h dag.HandlerID) {
		for i, a := range b.claims(c, h, b.every()...) {
			b.fences[i] = a.Fence
		}
	}
	take(old.Handler)
	b.put(func(x *store.Batch) { x.RunInserts = []dag.RunRow{b.run(dag.RunRunning)} })
	stale := slices.Clone(b.fences)
	members, _ := b.look(c)
	done, err := c.Depose(b.ctx, old.Handler, members[old.Handler].Beat)
	b.ok(err)
	b.same(done, true, "deposed")
	take(b.member(c, 2, "b").Handler)
	for range 3 {
		x := b.full(&w)
		x.Fences = slices.Clone(stale)
		b.fails(x, store.ErrFenced)
		for i := range stale {
			stale[i].Seq++
		}
	}
}

func acquireOwns(b *bed, c store.Cluster) {
	m, other := b.member(c, 1, "a"), b.member(c, 2, "b")
	b.claims(c, m.Handler, b.every()...)
	got, err := b.s.Acquire(b.ctx, other.Handler, b.every())
	b.ok(err)
	for _, a := range got {
		b.same(a.Previous, m.Handler, "the previous owner")
	}
	b.same(b.owners(c), b.ownedBy(other.Handler), "owners")
	b.ok(c.Release(b.ctx, []store.Fence{got[0].Fence}))
	b.same(b.owners(c)[0], dag.HandlerID(0), "the owner of a released shard")
}

func releaseStale(b *bed, c store.Cluster) {
	m, other := b.member(c, 1, "a"), b.member(c, 2, "b")
	old := b.claims(c, m.Handler, b.every()...)
	b.ok(c.Release(b.ctx, []store.Fence{old[0].Fence}))
	is := b.claims(c, other.Handler, 0)[0]
	b.ok(c.Release(b.ctx, []store.Fence{old[0].Fence, {Shard: 1 << 20, Epoch: 1}, {Shard: 0, Epoch: is.Epoch + 1}}))
	want := b.ownedBy(m.Handler)
	want[0] = other.Handler
	b.same(b.owners(c), want, "owners")
	x := &store.Batch{Fences: []store.Fence{is.Fence}}
	_, err := b.s.Commit(b.ctx, x)
	b.ok(err) // no other member owns the shard
	is.Seq += 99
	b.ok(c.Release(b.ctx, []store.Fence{is.Fence})) // only the epoch must match
	b.same(b.owners(c)[0], dag.HandlerID(0), "the owner of a released shard")
}
