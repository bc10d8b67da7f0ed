package server

import (
	"math"

	"skein.dev/skein/internal/balance"
	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

// loadOf adds the load of a node's shards, and the shards that moved to it because of their load.
func (r *roll) loadOf(n *api.Node, m *store.Member) {
	if use, known := balance.Use(m, r.shards); known && !m.Worker {
		n.Load = &use
		*n.Load = round(use)
	}
	if m.Load != nil {
		for _, s := range m.Load.Shards {
			n.Shards.Costs = append(n.Shards.Costs, api.ShardCost{ID: int32(s.Shard), Busy: round(s.Busy), Rows: round(s.Rows), Commits: round(s.Commits), Wait: round(s.Wait)})
		}
	}
	for i := range r.shards {
		if s := &r.shards[i]; s.Shift.At != 0 && s.Shift.To == m.Handler && s.Owner == m.Handler {
			n.Shards.Shifted = append(n.Shards.Shifted, api.ShardShift{ID: int32(s.ID), From: textOrNull(r.nameOf(s.Shift.From)), At: instant(s.Shift.At), Why: s.Shift.Why})
		}
	}
}

// round leaves six digits after the point.
func round(f float64) float64 { return math.Round(f*1e6) / 1e6 }
