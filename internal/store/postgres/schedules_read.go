package postgres

import (
	"context"
	"fmt"
	"math"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/packed"
)

// scheduleKinds are the kinds of triggers that the index of sensors leaves out.
var scheduleKinds = []string{"cron", "every", "at", "daily", "weekly", "monthly", "annually"}

// pageOf bounds lists for which the contract has a bound.
func pageOf(limit int) int64 { return min(limitOf(limit), limitDefault) }

func numbers(shards []dag.ShardID) []int32 {
	out := make([]int32, len(shards))
	for i, s := range shards {
		out[i] = int32(s)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Clock implements store.Schedules.
func (d *DB) Clock(ctx context.Context) (dag.Micros, error) {
	return first(ctx, d, query{name: "wall"}, func(r *row, now *dag.Micros) error {
		*now = r.micros()
		return r.damaged("clock")
	})
}

// Trigger implements store.Schedules.
func (d *DB) Trigger(ctx context.Context, w dag.WorkflowID, name string) (store.Trigger, error) {
	return first(ctx, d, query{name: "triggerByName", args: args{}.int8(int64(w)).text(name)}, scanTrigger)
}

// Triggers implements store.Schedules.
func (d *DB) Triggers(ctx context.Context, q store.TriggerQuery) ([]store.Trigger, error) {
	a := args{}.int8(int64(q.After.Workflow)).text(q.After.Name).text(q.State).int8(pageOf(q.Limit))
	if q.Workflow != 0 {
		return list(ctx, d, query{name: "triggersOf", args: a.int8(int64(q.Workflow))}, scanTrigger)
	}
	return list(ctx, d, query{name: "triggersAfter", args: a}, scanTrigger)
}

// Due implements store.Schedules.
func (d *DB) Due(ctx context.Context, shards []dag.ShardID, until dag.Micros, limit int) ([]store.Trigger, error) {
	a := args{}.shards(numbers(shards)).int8(int64(until)).int8(limitOf(limit))
	return list(ctx, d, query{name: "triggersDue", args: a}, scanTrigger)
}

// NextDue implements store.Schedules.
func (d *DB) NextDue(ctx context.Context, shards []dag.ShardID) (next dag.Micros, err error) {
	err = d.query(ctx, "nextDue", args{}.shards(numbers(shards)), func(r *row) error {
		next = r.micros()
		return r.damaged("the next instant")
	})
	return next, err
}

// Listening implements store.Schedules.
func (d *DB) Listening(ctx context.Context, workflow string, limit int) ([]store.TriggerKey, error) {
	return list(ctx, d, query{name: "listening", args: args{}.text(workflow).int8(limitOf(limit))}, scanTriggerKey)
}

// Sensors implements store.Schedules.
func (d *DB) Sensors(ctx context.Context, shards []dag.ShardID, kinds []string, after store.TriggerKey, limit int) ([]store.Trigger, error) {
	name := "sensorsAfter"
	if slices.ContainsFunc(kinds, func(k string) bool { return slices.Contains(scheduleKinds, k) }) {
		name = "activeAfter"
	}
	a := args{}.int8(int64(after.Workflow)).text(after.Name).shards(numbers(shards)).array(texts(kinds)).int8(pageOf(limit))
	return list(ctx, d, query{name: name, args: a}, scanTrigger)
}

// LastFire implements store.Schedules.
func (d *DB) LastFire(ctx context.Context, w dag.WorkflowID, trigger string) (store.Fire, error) {
	return first(ctx, d, query{name: "newestFire", args: args{}.int8(int64(w)).text(trigger)}, scanFire)
}

// FireByKey implements store.Schedules.
func (d *DB) FireByKey(ctx context.Context, k store.TriggerKey, at dag.Micros, key string) (store.Fire, error) {
	a := args{}.int8(int64(k.Workflow)).text(k.Name)
	if key != "" {
		return first(ctx, d, query{name: "fireOfEvent", args: a.text(key)}, scanFire)
	}
	f, err := first(ctx, d, query{name: "fireBefore", args: a.int8(int64(at))}, scanFire)
	if err == nil && f.Last < at {
		return store.Fire{}, fmt.Errorf("fireBefore: %w", store.ErrNotFound)
	}
	return f, err
}

// textMost is greater than every text.
const textMost = "\U0010ffff"

// Fires implements store.Schedules.
func (d *DB) Fires(ctx context.Context, q store.FireQuery) ([]store.Fire, error) {
	before, until, from := q.Before, q.Until, q.From
	if before == (store.FireKey{}) {
		before = store.FireKey{Decided: math.MaxInt64, Workflow: math.MaxInt64, Trigger: textMost, At: math.MaxInt64, Key: textMost}
	}
	if until == 0 {
		until = math.MaxInt64
	}
	if from == 0 {
		from = math.MinInt64
	}
	if q.Workflow != 0 {
		before = within(before, q.Workflow)
	}
	a := args{}.int8(int64(before.Decided)).int8(int64(before.Workflow)).text(before.Trigger).int8(int64(before.At)).text(before.Key).
		text(q.Outcome).int8(int64(from)).int8(int64(until)).int8(pageOf(q.Limit))
	switch {
	case q.Workflow != 0:
		return list(ctx, d, query{name: "firesOfWorkflow", args: a.text(q.Trigger)}, scanFire)
	case q.Outcome == "" || q.Outcome == store.OutcomeFired:
		return list(ctx, d, query{name: "firesDown", args: a}, scanFire)
	}
	return list(ctx, d, query{name: "exceptionsDown", args: a}, scanFire)
}

// within converts a cursor of the list of all workflows to a cursor of the list of one workflow.
func within(k store.FireKey, w dag.WorkflowID) store.FireKey {
	switch {
	case k.Workflow > w: // the cursor is before all lines of workflow w that were decided at that time
		k.Trigger, k.At, k.Key = textMost, math.MaxInt64, textMost
	case k.Workflow < w: // the cursor is after all lines of workflow w of that time
		k.Trigger, k.At, k.Key = "", math.MinInt64, ""
	}
	k.Workflow = w
	return k
}

// Backfill implements store.Schedules.
func (d *DB) Backfill(ctx context.Context, id int64) (store.Backfill, error) {
	return first(ctx, d, query{name: "backfillById", args: args{}.int8(id)}, scanBackfill)
}

// Backfills implements store.Schedules.
func (d *DB) Backfills(ctx context.Context, w dag.WorkflowID, state string, before int64, limit int) ([]store.Backfill, error) {
	if before == 0 {
		before = math.MaxInt64
	}
	a := args{}.int8(before).int8(int64(w)).text(state).int8(pageOf(limit))
	return list(ctx, d, query{name: "backfillsDown", args: a}, scanBackfill)
}

// BackfillRuns implements store.Schedules.
func (d *DB) BackfillRuns(ctx context.Context, id int64, after dag.Micros, limit int) ([]store.BackfillRun, error) {
	a := args{}.int8(id).int8(int64(after)).int8(pageOf(limit))
	return list(ctx, d, query{name: "runsOfBackfill", args: a}, scanBackfillRun)
}

// RunsAt implements store.Schedules.
func (d *DB) RunsAt(ctx context.Context, w dag.WorkflowID, instant dag.Micros) ([]dag.RunID, error) {
	return list(ctx, d, query{name: "backfillRunsAt", args: args{}.int8(int64(w)).int8(int64(instant))}, scanID)
}

func scanID(c *row, id *dag.RunID) error {
	*id = c.id()
	return c.damaged("a run's id")
}

func scanTrigger(c *row, t *store.Trigger) error {
	t.Workflow, t.Name, t.Shard, t.Version = dag.WorkflowID(c.int()), c.text(), dag.ShardID(c.int()), int32(c.int())
	t.Kind, t.State, t.Actor, t.Reason = c.text(), c.text(), c.text(), c.text()
	t.Next, t.Decided, t.Since, t.Fired, t.MaxRuns = c.micros(), c.micros(), c.micros(), c.int(), int32(c.int())
	t.Revision, t.Created, t.Modified = c.int(), c.micros(), c.micros()
	var err error
	if t.On, err = packed.UnpackHears(c.next()); err != nil {
		c.fail("%v", err)
	}
	t.Data, t.Spec = c.blob(), c.blob()
	return c.damaged("trigger %s of workflow %d", t.Name, t.Workflow)
}

func scanTriggerKey(c *row, k *store.TriggerKey) error {
	k.Workflow, k.Name = dag.WorkflowID(c.int()), c.text()
	return c.damaged("trigger %s of workflow %d", k.Name, k.Workflow)
}

func scanFire(c *row, f *store.Fire) error {
	f.Workflow, f.Trigger, f.At, f.Key = dag.WorkflowID(c.int()), c.text(), c.micros(), c.text()
	f.Last, f.Count, f.Outcome, f.Reason = c.micros(), c.int(), c.text(), store.Reason(c.text())
	if c.values[c.col] != nil {
		f.Run = c.id()
	} else {
		c.next()
	}
	f.Decided = c.micros()
	return c.damaged("fire of trigger %s of workflow %d at %d", f.Trigger, f.Workflow, f.At)
}

func scanBackfill(c *row, f *store.Backfill) error {
	f.ID, f.Workflow, f.Shard, f.Trigger, f.State = c.int(), dag.WorkflowID(c.int()), dag.ShardID(c.int()), c.text(), c.text()
	f.Total, f.Started, f.Ended, f.Failed, f.Parallel = c.int(), c.int(), c.int(), c.int(), int32(c.int())
	f.User, f.Revision, f.Created, f.Modified = c.text(), c.int(), c.micros(), c.micros()
	f.Spec, f.Instants = c.blob(), c.blob()
	return c.damaged("backfill %d", f.ID)
}

func scanBackfillRun(c *row, r *store.BackfillRun) error {
	r.Backfill, r.Workflow, r.Instant, r.Run = c.int(), dag.WorkflowID(c.int()), c.micros(), c.id()
	return c.damaged("run of backfill %d", r.Backfill)
}
