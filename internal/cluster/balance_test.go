package cluster_test

import (
	"sync"
	"testing"
	"time"

	"skein.dev/skein/internal/balance"
	"skein.dev/skein/internal/cluster"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// shardCosts are the costs of shards that the nodes of a test measure.
type shardCosts struct {
	mu sync.Mutex
	of map[dag.ShardID]float64
}

func (c *shardCosts) set(s dag.ShardID, cost float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[dag.ShardID]float64{}
	}
	c.of[s] = cost
}

func (c *shardCosts) get(s dag.ShardID) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of[s]
}

// weighed returns a change of a node's configuration. The node then reports these costs for its shards, and
// takes part in balancing.
func weighed(b *bed, costs *shardCosts) func(*cluster.Config) {
	return func(c *cluster.Config) {
		o := c.Owner.(*owner)
		c.Loads = cluster.Loads{Rule: balance.NewRule(2 * b.beat), Measured: func() *store.Load {
			var all []store.ShardLoad
			for _, s := range o.holds() {
				all = append(all, store.ShardLoad{Shard: s, Busy: costs.get(s)})
			}
			return store.NewLoad(all)
		}}
	}
}

// uses returns the cost of the shards of each node.
func uses(shards []store.ShardRow, costs *shardCosts) map[dag.HandlerID]float64 {
	all := map[dag.HandlerID]float64{}
	for _, s := range shards {
		all[s.Owner] += costs.get(s.ID)
	}
	return all
}

// TestShardsMoveByLoad: three nodes have equal numbers of shards, and one node has all the load. Shards move
// until the load is spread. Then none moves, and when a node dies and comes back, shards that were shifted to
// others stay there.
func TestShardsMoveByLoad(t *testing.T) {
	scenario(t, func(b *bed) {
		costs := &shardCosts{}
		nodes := []*node{b.start("a", weighed(b, costs)), b.start("b", weighed(b, costs)), b.start("c", weighed(b, costs))}
		b.spread(nodes...)
		_, shards := b.view()
		busy, n := shards[0].Owner, 0
		for _, s := range shards {
			if s.Owner == busy && s.ID != store.GateShard && n < 6 {
				n++
				costs.set(s.ID, 0.1)
			}
		}
		looks, without := 0, 0 // reads of the shards while they move, and the shards without an owner in them
		even := func() bool {
			_, shards := b.view()
			looks++
			for _, s := range shards {
				if s.Owner == 0 {
					without++
				}
			}
			u := uses(shards, costs)
			return u[nodes[0].handler()] < 0.25 && u[nodes[1].handler()] < 0.25 && u[nodes[2].handler()] < 0.25
		}
		for end := time.Now().Add(100 * 2 * b.beat); !even() && time.Now().Before(end); {
			time.Sleep(20 * time.Millisecond)
		}
		b.Logf("in %d looks, one each 20 ms, a shard had no owner %d times", looks, without)
		shifts := func() (all []store.Shift) {
			_, shards := b.view()
			for _, s := range shards {
				if s.Shift.At != 0 {
					all = append(all, s.Shift)
				}
			}
			return all
		}
		first := len(shifts())
		if first != 4 {
			b.Errorf("%d shards were shifted, want 4", first)
		}
		for _, s := range shifts() {
			if s.From != busy || s.To == busy || s.Counts != busy || s.Why == "" {
				b.Errorf("%+v", s)
			}
		}
		time.Sleep(10 * 2 * b.beat)
		if n := len(shifts()); n != first || b.deposed.Load() != 0 {
			b.Errorf("%d shifts of an even load; %d deposed", n-first, b.deposed.Load())
		}
		for i, n := range nodes {
			if n.handler() != busy {
				n.dies()
				nodes[i] = b.start(n.name, weighed(b, costs))
				break
			}
		}
		b.until("the shards are where they were", func() bool {
			_, shards := b.view()
			for _, s := range shards {
				if s.Owner == 0 || s.Shift.At != 0 && s.Owner != s.Shift.To {
					return false
				}
			}
			return true
		})
	})
}

// TestNoDecisionByTwo: nodes that do not own shard 0, and a node whose period is 0, move nothing.
func TestNoDecisionByTwo(t *testing.T) {
	scenario(t, func(b *bed) {
		costs := &shardCosts{}
		off := func(c *cluster.Config) {
			weighed(b, costs)(c)
			c.Loads.Rule.Period = 0
		}
		one := b.start("a", off)
		b.spread(one)
		two := b.start("b", weighed(b, costs))
		b.spread(one, two)
		_, shards := b.view()
		if shards[0].Owner != one.handler() {
			b.Fatal("shard 0 has moved")
		}
		for _, s := range shards {
			if s.Owner == one.handler() {
				costs.set(s.ID, 0.05)
			}
		}
		time.Sleep(10 * 2 * b.beat)
		_, shards = b.view()
		for _, s := range shards {
			if s.Shift.At != 0 {
				b.Errorf("%+v", s)
			}
		}
	})
}
