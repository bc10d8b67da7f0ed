package monitor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// stuckMax bounds the time in which a scheduler completes nothing. After a longer time, Works returns an
// error.
const stuckMax = 30 * time.Second

// Scheduler is the engine of a node.
type Scheduler interface {
	Owns(dag.ShardID) bool
	Accepting() error
	StuckFor() time.Duration
}

// ErrNotOwner says that another node owns the first shard.
var ErrNotOwner = errors.New("another node owns the first shard")

// Works says why the scheduler does not work. The owner of the first shard speaks for all nodes. On the other
// nodes, Works returns ErrNotOwner.
func Works(ctx context.Context, e Scheduler, st store.Store) error {
	if !e.Owns(store.GateShard) {
		return ErrNotOwner
	}
	if err := e.Accepting(); err != nil {
		return err
	}
	if d := e.StuckFor(); d > stuckMax {
		return fmt.Errorf("it has completed nothing for %s", d.Round(time.Second))
	}
	shared := store.Can(st).Cluster
	if shared == nil {
		_, err := st.Clock(ctx)
		return err
	}
	members, shards, err := shared.Members(ctx)
	if err != nil {
		return err
	}
	for i := range shards {
		if !slices.ContainsFunc(members, func(m store.Member) bool { return m.Handler == shards[i].Owner }) {
			return fmt.Errorf("shard %d has no owner", shards[i].ID)
		}
	}
	return nil
}
