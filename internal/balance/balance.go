// Package balance decides which shard moves to which node because of its load. It is pure: the decision is a
// function of the rows of the cluster and of a small memory of earlier decisions.
//
// # Who decides
//
// The owner of shard 0 decides once per period, because one node must remember for how long the cluster has
// been uneven. It writes the move into the store (store.Cluster.Shift). Every node reads the move there and
// computes the same owners from it (package cluster, assign). Two nodes may believe for a moment that they
// own shard 0. But the store accepts at most one move per period, so the cluster does not move more shards
// because of that.
//
// # Cost and use
//
// The cost of a shard is the fraction of time for which the writer of its owner works for it: it makes
// transactions, and waits until the store has committed them. A node has one writer, so the costs of its
// shards add up to at most 1. The use of a node is this sum, divided by the node's capacity. The capacity is
// the number of its cores divided by coresMax, but at most 1, because on a small machine the writer shares
// the cores with the attempts.
//
// The figures that a node reports may be wrong. Costs of shards that the node does not own are ignored. Costs
// are clamped, and if they add up to more than 1, they are scaled down. If a figure is missing or old, no
// shard moves.
//
// # Why no shard moves back and forth
//
//   - A move must pay: the greatest use of the two nodes falls by Pay at least, and by a part of the gap.
//     So each move lowers the use of the busiest node, and a sequence of moves under the same load ends.
//   - A single hot shard does not move to a node that would then be as busy. Other shards leave its node.
//   - The cluster must have been uneven, with the same node as the busiest, for Patience periods. The
//     count begins again after each move of any shard, so the figures have settled.
//   - A shard that has moved stays for Stay, and does not return to the node from which it came before
//     Back.
//   - Shard 0 never moves: its owner grants locks and queue slots to all shards.
//   - A shard that an operator has moved stays where it is. So does every shard while some shard is under
//     way.
package balance

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// Rule holds the bounds of the decision.
type Rule struct {
	Period   time.Duration // the time between two decisions
	Patience int           // how many decisions in a row must find the cluster uneven
	Stay     time.Duration // how long a shard that has moved stays
	Back     time.Duration // the time for which a shard does not return to the node from which it came
	Gap      float64       // the least difference between the use of two nodes that counts as uneven
	Part     float64       // the least difference as a fraction of the greater use
	Pay      float64       // the smallest gain that justifies a move
}

// NewRule returns the rule of a period.
func NewRule(period time.Duration) Rule {
	return Rule{Period: period, Patience: 3, Stay: 20 * period, Back: 120 * period, Gap: 0.1, Part: 0.3, Pay: 0.02}
}

// State is the cluster as one read of the store shows it.
type State struct {
	Members []store.Member
	Shards  []store.ShardRow
	// Steady reports whether each shard is at the node to which it belongs.
	Steady bool
}

// Memory holds the results of earlier decisions that a decision needs. Its zero value is an empty memory.
type Memory struct {
	from   dag.HandlerID // the busiest node of the last decision, if the cluster was uneven
	times  int           // how many decisions in a row have found this
	beats  map[dag.HandlerID]int64
	epochs map[dag.ShardID]int64
}

// Verdict is Moves, or the reason why no shard moves.
type Verdict string

// The verdicts.
const (
	Moves    Verdict = "moves"
	Unsteady Verdict = "unsteady" // shards have moved since the last decision, or are moving
	Unknown  Verdict = "unknown"  // the figures of a node are missing or old
	Even     Verdict = "even"
	Waits    Verdict = "waits"   // the cluster is uneven, but not for long enough
	Nothing  Verdict = "nothing" // the cluster is uneven, but every possible move gains too little or is not allowed
)

// Decide returns the move to make now, if the verdict is Moves. The returned memory is for the next decision,
// one period later.
func (r Rule) Decide(s State, m Memory) (store.ShiftMove, Verdict, Memory) {
	next := Memory{beats: map[dag.HandlerID]int64{}, epochs: map[dag.ShardID]int64{}}
	nodes, fresh := nodesOf(&s, m.beats, next.beats)
	steady := s.Steady && len(m.epochs) == len(s.Shards)
	for i := range s.Shards {
		sh := &s.Shards[i]
		next.epochs[sh.ID] = sh.Epoch
		steady = steady && m.epochs[sh.ID] == sh.Epoch
	}
	switch {
	case !steady:
		return store.ShiftMove{}, Unsteady, next
	case !fresh || len(nodes) < 2:
		return store.ShiftMove{}, Unknown, next
	}
	busy := slices.MaxFunc(nodes, func(a, b *node) int {
		return cmp.Or(cmp.Compare(a.use, b.use), cmp.Compare(b.member.Handler, a.member.Handler))
	})
	idle := slices.MinFunc(nodes, func(a, b *node) int {
		return cmp.Or(cmp.Compare(a.use, b.use), cmp.Compare(a.member.Handler, b.member.Handler))
	})
	if gap := busy.use - idle.use; gap <= 0 || gap < max(r.Gap, r.Part*busy.use) {
		return store.ShiftMove{}, Even, next
	}
	next.from, next.times = busy.member.Handler, 1
	if m.from == next.from {
		next.times = min(m.times+1, r.Patience)
	}
	if next.times < r.Patience {
		return store.ShiftMove{}, Waits, next
	}
	best, found := r.best(&s, busy, nodes)
	if !found {
		return store.ShiftMove{}, Nothing, next
	}
	next.from, next.times = 0, 0
	return store.ShiftMove{Shard: best.shard.ID, Epoch: best.shard.Epoch, From: busy.member.Handler, To: best.to.member.Handler,
		Counts: countsFor(best.shard, nodes), Why: why(&best, busy), Apart: r.Period}, Moves, next
}

// node is a node that may own shards.
type node struct {
	member *store.Member
	costs  map[dag.ShardID]float64
	use    float64
	holds  float64 // capacity
}

// coresMax is the number of cores above which further cores do not raise a node's capacity.
const coresMax = 4

// nodesOf returns the nodes that may own shards. fresh reports whether each of them has sent new figures
// since the last decision. It writes their present counters to seen.
func nodesOf(s *State, was, seen map[dag.HandlerID]int64) (nodes []*node, fresh bool) {
	owners := map[dag.ShardID]dag.HandlerID{}
	for i := range s.Shards {
		owners[s.Shards[i].ID] = s.Shards[i].Owner
	}
	fresh = true
	for i := range s.Members {
		m := &s.Members[i]
		if !m.Able() {
			continue
		}
		n := &node{member: m, costs: map[dag.ShardID]float64{}, holds: 1}
		beat, known := was[m.Handler]
		seen[m.Handler] = m.Beat
		fresh = fresh && known && beat != m.Beat && m.Load != nil
		if m.Load != nil {
			n.costs, n.use = costsOf(m, owners)
		}
		if cores := float64(m.Traits.Room.CPU) / 1e3; cores > 0 {
			n.holds = min(max(cores, 1), coresMax) / coresMax
		}
		n.use /= n.holds
		nodes = append(nodes, n)
	}
	slices.SortFunc(nodes, func(a, b *node) int { return cmp.Compare(a.member.Handler, b.member.Handler) })
	return nodes, fresh
}

// costsOf returns the costs that a node reports, as far as they can be true, and their sum.
func costsOf(m *store.Member, owners map[dag.ShardID]dag.HandlerID) (costs map[dag.ShardID]float64, sum float64) {
	costs = map[dag.ShardID]float64{}
	for _, s := range m.Load.Shards {
		// The comparison also fails for NaN.
		if _, twice := costs[s.Shard]; twice || owners[s.Shard] != m.Handler || !(s.Busy > 0) {
			continue
		}
		costs[s.Shard] = min(s.Busy, 1)
	}
	ids := make([]dag.ShardID, 0, len(costs))
	for id := range costs {
		ids = append(ids, id)
	}
	slices.Sort(ids) // sorted, because the sum of floats depends on their order
	for _, id := range ids {
		sum += costs[id]
	}
	if sum > 1 {
		for id := range costs {
			costs[id] /= sum
		}
		sum = 1
	}
	return costs, sum
}

// choice is a move that pays.
type choice struct {
	shard *store.ShardRow
	to    *node
	cost  float64
	gain  float64
	then  float64 // how busy the target is after the move: its use, see the package comment
}

// better reports whether a choice gains more than another one. If both gain the same, the choice whose target
// is less busy afterwards is better. Differences that can come from the rounding of sums are ignored.
func (c *choice) better(than *choice) bool {
	const same = 1e-9
	if math.Abs(c.gain-than.gain) > same {
		return c.gain > than.gain
	}
	return c.then < than.then-same
}

// best finds the move from the busiest node that gains most. Among equal moves, it prefers the shard with the
// smallest number.
func (r Rule) best(s *State, busy *node, nodes []*node) (best choice, found bool) {
	now := clock(s.Members)
	rows := slices.Clone(s.Shards)
	sort.Slice(rows, func(i, j int) bool { return rows[i].ID < rows[j].ID })
	for i := range rows {
		sh := &rows[i]
		since := sinceShift(sh, now, r.Stay)
		cost := busy.costs[sh.ID]
		if sh.Owner != busy.member.Handler || sh.ID == store.GateShard || sh.Wanted != 0 || cost <= 0 || since < r.Stay {
			continue
		}
		for _, to := range nodes {
			if to == busy || to.member.Traits.Full || to.member.Handler == sh.Shift.From && since < r.Back {
				continue
			}
			gap, then := busy.use-to.use, to.use+cost/to.holds
			gain := busy.use - max(busy.use-cost/busy.holds, then)
			is := choice{sh, to, cost, gain, then}
			if gain < max(r.Pay, gap/20) || busy.use-then < gap/4 || found && !is.better(&best) {
				continue
			}
			best, found = is, true
		}
	}
	return best, found
}

// clock returns the present time of the store, as far as the rows show it.
func clock(members []store.Member) (now dag.Micros) {
	for i := range members {
		now = max(now, members[i].Seen)
	}
	return now
}

// sinceShift returns the time since a shard was shifted. If the time of the shift is far in the future,
// because a clock was set back since, sinceShift returns the longest duration.
func sinceShift(s *store.ShardRow, now dag.Micros, stay time.Duration) time.Duration {
	since := time.Duration(now-s.Shift.At) * time.Microsecond
	switch {
	case s.Shift.At == 0 || since < -stay:
		return math.MaxInt64
	default:
		return max(since, 0)
	}
}

// countsFor returns the node in whose even share a shard counts once it has moved. This is the same node as
// before the move, if that node may own shards.
func countsFor(s *store.ShardRow, nodes []*node) dag.HandlerID {
	able := func(h dag.HandlerID) bool {
		return slices.ContainsFunc(nodes, func(n *node) bool { return n.member.Handler == h })
	}
	if s.Shift.To == s.Owner && able(s.Shift.Counts) {
		return s.Shift.Counts
	}
	return s.Owner
}

// why explains to the operator why a shard moves.
func why(c *choice, busy *node) string {
	text := fmt.Sprintf("%s was %.0f%% busy and %s %.0f%%; the shard took %.0f%%", name(busy.member), 100*busy.use, name(c.to.member), 100*c.to.use, 100*c.cost/busy.holds)
	return strings.ToValidUTF8(text[:min(len(text), store.WhyMax)], "")
}

// name returns the name of a member, cut so that the reason stays within its bound.
func name(m *store.Member) string {
	const nameMax = 80
	return strings.ToValidUTF8(m.Name[:min(len(m.Name), nameMax)], "")
}

// Use returns the use of a node and the costs of its shards, as far as its figures can be true. known is
// false if the node reports no figures.
func Use(m *store.Member, shards []store.ShardRow) (use float64, known bool) {
	if m.Load == nil {
		return 0, false
	}
	s := State{Members: []store.Member{*m}, Shards: shards}
	s.Members[0].State, s.Members[0].Cordoned, s.Members[0].Stopped, s.Members[0].Worker = store.MemberActive, false, false, false
	nodes, _ := nodesOf(&s, nil, map[dag.HandlerID]int64{})
	return nodes[0].use, true
}
