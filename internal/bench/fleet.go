package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// fleet is the schedulers under load. Over a shared database each owns a part of the shards, as the nodes of
// a cluster do, even if it is alone, because workflows spread over the shards.
type fleet []*bench

// target is a workflow to start runs of, and the scheduler that owns it.
type target struct {
	store.Workflow
	at *bench
	// failing is the workflow of the runs that fail among those of this target, and failures their number.
	failing  *store.Workflow
	failures int
}

// own makes the schedulers of a shared database members, which take their parts of the shards.
func (f fleet) own(ctx context.Context) error {
	for i, b := range f {
		cluster := store.Can(b.store).Cluster
		if cluster == nil {
			return nil
		}
		info, err := b.store.Info(ctx)
		if err != nil {
			return fmt.Errorf("bench: %w", err)
		}
		h := b.engine.Handler()
		if err := cluster.Join(ctx, store.Member{Handler: h.ID, UUID: h.UUID, Name: h.Node, State: store.MemberActive, Format: info.Known}); err != nil {
			return fmt.Errorf("bench: %w", err)
		}
		var share []dag.ShardID
		for s := i; s < info.Shards; s += len(f) {
			share = append(share, dag.ShardID(s))
		}
		if _, err := b.engine.Own(ctx, share); err != nil {
			return fmt.Errorf("bench: %w", err)
		}
	}
	return nil
}

// apply makes n workflows of one graph.
func (f fleet) apply(ctx context.Context, name string, n int, specs []dag.TaskSpec) ([]target, error) {
	return f.applyDef(ctx, name, scheduledDef(), make([]target, n), specs)
}

// applyDef does the same as apply for a definition. It fills all.
func (f fleet) applyDef(ctx context.Context, name string, stored []byte, all []target, specs []dag.TaskSpec) ([]target, error) {
	g, err := dag.NewGraph(dag.GraphSpec{Tasks: specs, TasksMax: len(specs)})
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	packed := g.Pack()
	for i := range all {
		def := engine.Definition{Namespace: "bench", Name: fmt.Sprintf("%s-%d", name, i), Def: stored, Graph: packed, Digest: []byte(name), User: "bench"}
		var elsewhere *errkind.Elsewhere
		for _, b := range f { // the owner of the fewest shards
			if all[i].Workflow, _, err = b.engine.Apply(ctx, def); !errors.As(err, &elsewhere) {
				break
			}
		}
		if err != nil {
			return nil, fmt.Errorf("bench: %w", err)
		}
		for _, b := range f {
			if all[i].at == nil || b.engine.Owns(all[i].Shard) {
				all[i].at = b
			}
		}
	}
	return all, nil
}

// sum adds the counters of the schedulers.
func (f fleet) sum(of func(*engine.Stats) *atomic.Int64) (n int64) {
	for _, b := range f {
		n += of(b.engine.Stats()).Load()
	}
	return n
}

// stop ends the schedulers, the last one first.
func (f fleet) stop() (err error) {
	for _, b := range slices.Backward(f) {
		err = errors.Join(err, b.stop())
	}
	return err
}

// peers returns the peers of an engine over a store. It returns nil if the store is for one node.
func peers(st store.Store) engine.Peers {
	if store.Can(st).Cluster != nil {
		return strangers{}
	}
	return nil
}

// strangers represents the other schedulers of a fleet: no run concerns two of them.
type strangers struct{}

func (strangers) Alive(dag.HandlerID) bool                  { return false }
func (strangers) Report(engine.Report)                      {}
func (strangers) Pending(engine.AttemptID) bool             { return false }
func (strangers) Cancel(dag.HandlerID, []dag.Cancel)        {}
func (strangers) Confirm(dag.HandlerID, []engine.AttemptID) {}
func (strangers) Nudge(dag.ShardID)                         {}
