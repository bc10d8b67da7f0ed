package inspect

import (
	"context"
	"fmt"
	"math"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// Ledger reads triggers, their instants and backfills, as the store returns them. A list is a page of at most
// 1,000 rows.
type Ledger struct {
	store  store.Store
	shards []dag.ShardID // the shards of all nodes
	memory Memory        // nil if this process owns no shard
}

// owned returns the shards of this process.
func (l *Ledger) owned() []dag.ShardID {
	if l.memory == nil {
		return nil
	}
	return l.memory.Owned()
}

// Trigger reads one trigger.
func (l *Ledger) Trigger(ctx context.Context, k store.TriggerKey) (store.Trigger, error) {
	t, err := l.store.Trigger(ctx, k.Workflow, k.Name)
	return t, errkind.FromStore("trigger "+k.Name, err)
}

// Triggers lists triggers, ordered by workflow and name.
func (l *Ledger) Triggers(ctx context.Context, q store.TriggerQuery) ([]store.Trigger, error) {
	ts, err := l.store.Triggers(ctx, q)
	return ts, errkind.FromStore("list triggers", err)
}

// Upcoming lists the triggers of all shards by their next instant, the soonest first.
func (l *Ledger) Upcoming(ctx context.Context, limit int) ([]store.Trigger, error) {
	ts, err := l.store.Due(ctx, l.shards, math.MaxInt64, limit)
	return ts, errkind.FromStore("list upcoming triggers", err)
}

// Sensors lists the active triggers of some kinds whose shards this process owns.
func (l *Ledger) Sensors(ctx context.Context, kinds []string, after store.TriggerKey, limit int) ([]store.Trigger, error) {
	ts, err := l.store.Sensors(ctx, l.owned(), kinds, after, limit)
	return ts, errkind.FromStore("list sensors", err)
}

// Fires lists lines of the ledger, newest first.
func (l *Ledger) Fires(ctx context.Context, q store.FireQuery) ([]store.Fire, error) {
	fs, err := l.store.Fires(ctx, q)
	return fs, errkind.FromStore("read the ledger", err)
}

// FireDays lists the counts of deleted ledger lines of a trigger, the newest days first. If the parameter
// before is 0, it begins with the newest.
func (l *Ledger) FireDays(ctx context.Context, k store.TriggerKey, before int32, limit int) ([]store.FireDay, error) {
	ds, err := l.store.FireDays(ctx, k, before, limit)
	return ds, errkind.FromStore("read the counts of a trigger", err)
}

// LastFire reads the line of the newest instant of a trigger.
func (l *Ledger) LastFire(ctx context.Context, k store.TriggerKey) (store.Fire, error) {
	f, err := l.store.LastFire(ctx, k.Workflow, k.Name)
	return f, errkind.FromStore("read the ledger", err)
}

// FireAt finds the line that contains an instant of a trigger.
func (l *Ledger) FireAt(ctx context.Context, k store.TriggerKey, at dag.Micros) (store.Fire, error) {
	f, err := l.store.FireByKey(ctx, k, at, "")
	return f, errkind.FromStore("read the ledger", err)
}

// RunsAt finds the runs that backfills have made for an instant of a workflow.
func (l *Ledger) RunsAt(ctx context.Context, w dag.WorkflowID, at dag.Micros) ([]dag.RunID, error) {
	ids, err := l.store.RunsAt(ctx, w, at)
	return ids, errkind.FromStore("read the backfills of an instant", err)
}

// Backfill reads one backfill.
func (l *Ledger) Backfill(ctx context.Context, id int64) (store.Backfill, error) {
	b, err := l.store.Backfill(ctx, id)
	return b, errkind.FromStore(fmt.Sprintf("backfill %d", id), err)
}

// Backfills lists backfills, the newest first. w 0 selects every workflow, and state "" any state.
func (l *Ledger) Backfills(ctx context.Context, w dag.WorkflowID, state string, before int64, limit int) ([]store.Backfill, error) {
	bs, err := l.store.Backfills(ctx, w, state, before, limit)
	return bs, errkind.FromStore("list backfills", err)
}

// BackfillRuns lists the runs of a backfill, ordered by their instants.
func (l *Ledger) BackfillRuns(ctx context.Context, id int64, after dag.Micros, limit int) ([]store.BackfillRun, error) {
	rs, err := l.store.BackfillRuns(ctx, id, after, limit)
	return rs, errkind.FromStore(fmt.Sprintf("runs of backfill %d", id), err)
}

// Clock reads the clock of the store.
func (l *Ledger) Clock(ctx context.Context) (dag.Micros, error) {
	now, err := l.store.Clock(ctx)
	return now, errkind.FromStore("read the store's clock", err)
}
