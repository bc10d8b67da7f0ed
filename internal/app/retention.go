package app

import (
	"context"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/retention"
)

// retention returns the settings and the parts that the Cleaner of this node needs.
func (n *Node) retention() retention.Config {
	exists := func(ctx context.Context, run dag.RunID) error { _, err := n.engine.RunRow(ctx, run); return err }
	return retention.Config{Store: n.store, Changed: n.rekept, ByHand: n.byHand, Superseded: retention.SupersededMin, Rest: retention.RestUsual, Log: n.log,
		Rules: func() retention.Rules {
			c := n.keeping()
			return retention.Rules{Age: c.RetentionAge, Runs: c.RetentionRuns, Bounds: c.Bounds}
		},
		Owner: func() dag.HandlerID { return n.engine.Handler().ID }, Owns: n.engine.Owns,
		Exists:      exists,
		DeleteFiles: n.depot.Delete, Roots: n.depot.Roots(), Sweep: n.depot.Sweeper(n.engine.Owns, exists),
		Count:  n.upkeep.tally.Step,
		Gone:   func(runs int) { n.engine.Stats().Expired.Add(int64(runs)) },
		Passed: func() { n.upkeep.passed.Store(time.Now().UnixMicro()) },
	}
}
