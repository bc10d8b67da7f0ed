package engine

import (
	"context"
	"log/slog"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/host"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/store"
)

// calls processes deferred tasks. Its helpers find out what the tasks wait for (prepare.go). It joins the
// outputs of a foreach (foreach.go), and exchanges messages with the runs that calls have started (call.go).
// It owns the list of tasks to be prepared. A load of a run adds the deferred tasks of the run to the list
// again.
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
	// makeRelease makes the workflow of errands. It is nil if another component makes that workflow.
	makeRelease func(context.Context) error
	hindrance   hindrance
	callsCore
}

// callsCore is the part of the writer that calls uses.
type callsCore interface {
	core
	addRun(r *dag.Run, inline bool, own *dag.Graph) error
	revive(dag.RunID) (*dag.Run, error)
	event(*item) answer
	step(*item, *dag.Run) answer
	shardCount() int // the number of shards that exist
}

func newCalls(e *Engine, w *writer) calls {
	return calls{limits: &w.limits, defs: &w.defs, store: e.store, reads: e.Reader, graphs: e.graphs, preparer: e.cfg.Preparer, inbox: w.inbox, host: e.host,
		log: e.log, makeRelease: e.cfg.Release, callsCore: w}
}
