package app

import (
	"context"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/tally"
)

// countEnds makes the folder of a node, and returns what receives the ends.
func countEnds(n *Node) func([]store.Ended) {
	n.upkeep.tally = tally.NewFolder(tallyConfig(n))
	return n.upkeep.tally.Ended
}

// sendAndCount starts what follows the transactions of runs: the sender of notices, and the folder.
func sendAndCount(n *Node) (stop func()) {
	stopNotices, stopCounts := sendNotices(n), n.beside(n.upkeep.tally.Run)
	return func() {
		stopNotices()
		stopCounts()
	}
}

// tallyConfig returns what the folder of a node needs. Its functions are called while the engine runs.
func tallyConfig(n *Node) tally.Config {
	shards := 0 // of the database
	return tally.Config{Store: n.store, Graphs: inspect.NewGraphs(n.store, compiler()), Log: n.log,
		Owner: func() dag.HandlerID { return n.engine.Handler().ID },
		Shards: func() (all []dag.ShardID) {
			if shards == 0 {
				if info, err := n.store.Info(context.Background()); err == nil {
					shards = info.Shards
				}
			}
			for s := range dag.ShardID(shards) {
				if n.engine.Owns(s) {
					all = append(all, s)
				}
			}
			return all
		}}
}
