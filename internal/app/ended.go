package app

import (
	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/tally"
	"skein.dev/skein/internal/trace"
)

// follow makes the parts that process ended runs: the counts, and the export of traces. For a short-lived
// command there is no export: the next server does it.
func (u *upkeep) follow(n *Node, cluster string) {
	owner := func() dag.HandlerID { return n.engine.Handler().ID }
	owns := func(s dag.ShardID) bool { return n.engine.Owns(s) }
	graphs := inspect.NewGraphs(n.store, compiler())
	u.tally = tally.NewFolder(tally.Config{Store: n.store, Owner: owner, Owns: owns, Graphs: graphs, Log: n.log})
	if !n.cfg.ByHand {
		u.traces = trace.New(trace.Config{Settings: n.cfg.Traces, Store: n.store, Owner: owner, Owns: owns, Graphs: graphs, Cluster: cluster, Version: Version(),
			Node: n.cfg.Name, Log: n.log})
	}
}

// ended passes the runs that ended in a transaction to both parts.
func (u *upkeep) ended(ends []store.Ended) {
	u.tally.Ended(ends)
	u.traces.Ended(ends)
}

// traceparent returns the function that makes the trace contexts of attempts. It returns nil if no traces are
// exported; tasks then get the context of their caller.
func traceparent(cfg *config.Config) func(*dag.Header, dag.TaskID, dag.Token) string {
	if cfg.Traces.URL == "" {
		return nil
	}
	return cfg.Traces.Traceparent
}
