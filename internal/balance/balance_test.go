package balance

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

const period = 30 * time.Second

// town is a cluster without processes: its rows, and the true costs of its shards.
type town struct {
	rule    Rule
	state   State
	memory  Memory
	costs   map[dag.ShardID]float64
	moves   int
	at      map[dag.ShardID]dag.Micros
	verdict Verdict
}

// newTown spreads the shards over the nodes in turn.
func newTown(nodes int, costs ...float64) *town {
	c := &town{rule: NewRule(period), state: State{Steady: true}, costs: map[dag.ShardID]float64{}, at: map[dag.ShardID]dag.Micros{}}
	for i := range nodes {
		c.state.Members = append(c.state.Members, store.Member{Handler: dag.HandlerID(i + 1), Name: string(rune('a' + i)), State: store.MemberActive, Seen: 1e12})
	}
	for i, cost := range costs {
		id := dag.ShardID(i)
		c.state.Shards = append(c.state.Shards, store.ShardRow{ID: id, Epoch: 1, Owner: dag.HandlerID(i%nodes + 1)})
		c.costs[id] = cost
	}
	return c
}

// step plays one period. The nodes send figures, which differ from the true costs by the factor noise. Then
// one decision is made, and a move is carried out.
func (c *town) step(noise func() float64) (store.ShiftMove, bool) {
	for i := range c.state.Members {
		m := &c.state.Members[i]
		m.Beat++
		m.Seen += dag.Micros(period.Microseconds())
		var all []store.ShardLoad
		for j := range c.state.Shards {
			if s := &c.state.Shards[j]; s.Owner == m.Handler {
				all = append(all, store.ShardLoad{Shard: s.ID, Busy: c.costs[s.ID] * (1 + noise())})
			}
		}
		m.Load = store.NewLoad(all)
	}
	var move store.ShiftMove
	move, c.verdict, c.memory = c.rule.Decide(c.state, c.memory)
	if c.verdict != Moves {
		return move, false
	}
	c.moves++
	for j := range c.state.Shards {
		if s := &c.state.Shards[j]; s.ID == move.Shard {
			s.Owner, s.Epoch = move.To, s.Epoch+1
			s.Shift = store.Shift{At: c.state.Members[0].Seen, From: move.From, To: move.To, Counts: move.Counts, Why: move.Why}
		}
	}
	return move, true
}

func exact() float64 { return 0 }

// uses returns the use of each node.
func (c *town) uses() map[dag.HandlerID]float64 {
	uses := map[dag.HandlerID]float64{}
	for i := range c.state.Members {
		uses[c.state.Members[i].Handler] = 0
	}
	for i := range c.state.Shards {
		uses[c.state.Shards[i].Owner] += c.costs[c.state.Shards[i].ID]
	}
	return uses
}

func most(uses map[dag.HandlerID]float64) (m float64) {
	for _, u := range uses {
		m = max(m, u)
	}
	return m
}

// TestConverges: under a load that stays the same, moves lower the use of the busiest node, and the moves
// end, even if figures are inexact. No shard moves twice within its stay, and shard 0 and shards of operators
// never move.
func TestConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(2, 6).Draw(t, "nodes")
		costs := rapid.SliceOfN(rapid.Float64Range(0, 1), nodes, 40).Draw(t, "costs")
		sum := 0.0
		for _, c := range costs {
			sum += c
		}
		for i := range costs { // no node can be busier than its writer
			costs[i] *= min(1, 0.9/max(sum, 1e-9))
		}
		c := newTown(nodes, costs...)
		for i := range c.state.Shards {
			if rapid.IntRange(0, 9).Draw(t, "pinned") == 0 {
				c.state.Shards[i].Wanted = c.state.Shards[i].Owner
			}
		}
		noise := func() float64 { return 0 }
		if rapid.Bool().Draw(t, "noisy") {
			noise = func() float64 { return rapid.Float64Range(-0.03, 0.03).Draw(t, "noise") }
		}
		before, quiet := most(c.uses()), 0
		for n := 0; quiet < 3*c.rule.Patience; n++ {
			was := c.state
			was.Shards = append([]store.ShardRow(nil), was.Shards...)
			move, moved := c.step(noise)
			if !moved {
				quiet++
				continue
			}
			quiet = 0
			row := was.Shards[move.Shard]
			now := c.state.Members[0].Seen
			if move.Shard == store.GateShard || row.Wanted != 0 || row.Owner != move.From || row.Epoch != move.Epoch {
				t.Fatalf("%+v moves: %+v", row, move)
			}
			if at, ok := c.at[move.Shard]; ok && time.Duration(now-at)*time.Microsecond < c.rule.Stay {
				t.Fatalf("shard %d moves again after %d periods", move.Shard, (now-at)/dag.Micros(period.Microseconds()))
			}
			c.at[move.Shard] = now
			if is := most(c.uses()); is > before*1.05 {
				t.Fatalf("the busiest node was %.3f busy and is %.3f after %+v", before, is, move)
			}
			before = most(c.uses())
			if n > 20*len(costs)*c.rule.Patience {
				t.Fatalf("%d periods and no end", n)
			}
		}
		if c.moves > 2*len(costs) {
			t.Fatalf("%d moves for %d shards", c.moves, len(costs))
		}
	})
}

// TestSkewBecomesEven: all load begins on one node, and ends spread over all of them.
func TestSkewBecomesEven(t *testing.T) {
	costs := make([]float64, 33)
	for i := range costs {
		if i%3 == 0 {
			costs[i] = 0.07
		}
	}
	c := newTown(3, costs...)
	periods := 0
	for ; c.verdict != Even; periods++ {
		if c.step(exact); periods > 100 {
			t.Fatalf("uneven after %d periods: %v, %s", periods, c.uses(), c.verdict)
		}
	}
	t.Logf("%d moves in %d periods: %v", c.moves, periods, c.uses())
	if c.moves > 7 {
		t.Errorf("%d moves, and 7 are enough", c.moves)
	}
}

// TestHotShard: one shard that costs more than all others stays where it is, and other shards leave its node.
func TestHotShard(t *testing.T) {
	c := newTown(2, 0.01, 0.01, 0.8, 0.01, 0.06, 0.01, 0.06, 0.01)
	for range 100 {
		if move, moved := c.step(exact); moved && move.Shard == 2 {
			t.Fatalf("the hot shard moves: %+v", move)
		}
	}
	if c.moves != 2 || c.verdict != Nothing {
		t.Errorf("%d moves, then %s; want 2 and %s", c.moves, c.verdict, Nothing)
	}
	alone := newTown(2, 0, 0, 0.8, 0)
	for range 100 {
		if move, moved := alone.step(exact); moved {
			t.Fatalf("a hot shard that is alone on its node moves: %+v", move)
		}
	}
}

// TestNoMove: the rule moves no shard if the figures do not justify a move.
func TestNoMove(t *testing.T) {
	for name, test := range map[string]struct {
		change func(c *town)
		want   Verdict
	}{
		"shards under way":           {func(c *town) { c.state.Steady = false }, Unsteady},
		"a shard changes its life":   {func(c *town) { c.state.Shards[3].Epoch++ }, Unsteady},
		"a node is silent":           {func(c *town) { c.state.Members[1].Beat-- }, Unknown},
		"the only other leaves":      {func(c *town) { c.state.Members[1].State = store.MemberLeaving }, Unknown},
		"the only other is cordoned": {func(c *town) { c.state.Members[1].Cordoned = true }, Unknown},
		"the only other is full":     {func(c *town) { c.state.Members[1].Traits.Full = true }, Nothing},
		"an operator moved them": {func(c *town) {
			for i := range c.state.Shards {
				c.state.Shards[i].Wanted = 1
			}
		}, Nothing},
		"they have just moved": {func(c *town) {
			for i := range c.state.Shards {
				c.state.Shards[i].Shift = store.Shift{At: c.state.Members[0].Seen, From: 2, To: 1, Counts: 1}
			}
		}, Nothing},
		"they came from there": {func(c *town) {
			for i := range c.state.Shards {
				c.state.Shards[i].Shift = store.Shift{At: c.state.Members[0].Seen - dag.Micros((c.rule.Stay+c.rule.Back).Microseconds()/2), From: 2, To: 1, Counts: 1}
			}
		}, Nothing},
	} {
		c := newTown(2, 0.2, 0, 0.2, 0, 0.2, 0)
		for range 6 {
			test.change(c)
			if move, moved := c.step(exact); moved {
				t.Errorf("%s: %+v", name, move)
			}
		}
		if c.verdict != test.want {
			t.Errorf("%s: %s, want %s", name, c.verdict, test.want)
		}
	}
}

// TestLies: figures that cannot be true are used only as far as they can be true.
func TestLies(t *testing.T) {
	c := newTown(2, 0.2, 0, 0.2, 0)
	m := &c.state.Members[0]
	for _, test := range []struct {
		load []store.ShardLoad
		want float64
	}{
		{[]store.ShardLoad{{Shard: 0, Busy: 0.25}, {Shard: 0, Busy: 0.5}}, 0.25},
		{[]store.ShardLoad{{Shard: 1, Busy: 0.5}, {Shard: 99, Busy: 0.5}, {Shard: -1, Busy: 0.5}}, 0},
		{[]store.ShardLoad{{Shard: 0, Busy: math.NaN()}, {Shard: 2, Busy: -1}}, 0},
		{[]store.ShardLoad{{Shard: 0, Busy: math.Inf(1)}, {Shard: 2, Busy: 1e9}}, 1},
	} {
		m.Load = &store.Load{Shards: test.load}
		if use, known := Use(m, c.state.Shards); !known || use != test.want {
			t.Errorf("%v: %v, want %v", test.load, use, test.want)
		}
	}
}

// TestCores: a node with fewer cores gets less load.
func TestCores(t *testing.T) {
	c := newTown(2, 0, 0.1, 0, 0.1, 0, 0.1, 0, 0.1)
	c.state.Members[0].Traits.Room.CPU, c.state.Members[1].Traits.Room.CPU = 1000, 8000
	for range 60 {
		c.step(exact)
	}
	if u := c.uses(); u[1] > 0.11 || u[1]+u[2] < 0.39 {
		t.Errorf("the node with one core has %v, the other one %v", u[1], u[2])
	}
	c = newTown(2, 0, 0.1, 0, 0.1, 0, 0.1, 0, 0.1)
	for range 60 {
		c.step(exact)
	}
	if u := c.uses(); math.Abs(u[1]-u[2]) > 0.11 {
		t.Errorf("nodes of one kind have %v and %v", u[1], u[2])
	}
}
