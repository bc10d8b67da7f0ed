package engine

import (
	"context"
	"fmt"
	"math"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// What gateways read of triggers, ledger and backfills, in the store's words. Lists are
// pages of at most 1,000.

// Trigger reads one trigger.
func (e *Engine) Trigger(ctx context.Context, k store.TriggerKey) (store.Trigger, error) {
	t, err := e.store.Trigger(ctx, k.Workflow, k.Name)
	return t, fromStore("trigger "+k.Name, err)
}

// Triggers lists triggers by workflow and name.
func (e *Engine) Triggers(ctx context.Context, q store.TriggerQuery) ([]store.Trigger, error) {
	ts, err := e.store.Triggers(ctx, q)
	return ts, fromStore("list triggers", err)
}

// Upcoming lists the triggers of all shards whose next instant comes first, the soonest
// first.
func (e *Engine) Upcoming(ctx context.Context, limit int) ([]store.Trigger, error) {
	ts, err := e.store.Due(ctx, e.shards, math.MaxInt64, limit)
	return ts, fromStore("list upcoming triggers", err)
}

// Sensors lists the active triggers of some kinds that this node looks after.
func (e *Engine) Sensors(ctx context.Context, kinds []string, after store.TriggerKey, limit int) ([]store.Trigger, error) {
	ts, err := e.store.Sensors(ctx, e.owned(), kinds, after, limit)
	return ts, fromStore("list sensors", err)
}

// Fires lists lines of the ledger, newest first.
func (e *Engine) Fires(ctx context.Context, q store.FireQuery) ([]store.Fire, error) {
	fs, err := e.store.Fires(ctx, q)
	return fs, fromStore("read the ledger", err)
}

// FireDays lists the counts of deleted ledger lines of a trigger, the newest days first. before 0: from the newest.
func (e *Engine) FireDays(ctx context.Context, k store.TriggerKey, before int32, limit int) ([]store.FireDay, error) {
	ds, err := e.store.FireDays(ctx, k, before, limit)
	return ds, fromStore("read the counts of a trigger", err)
}

// LastFire reads the line of the newest instant of a trigger.
func (e *Engine) LastFire(ctx context.Context, k store.TriggerKey) (store.Fire, error) {
	f, err := e.store.LastFire(ctx, k.Workflow, k.Name)
	return f, fromStore("read the ledger", err)
}

// FireAt finds the line that an instant of a trigger falls into.
func (e *Engine) FireAt(ctx context.Context, k store.TriggerKey, at dag.Micros) (store.Fire, error) {
	f, err := e.store.FireByKey(ctx, k, at, "")
	return f, fromStore("read the ledger", err)
}

// RunsAt finds the runs that backfills have made for an instant of a workflow.
func (e *Engine) RunsAt(ctx context.Context, w dag.WorkflowID, at dag.Micros) ([]dag.RunID, error) {
	ids, err := e.store.RunsAt(ctx, w, at)
	return ids, fromStore("read the backfills of an instant", err)
}

// Backfill reads one backfill.
func (e *Engine) Backfill(ctx context.Context, id int64) (store.Backfill, error) {
	b, err := e.store.Backfill(ctx, id)
	return b, fromStore(fmt.Sprintf("backfill %d", id), err)
}

// Backfills lists the newest first; w 0: of every workflow, state "": any.
func (e *Engine) Backfills(ctx context.Context, w dag.WorkflowID, state string, before int64, limit int) ([]store.Backfill, error) {
	bs, err := e.store.Backfills(ctx, w, state, before, limit)
	return bs, fromStore("list backfills", err)
}

// BackfillRuns lists the runs of a backfill by their instants.
func (e *Engine) BackfillRuns(ctx context.Context, id int64, after dag.Micros, limit int) ([]store.BackfillRun, error) {
	rs, err := e.store.BackfillRuns(ctx, id, after, limit)
	return rs, fromStore(fmt.Sprintf("runs of backfill %d", id), err)
}

// Clock is the store's clock now.
func (e *Engine) Clock(ctx context.Context) (dag.Micros, error) {
	now, err := e.store.Clock(ctx)
	return now, fromStore("read the store's clock", err)
}
