package cluster

import (
	"context"
	"time"

	"skein.dev/skein/internal/balance"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// Loads configures how a node takes part in the balancing of shards by load.
type Loads struct {
	// Measured returns how much work this node does for its shards, which is written into its row. If it is
	// nil, the cluster does not know the load of this node, and no shard moves because of it.
	Measured func() *store.Load
	// Rule decides which shards move. If its period is 0, this node decides nothing, but obeys the decisions
	// of other nodes.
	Rule balance.Rule
}

// LoadsOf returns the Loads of a node that measures its load and decides once per period. If the period is 0,
// it decides nothing.
func LoadsOf(period time.Duration, measured func() *store.Load) Loads {
	return Loads{Measured: measured, Rule: balance.NewRule(period)}
}

// scales is the part of the membership that balances shards by load. Only the goroutine of Run uses it.
type scales struct {
	memory  balance.Memory
	decided time.Time
	quick   int // the number of early looks, which wait for a shard that moves to this node
}

// balance moves a shard if the loads of the nodes are uneven and this node is the one that decides.
func (n *Node) balance(ctx context.Context, members []store.Member, shards []store.ShardRow) {
	rule, self, s := n.cfg.Loads.Rule, n.Self().Handler, &n.scales
	decides := false
	for i := range shards {
		decides = decides || shards[i].ID == store.GateShard && shards[i].Owner == self
	}
	now := n.host.Now()
	switch {
	case rule.Period <= 0 || !decides || !n.watch.settled:
		s.memory = balance.Memory{}
		return
	case now.Sub(s.decided) < rule.Period:
		return
	}
	s.decided = now
	to, steady := assign(members, shards), true
	for i := range shards {
		steady = steady && shards[i].Owner != 0 && to[shards[i].ID] == shards[i].Owner
	}
	var move store.ShiftMove
	var verdict balance.Verdict
	move, verdict, s.memory = rule.Decide(balance.State{Members: members, Shards: shards, Steady: steady}, s.memory)
	if verdict != balance.Moves {
		n.log.Debug("no shard moves because of its load", "verdict", string(verdict))
		return
	}
	done, err := n.cfg.Store.Shift(ctx, move)
	switch {
	case err != nil && ctx.Err() == nil:
		n.log.Warn("a shard cannot be moved to another node because of its load", "code", "shard_not_shifted", "shard", move.Shard, "err", err)
	case done:
		n.shifted.Add(1)
		n.log.Info("a shard moves to another node because of its load", "code", "shard_shifted", "shard", move.Shard,
			"from", nameOf(members, move.From), "to", nameOf(members, move.To), "why", move.Why)
		n.Wake()
	}
}

// quickMax bounds the early looks in a row. quickEvery is the time between them.
const (
	quickMax   = 20
	quickEvery = lookEvery / 10
)

// expects reports whether the next look should come early, because another node is releasing a shard that was
// moved to this node. So the shard has no owner for only a short time.
func (n *Node) expects(members []store.Member, shards []store.ShardRow) bool {
	self, coming := n.Self().Handler, false
	for i := range shards {
		s := &shards[i]
		coming = coming || s.Owner != self && (s.Wanted == self || s.Wanted == 0 && s.Shift.To == self)
	}
	if coming { // a shard is not expected if this node may own no shards
		to := assign(members, shards)
		coming = false
		for i := range shards {
			s := &shards[i]
			coming = coming || s.Owner != self && to[s.ID] == self && (s.Wanted == self || s.Shift.To == self)
		}
	}
	if !coming {
		n.scales.quick = 0
		return false
	}
	n.scales.quick++
	return n.scales.quick <= quickMax
}

// nameOf returns the name of a listed member, or "".
func nameOf(members []store.Member, h dag.HandlerID) string {
	for i := range members {
		if members[i].Handler == h {
			return members[i].Name
		}
	}
	return ""
}
