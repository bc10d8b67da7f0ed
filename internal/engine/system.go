package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// Recovery is a workflow like any other, with a trigger, runs and a history. Only its task is executed
// differently: the node that owns its shard executes it in this process, without a slot. The repair must not
// wait for the part that is broken.

// SystemNamespace is the namespace of built-in workflows. RecoveryName is the name of the workflow of
// recovery sweeps.
const (
	SystemNamespace = store.SystemNamespace
	RecoveryName    = "recovery"
	// RecoveryQueue admits one sweep at a time.
	RecoveryQueue = "system.recovery"
)

// sweepMax bounds the duration of a sweep. The next one begins within a minute.
const sweepMax = 50 * time.Second

// findSystem reads the ID of the built-in workflow that does the recovery sweep.
func (d *definitions) findSystem(ctx context.Context) error {
	wf, err := d.store.Workflow(ctx, SystemNamespace, RecoveryName)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	d.system, d.release = wf.ID, 0
	_, err = d.releasing()
	return err
}

// noteSystem records the ID of a built-in workflow when the workflow is applied here.
func (d *definitions) noteSystem(wf *store.Workflow) {
	if wf.Namespace == SystemNamespace && wf.Name == ReleaseName {
		d.release = wf.ID
	}
	if wf.Namespace == SystemNamespace && wf.Name == RecoveryName {
		d.system = wf.ID
	}
}

// coalesced returns a sweep that is already waiting, or nil. A second sweep is not needed, because it would
// find the same faults.
func (w *writer) coalesced(id dag.WorkflowID) (waits *dag.Run) {
	if id != w.defs.system {
		return nil
	}
	for _, r := range w.runs { // a waiting sweep is kept in memory: see mustKeep
		if r.Workflow == id && r.State == dag.RunWaiting && (waits == nil || bytes.Compare(r.ID[:], waits.ID[:]) < 0) {
			waits = r
		}
	}
	return waits
}

// carrySweep executes the task of a recovery sweep, on another goroutine than the writer's.
func (w *writer) carrySweep(a Assignment) {
	e, h := w.e, w.e.me().ID
	e.host.Go(w.wg, func() {
		ctx, cancel := context.WithTimeout(w.ctx, sweepMax)
		defer cancel()
		got, err := e.Sweep(ctx)
		if w.ctx.Err() != nil {
			return // the next owner runs the sweep
		}
		r := Report{Run: a.Run, Task: a.Task, Token: a.Token, Result: dag.Result{State: dag.AttemptSucceeded, Message: got.String()}}
		if err != nil {
			r.Result = dag.Result{State: dag.AttemptFailed, Cause: causeSweep, Message: fmt.Sprintf("%v; until then: %s", err, got)}
		}
		if r.Result.Outputs, err = json.Marshal(got); err != nil {
			panic("engine: what a sweep did is not JSON: " + err.Error())
		}
		_ = w.inbox.put(e.reported(h, r)...) // the inbox is closed only when this process ends; then the next owner runs the sweep
	})
}

// causeSweep says that the sweep could not examine every run, or not reach every owner.
const causeSweep dag.Cause = "sweep"
