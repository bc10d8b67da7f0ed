package sim

import (
	"context"
	"math"
	"time"

	"skein.dev/skein/internal/balance"
	"skein.dev/skein/internal/cluster"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

const (
	// loadPeriod is the time between two decisions about the load.
	loadPeriod = 2 * time.Second
	// convergeBound bounds the number of periods from the last fault until the load is spread.
	convergeBound = 250
	// After the load is spread, the world continues for restPeriods. At most restMoves moves may happen
	// during this rest. Zero would be too strict, because figures are never exact, and an imbalance can be
	// just below the bound.
	restPeriods, restMoves = 60, 3
)

// burdens holds the load of a world's shards, and the shifts that its nodes have made.
type burdens struct {
	costs   map[dag.ShardID]float64 // true costs
	told    map[*life]*store.Load   // last figures that each process reported
	shifts  map[dag.ShardID]store.Shift
	at      map[dag.ShardID]int64 // time of the last shift of each shard, in the time of the world
	last    int64                 // time of the last shift of any shard; 0 if there was none
	jumps   int                   // number of jumps of the database's clock before the last shift
	moves   int
	resting int // number of moves before the rest; -1 before the rest
}

// burden gives shards their costs. Most are idle, some cost much, and sometimes one costs more than all
// others together.
func burden(w *World) {
	if !w.stage.Load {
		return
	}
	b := &w.burdens
	*b = burdens{costs: map[dag.ShardID]float64{}, told: map[*life]*store.Load{}, shifts: map[dag.ShardID]store.Shift{}, at: map[dag.ShardID]int64{}, resting: -1}
	for _, s := range w.allShards() {
		b.costs[s] = 0.01 * w.rng.Float64()
		if w.rng.IntN(3) == 0 {
			b.costs[s] = 0.03 + 0.2*w.rng.Float64()
		}
	}
	if w.rng.IntN(4) == 0 {
		b.costs[dag.ShardID(w.rng.IntN(w.swarm.shards))] = 0.6
	}
	for range w.rng.IntN(3) { // an operator moves a shard, and later moves it back
		w.after(time.Duration(w.rng.Int64N(int64(w.swarm.active))), func() { moveByHand(w) })
	}
}

func moveByHand(w *World) {
	l := w.anyLife()
	if l == nil || l.member == nil {
		return
	}
	w.aside++
	defer func() { w.aside-- }()
	s, to := dag.ShardID(w.rng.IntN(w.swarm.shards)), l.handler
	w.count("move by hand")
	w.tell("shard %d is moved by hand to %s", s, l)
	must(w.st.Move(context.Background(), s, to))
	w.after(w.delay(2*loadPeriod), func() {
		w.aside++
		defer func() { w.aside-- }()
		must(w.st.Move(context.Background(), s, 0))
	})
}

// loads returns the settings with which a process takes part in balancing the load.
func (l *life) loads() cluster.Loads {
	if !l.w.stage.Load {
		return cluster.Loads{}
	}
	rule := balance.NewRule(loadPeriod)
	if l.w.mutant.rash {
		rule = balance.Rule{Period: loadPeriod}
	}
	return cluster.Loads{Rule: rule, Measured: l.measured}
}

// measured returns the load figures of a process. While there are faults, the figures may be old, missing or
// wrong.
func (l *life) measured() *store.Load {
	w, b := l.w, &l.w.burdens
	if !w.calm {
		switch w.rng.IntN(12) {
		case 0:
			w.count("old figures")
			return b.told[l]
		case 1:
			w.count("no figures")
			return nil
		case 2, 3:
			w.count("lie about the load")
			var all []store.ShardLoad
			for range w.rng.IntN(2 * w.swarm.shards) {
				all = append(all, store.ShardLoad{Shard: dag.ShardID(w.rng.IntN(w.swarm.shards+2) - 1),
					Busy: [...]float64{w.rng.Float64(), 1, 1e9, -1, math.NaN(), math.Inf(1)}[w.rng.IntN(6)]})
			}
			return &store.Load{Shards: all}
		}
	}
	var all []store.ShardLoad
	for _, s := range w.allShards() {
		if l.eng.Owns(s) {
			all = append(all, store.ShardLoad{Shard: s, Busy: b.costs[s] * (0.95 + 0.1*w.rng.Float64())})
		}
	}
	b.told[l] = store.NewLoad(all)
	return b.told[l]
}

// shifted checks the shifts after a change of members or shards.
func (v *witness) shifted(shards []store.ShardRow, members []store.Member) {
	w, b := v.w, &v.w.burdens
	if !w.stage.Load {
		return
	}
	rule := balance.NewRule(loadPeriod)
	for i := range shards {
		s := &shards[i]
		was := b.shifts[s.ID]
		b.shifts[s.ID] = s.Shift
		if s.Shift.At == 0 || s.Shift.At == was.At {
			continue
		}
		jumped := b.jumps != w.Faults["clock jump"]
		b.jumps = w.Faults["clock jump"]
		w.tell("shard %d is shifted from handler %d to %d: %s", s.ID, s.Shift.From, s.Shift.To, s.Shift.Why)
		listed := 0
		for j := range members {
			if h := members[j].Handler; h == s.Shift.From || h == s.Shift.To {
				listed++
			}
		}
		since := time.Duration(w.now - b.at[s.ID])
		switch {
		case s.ID == store.GateShard:
			w.violate("shift", "shard %d is shifted, whose owner decides", s.ID)
		case s.Wanted != 0:
			w.violate("shift", "shard %d is shifted although an operator has moved it", s.ID)
		case listed != 2:
			w.violate("shift", "shard %d is shifted from handler %d to %d, which are not both listed", s.ID, s.Shift.From, s.Shift.To)
		case !jumped && b.last != 0 && time.Duration(w.now-b.last) < rule.Period-time.Millisecond:
			w.violate("flapping", "two shards are shifted within %v", time.Duration(w.now-b.last))
		case !jumped && was.At != 0 && since < rule.Stay-loadPeriod:
			w.violate("flapping", "shard %d is shifted again after %v", s.ID, since)
		case !jumped && was.At != 0 && was.From == s.Shift.To && since < rule.Back-loadPeriod:
			w.violate("flapping", "shard %d returns after %v", s.ID, since)
		}
		b.at[s.ID], b.last = w.now, w.now
		b.moves++
		w.count("shift")
		interrupt(w, s.Shift)
	}
}

// interrupt kills one of the two nodes of a shift while the shard moves.
func interrupt(w *World, s store.Shift) {
	if w.calm || w.rng.IntN(2) == 0 {
		return
	}
	l := w.byHandler[[...]dag.HandlerID{s.From, s.To}[w.rng.IntN(2)]]
	w.after(w.delay(time.Second), func() {
		if l != nil && !l.dead {
			w.count("crash during a shift")
			l.crash("during a shift")
		}
	})
}

// spread reports whether the load is balanced: no move of a shard would relieve the busiest node of the
// cluster by much. It uses the true costs, not the rule of package balance.
func spread(w *World) bool {
	if !w.stage.Load {
		return true
	}
	use := map[dag.HandlerID]float64{}
	for _, l := range w.lives {
		if l == nil || l.dead {
			return false
		}
		use[l.handler] = 0
	}
	for _, s := range w.allShards() {
		h := w.witness.owner[s]
		if _, listed := use[h]; !listed {
			return false
		}
		use[h] += w.burdens.costs[s]
	}
	most, least := 0.0, math.Inf(1)
	var busy dag.HandlerID
	for h, u := range use {
		if u > most {
			most, busy = u, h
		}
		least = min(least, u)
	}
	if most-least < 1.1*max(0.1, 0.3*most) {
		return true
	}
	for s, c := range w.burdens.costs {
		if w.witness.owner[s] == busy && s != store.GateShard && most-max(most-c, least+c) > 0.05 && least+c < most-(most-least)/3 {
			return false
		}
	}
	return true
}

// balanced waits until the load is spread. Afterwards it waits for a rest in which hardly any shard may move.
func balanced(w *World, healed int64) {
	if !w.stage.Load || len(w.Found) > 0 {
		return
	}
	b := &w.burdens
	if !w.play(healed+convergeBound*int64(loadPeriod), func() bool { return spread(w) }) && len(w.Found) == 0 {
		w.violate("convergence", "after %d periods the load is not spread: costs %v, owners %v, shifts %v", convergeBound, b.costs, w.witness.owner, b.shifts)
	}
	b.resting = b.moves
	w.play(w.now+restPeriods*int64(loadPeriod), func() bool { return false })
	if n := b.moves - b.resting; n > restMoves && len(w.Found) == 0 {
		w.violate("flapping", "%d shards moved in %d periods although the load is spread", n, restPeriods)
	}
}
