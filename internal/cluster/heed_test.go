package cluster_test

import (
	"context"
	"sync/atomic"
	"testing"

	"skein.dev/skein/internal/cluster"
	"skein.dev/skein/internal/store"
)

// order sets an order for a node, or removes it.
func (b *bed) order(node, what string, stand bool) {
	b.Helper()
	if _, err := b.cluster().Order(context.Background(), store.Order{Node: node, What: what}, stand); err != nil {
		b.Fatal(err)
	}
}

// is waits until a node's row has a state.
func (b *bed) is(n *node, state string) {
	b.Helper()
	b.until(n.name+" is "+state, func() bool {
		members, _ := b.view()
		return members[n.handler()].State == state
	})
}

// TestCordoned: a cordoned node has no shard, and is drained once it runs no attempt. It stays so after its
// death, until the order is removed.
func TestCordoned(t *testing.T) {
	scenario(t, func(b *bed) {
		var busy atomic.Int64
		busy.Store(2)
		a, c, d := b.start("a"), b.start("c", func(cfg *cluster.Config) { cfg.Busy = func() int { return int(busy.Load()) } }), b.start("d")
		b.spread(a, c, d)
		b.order("c", store.OrderCordon, true)
		b.spread(a, d)
		if members, _ := b.view(); members[c.handler()].State != store.MemberActive {
			b.Error("it is drained although it runs something")
		}
		busy.Store(0)
		b.is(c, store.MemberDrained)
		c.ends(b)
		e := b.start("c")
		b.is(e, store.MemberDrained)
		b.spread(a, d)
		b.order("c", store.OrderCordon, false)
		b.spread(a, d, e)
		b.is(e, store.MemberActive)
		if b.deposed.Load() != 0 {
			b.Error("somebody was deposed")
		}
	})
}

// TestStopped: a stopped node owns no shard. If all nodes are stopped, no shard has an owner.
func TestStopped(t *testing.T) {
	scenario(t, func(b *bed) {
		a, c, d := b.three()
		b.order("d", store.OrderStop, true)
		b.spread(a, c)
		b.order("", store.OrderStop, true)
		free := func() bool {
			_, shards := b.view()
			for i := range shards {
				if shards[i].Owner != 0 {
					return false
				}
			}
			return len(a.owner.holds())+len(c.owner.holds())+len(d.owner.holds()) == 0
		}
		b.until("nobody owns anything", free)
		d.ends(b)
		e := b.start("d")
		b.until("the new life is listed", func() bool { members, _ := b.view(); return members[e.handler()].Stopped })
		if !free() {
			b.Error("who joins a stopped cluster owns something")
		}
		b.order("", store.OrderStop, false)
		b.spread(a, c)
		b.order("d", store.OrderStop, false)
		b.spread(a, c, e)
	})
}

// TestMovedByHand: a shard goes to the node to which it was moved, and follows the node to its next life.
func TestMovedByHand(t *testing.T) {
	scenario(t, func(b *bed) {
		a, c, d := b.three()
		owned := func(n *node) func() bool {
			return func() bool {
				_, shards := b.view()
				return shards[5].Owner == n.handler()
			}
		}
		for _, to := range []*node{a, c} {
			if err := b.cluster().Move(context.Background(), 5, to.handler()); err != nil {
				b.Fatal(err)
			}
			b.until("it is moved", owned(to))
			b.spread(a, c, d)
		}
		c.ends(b)
		b.spread(a, d)
		e := b.start("c")
		b.until("it is back", owned(e))
		b.spread(a, d, e)
	})
}
