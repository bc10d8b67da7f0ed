package app

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"skein.dev/skein/internal/builtin"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// recoveryLook is the interval at which a node checks that the workflow of the sweeps exists.
const recoveryLook = 10 * time.Second

// keepRecovery makes sure, until ctx ends, that the workflow of the sweeps exists. The owner of its shard
// applies it. The other nodes get the answer that it is elsewhere.
func (n *Node) keepRecovery(ctx context.Context) {
	if !n.cfg.Recovery || n.cfg.ByHand || n.cfg.Hold {
		return
	}
	d, err := builtin.Recovery()
	if err != nil {
		n.log.Error("the workflow of the recovery sweep cannot be compiled", "code", "recovery_invalid", "err", err)
		return
	}
	for pause := time.Second; ctx.Err() == nil; pause = recoveryLook {
		made, err := false, n.keepQueue(ctx)
		if err == nil {
			_, made, err = n.engine.Apply(ctx, d)
		}
		switch {
		case made:
			n.log.Info("the recovery sweep looks at all runs every minute", "code", "recovery_started", "workflow", d.Namespace+"/"+d.Name)
		case err != nil && !errors.Is(err, errkind.ErrUnavailable) && ctx.Err() == nil:
			n.log.Error("the workflow of the recovery sweep cannot be applied", "code", "recovery_not_applied", "err", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + rand.N(pause)):
		}
	}
}

// keepQueue makes sure that the queue of the sweeps exists, as the admission owner. The queue admits one
// run at a time, unless it was changed since it was made.
func (n *Node) keepQueue(ctx context.Context) error {
	_, err := n.engine.GetQueue(ctx, engine.RecoveryQueue)
	if errors.Is(err, errkind.ErrNotFound) {
		_, err = n.engine.SetQueue(ctx, store.Queue{Name: engine.RecoveryQueue, Limit: 1, Order: store.QueueFIFO, Overflow: store.OverflowWait}, 0)
	}
	return err
}

// sweepTries bounds how often a node tries to start an extra sweep: one starts each minute anyway.
const sweepTries = 5

// deposed starts a sweep at once when another node was declared dead.
func (n *Node) deposed(ctx context.Context, m store.Member) {
	n.upkeep.deposed.Add(1)
	if !n.cfg.Recovery || n.cfg.ByHand {
		return
	}
	var err error
	for range sweepTries {
		if err = n.sweepNow(ctx, m); err == nil || ctx.Err() != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
	}
	n.log.Warn("no recovery sweep could be started for a dead node; the next one starts within a minute", "code", "sweep_not_started", "node", m.Name, "err", err)
}

func (n *Node) sweepNow(ctx context.Context, m store.Member) error {
	wf, err := n.store.Workflow(ctx, engine.SystemNamespace, engine.RecoveryName)
	if errors.Is(err, store.ErrNotFound) || err == nil && wf.State != store.WorkflowActive {
		return nil // the sweep is switched off or paused
	}
	if err != nil {
		return err
	}
	s := engine.Submission{Workflow: wf, Origin: dag.OriginRecovery, User: "skein", Key: fmt.Sprintf("gone/%d", m.Handler)}
	_, err = n.engine.Submit(ctx, s)
	var moved *errkind.Elsewhere
	if errors.As(err, &moved) {
		err = n.members.submit(ctx, moved.Shard, s)
	}
	return err
}
