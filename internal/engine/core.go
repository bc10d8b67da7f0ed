package engine

import (
	"context"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// core is the part of the writer that its components use: the runs in memory, and the transaction being made.
// Its methods are called on the writer's goroutine.
type core interface {
	txn() *transaction
	shardCount() int
	held(dag.ShardID) *store.Fence // nil if this writer does not own the shard

	inMemory() map[dag.RunID]*dag.Run
	fetch(dag.RunID) (*dag.Run, error)
	stepSelf(*dag.Run, dag.Event)
	admit(*dag.Run)
	touch(*dag.Run)
	broken(error)

	completed(*dag.Run) (params []byte, err error)
	helper(func(context.Context)) // runs a function in a goroutine of its own, until the writer ends
}

// stepSelf applies an event that the engine itself makes.
func (w *writer) stepSelf(r *dag.Run, ev dag.Event) {
	w.tx.current = r
	r.Step(&ev, w.tx.now, &w.tx.fx)
	w.touch(r)
	w.tx.current = nil
}

// admit begins a run that has passed its limits.
func (w *writer) admit(r *dag.Run) {
	w.tx.rows += rowsPerItem
	w.tx.current = r
	ev := dag.Event{Kind: dag.EvAdmit, Graph: w.e.graphs.Peek(r.Workflow, r.Version), Handler: w.e.me().ID}
	r.Step(&ev, w.tx.now, &w.tx.fx)
	w.touch(r)
	w.tx.current = nil
}

func (w *writer) txn() *transaction                { return w.tx }
func (w *writer) inMemory() map[dag.RunID]*dag.Run { return w.runs }
func (w *writer) shardCount() int                  { return len(w.fences) }

func (w *writer) helper(f func(context.Context)) {
	ctx := w.ctx
	w.e.host.Go(w.wg, func() { f(ctx) })
}

func (w *writer) firstShard() (s dag.ShardID, owns bool) {
	if len(w.fences) == 0 {
		return 0, false
	}
	return w.fences[0].Shard, true
}
