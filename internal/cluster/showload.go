package cluster

import (
	"cmp"
	"slices"
	"sort"
	"strconv"

	"skein.dev/skein/internal/balance"
	"skein.dev/skein/internal/metric"
	"skein.dev/skein/internal/store"
)

// nodesShown and shardsShown bound the label values of the metrics of the load.
const nodesShown, shardsShown = 100, 10

// ShowLoad shows the load of the nodes and of their costliest shards on a page of metrics.
func (n *Node) ShowLoad(p *metric.Page) {
	members, shards := n.View()
	var costs []store.ShardLoad
	shown := 0
	for i := range members {
		m := &members[i]
		use, known := balance.Use(m, shards)
		if m.Worker || !known {
			continue
		}
		if shown++; shown <= nodesShown {
			p.Set("node_load", use, m.Name)
		}
		costs = append(costs, m.Load.Shards...)
	}
	sort.Slice(costs, func(i, j int) bool {
		a, b := &costs[i], &costs[j]
		return cmp.Or(cmp.Compare(a.Shard, b.Shard), cmp.Compare(b.Busy, a.Busy)) < 0
	})
	// a shard that is moving can be in the rows of two nodes
	costs = slices.CompactFunc(costs, func(a, b store.ShardLoad) bool { return a.Shard == b.Shard })
	sort.Slice(costs, func(i, j int) bool {
		a, b := &costs[i], &costs[j]
		return cmp.Or(cmp.Compare(b.Busy, a.Busy), cmp.Compare(a.Shard, b.Shard)) < 0
	})
	for _, s := range costs[:min(len(costs), shardsShown)] {
		p.Set("shard_load", s.Busy, strconv.Itoa(int(s.Shard)))
	}
	p.Set("shards_shifted_total", float64(n.shifted.Load()))
}
