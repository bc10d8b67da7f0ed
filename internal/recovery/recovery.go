// Package recovery keeps the built-in workflows: that of the recovery sweep, system/recovery, and that of the
// errands which release handles, system/release. It starts an extra sweep when a node has died.
//
// The sweep itself is in package engine (Sweep): it looks at every unfinished run, and lets the owners repair
// runs that stand still. It should find nothing. It is a run of an ordinary workflow, so its trigger, its
// history and its outputs can be found like those of any run. A person may pause it, or change its queue.
//
// Every node of a cluster has a [Keeper]. Each tries to apply the workflow, and only the owner of its shard
// succeeds, so the workflow is there however the shards move. The queue is made before the workflow, so no
// sweep runs without its bound.
package recovery

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
)

// source is the workflow that sweeps. No other workflow file may have its builtin task.
const source = `namespace: system
name: recovery
description: Looks at every unfinished run, and has the owners repair what stands still. It should find nothing.
queue: system.recovery
priority: highest
triggers:
  - {name: minute, every: 1m, overlap: skip, catchup: none}
tasks:
  sweep: {builtin: recovery}
`

// releaseSource is the workflow whose runs release handles. The engine makes them, and each has a graph of
// its own. The command is that of the task that had the handle.
const releaseSource = `namespace: system
name: release
description: Ends the work outside of a process that an attempt has left. Skein starts its runs.
priority: high
tasks:
  release: {run: "true"}
`

// release returns the workflow of releaseSource as it is applied.
func release() (engine.Definition, error) {
	d := engine.Definition{Namespace: engine.SystemNamespace, Name: engine.ReleaseName, Source: []byte(releaseSource), User: "skein"}
	ws, faults := workflow.Parse(d.Source, workflow.Options{})
	if len(faults) > 0 {
		return d, faults
	}
	err := compile(&d, ws[0])
	return d, err
}

// definition returns the workflow of the sweep as it is applied.
func definition() (engine.Definition, error) {
	d := engine.Definition{Namespace: engine.SystemNamespace, Name: engine.RecoveryName, Source: []byte(source), User: "skein"}
	const builtin = "{builtin: recovery}"
	ws, faults := workflow.Parse([]byte(strings.Replace(source, builtin, `{run: "true"}`, 1)), workflow.Options{})
	if len(faults) > 0 {
		return d, faults
	}
	w := ws[0]
	w.Tasks[0].Run = workflow.Run{Builtin: engine.RecoveryName}
	err := compile(&d, w)
	return d, err
}

// compile completes a definition with its parsed workflow.
func compile(d *engine.Definition, w *workflow.Workflow) error {
	g, err := w.Graph(0)
	if err != nil {
		return err
	}
	d.Graph = g.Pack()
	d.Def, err = json.Marshal(w)
	sum := sha256.Sum256(d.Def)
	d.Digest = sum[:]
	return err
}

// Engine is the engine of this node.
type Engine interface {
	Apply(ctx context.Context, d engine.Definition) (w store.Workflow, created bool, err error)
	GetQueue(ctx context.Context, name string) (store.Queue, error)
	SetQueue(ctx context.Context, q store.Queue, revision int64) (store.Queue, error)
	Submit(ctx context.Context, s engine.Submission) (engine.Accepted, error)
}

// Config describes a Keeper. All fields are required.
type Config struct {
	Engine Engine
	// Workflow reads a workflow from the store.
	Workflow func(ctx context.Context, namespace, name string) (store.Workflow, error)
	// Elsewhere starts a run of a shard that another node owns.
	Elsewhere func(ctx context.Context, s dag.ShardID, sub engine.Submission) error
	Log       *slog.Logger
}

// Keeper keeps the workflow of the sweeps for one node.
type Keeper struct{ cfg Config }

// New returns a Keeper. It does nothing yet.
func New(cfg Config) *Keeper { return &Keeper{cfg} }

// lookEvery is the interval at which a node checks that the workflow of the sweeps exists.
const lookEvery = 10 * time.Second

// Run makes sure, until ctx ends, that the workflow of the sweeps exists. The owner of its shard applies it.
// On every other node, the call fails because another node owns the shard.
func (k *Keeper) Run(ctx context.Context) {
	d, err := definition()
	if err != nil {
		k.cfg.Log.Error("the workflow of the recovery sweep cannot be compiled", "code", "recovery_invalid", "err", err)
		return
	}
	for pause := time.Second; ctx.Err() == nil; pause = lookEvery {
		made, err := false, k.queue(ctx)
		if err == nil {
			_, made, err = k.cfg.Engine.Apply(ctx, d)
		}
		switch {
		case made:
			k.cfg.Log.Info("the recovery sweep looks at all runs every minute", "code", "recovery_started", "workflow", d.Namespace+"/"+d.Name)
		case err != nil && !errors.Is(err, errkind.ErrUnavailable) && ctx.Err() == nil:
			k.cfg.Log.Error("the workflow of the recovery sweep cannot be applied", "code", "recovery_not_applied", "err", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + rand.N(pause)):
		}
	}
}

// Release makes the workflow of errands, unless it exists. A node calls it for its first errand.
func (k *Keeper) Release(ctx context.Context) error {
	_, err := k.cfg.Workflow(ctx, engine.SystemNamespace, engine.ReleaseName)
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	d, err := release()
	if err == nil {
		_, _, err = k.cfg.Engine.Apply(ctx, d)
	}
	return err
}

// queue makes sure that the queue of the sweeps exists, as the admission owner. The queue admits one run at a
// time, unless it was changed since it was made.
func (k *Keeper) queue(ctx context.Context) error {
	_, err := k.cfg.Engine.GetQueue(ctx, engine.RecoveryQueue)
	if errors.Is(err, errkind.ErrNotFound) {
		_, err = k.cfg.Engine.SetQueue(ctx, store.Queue{Name: engine.RecoveryQueue, Limit: 1, Order: store.QueueFIFO, Overflow: store.OverflowWait}, 0)
	}
	return err
}

// tries bounds how often a node tries to start an extra sweep: one starts each minute anyway.
const tries = 5

// Sweep starts a sweep at once, because a node was declared dead. Nodes that do so for the same death start
// one sweep together.
func (k *Keeper) Sweep(ctx context.Context, dead store.Member) {
	var err error
	for range tries {
		if err = k.sweep(ctx, dead); err == nil || ctx.Err() != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
	}
	k.cfg.Log.Warn("no recovery sweep could be started for a dead node; the next one starts within a minute", "code", "sweep_not_started", "node", dead.Name, "err", err)
}

func (k *Keeper) sweep(ctx context.Context, dead store.Member) error {
	wf, err := k.cfg.Workflow(ctx, engine.SystemNamespace, engine.RecoveryName)
	if errors.Is(err, store.ErrNotFound) || err == nil && wf.State != store.WorkflowActive {
		return nil // the sweep is switched off or paused
	}
	if err != nil {
		return err
	}
	s := engine.Submission{Workflow: wf, Origin: dag.OriginRecovery, User: "skein", Key: fmt.Sprintf("gone/%d", dead.Handler)}
	_, err = k.cfg.Engine.Submit(ctx, s)
	var moved *errkind.Elsewhere
	if errors.As(err, &moved) {
		err = k.cfg.Elsewhere(ctx, moved.Shard, s)
	}
	return err
}
