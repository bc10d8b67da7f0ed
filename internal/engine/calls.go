package engine

import (
	"log/slog"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/host"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/store"
)

// calls carries deferred tasks: it finds out in other goroutines what they wait for (prepare.go), joins the
// outputs of a foreach (foreach.go), and speaks with the runs that calls have started (call.go).
//
// It owns the list of tasks to be prepared. A load of a run lists its deferred tasks again.
type calls struct {
	queue preparing

	limits   *limits
	defs     *definitions
	store    store.Store
	reads    *inspect.Reader
	graphs   *inspect.Graphs
	preparer Preparer
	inbox    *inbox
	host     host.Host
	log      *slog.Logger
	callsCore
}

// callsCore is the part of the writer that calls uses.
type callsCore interface {
	core
	addRun(r *dag.Run, inline bool) error
	revive(dag.RunID) (*dag.Run, error)
	event(*item) answer
	step(*item, *dag.Run) answer
	shardCount() int // sum over the shards that this writer owns
}

func newCalls(e *Engine, w *writer) calls {
	return calls{limits: &w.limits, defs: &w.defs, store: e.store, reads: e.Reader, graphs: e.graphs, preparer: e.cfg.Preparer, inbox: w.inbox, host: e.host,
		log: e.log, callsCore: w}
}
