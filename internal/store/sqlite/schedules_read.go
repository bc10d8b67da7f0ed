package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"

	"zombiezen.com/go/sqlite"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/packed"
)

// scheduleKinds are the kinds of triggers that the index of sensors leaves out.
var scheduleKinds = []string{"cron", "every", "at", "daily", "weekly", "monthly", "annually"}

// pageOf bounds lists for which the contract has a bound.
func pageOf(limit int) int { return min(limitOf(limit), limitDefault) }

// legible reads the rows of a statement, and leaves out damaged ones. A damaged row must not hide the other
// rows or prevent their fires. skein verify reports the damage.
func legible[T any](d *DB, ctx context.Context, name string, args []any, scan func(*sqlite.Stmt, *T) error) (_ []T, err error) {
	conn, err := d.take(ctx)
	if err != nil {
		return nil, err
	}
	defer d.give(ctx, conn, &err)
	return legibleOn(d, conn, name, args, scan)
}

func legibleOn[T any](d *DB, conn *sqlite.Conn, name string, args []any, scan func(*sqlite.Stmt, *T) error) ([]T, error) {
	var all []T
	err := d.on(conn, name, args, func(s *sqlite.Stmt) error {
		var v T
		err := scan(s, &v)
		if err == nil {
			all = append(all, v)
		} else if errors.Is(err, store.ErrCorrupt) {
			err = nil
		}
		return err
	})
	return all, err
}

// Clock implements store.Schedules. It returns the clock of the machine.
func (d *DB) Clock(ctx context.Context) (dag.Micros, error) {
	if err := ctx.Err(); err != nil || d.closed.Load() {
		return 0, fmt.Errorf("clock: %w: %w", store.ErrUnavailable, cmp.Or(err, errClosed))
	}
	return wall(), nil
}

var errClosed = errors.New("the database is closed")

// Trigger implements store.Schedules.
func (d *DB) Trigger(ctx context.Context, w dag.WorkflowID, name string) (store.Trigger, error) {
	return first(d, ctx, "triggerByName", []any{int64(w), name}, scanTrigger)
}

// Triggers implements store.Schedules.
func (d *DB) Triggers(ctx context.Context, q store.TriggerQuery) ([]store.Trigger, error) {
	args := []any{int64(q.After.Workflow), q.After.Name, q.State, pageOf(q.Limit)}
	switch {
	case q.Workflow != 0:
		return legible(d, ctx, "triggersOf", append(args, int64(q.Workflow)), scanTrigger)
	case q.State != "" && q.State != store.TriggerActive:
		return legible(d, ctx, "triggersInactive", args, scanTrigger)
	}
	return legible(d, ctx, "triggersAfter", args, scanTrigger)
}

// Due implements store.Schedules.
func (d *DB) Due(ctx context.Context, shards []dag.ShardID, until dag.Micros, limit int) ([]store.Trigger, error) {
	if !slices.Contains(shards, theShard) {
		return nil, nil
	}
	return legible(d, ctx, "triggersDue", []any{int64(theShard), int64(until), limitOf(limit)}, scanTrigger)
}

// NextDue implements store.Schedules.
func (d *DB) NextDue(ctx context.Context, shards []dag.ShardID) (next dag.Micros, err error) {
	if !slices.Contains(shards, theShard) {
		return 0, nil
	}
	err = d.query(ctx, "nextDue", []any{int64(theShard)}, func(s *sqlite.Stmt) error {
		next = dag.Micros(s.ColumnInt64(0))
		return nil
	})
	return next, err
}

// Listening implements store.Schedules.
func (d *DB) Listening(ctx context.Context, workflow string, limit int) ([]store.TriggerKey, error) {
	return list(d, ctx, "listening", []any{workflow, limitOf(limit)}, scanTriggerKey)
}

// Sensors implements store.Schedules. Each kind is a range of the index. The page is merged from these
// ranges.
func (d *DB) Sensors(ctx context.Context, shards []dag.ShardID, kinds []string, after store.TriggerKey, limit int) (_ []store.Trigger, err error) {
	if !slices.Contains(shards, theShard) {
		return nil, nil
	}
	conn, err := d.take(ctx)
	if err != nil {
		return nil, err
	}
	defer d.give(ctx, conn, &err)
	kinds = slices.Compact(slices.Sorted(slices.Values(kinds)))
	var all []store.Trigger
	for _, kind := range kinds {
		name := "sensorsOfKind"
		if slices.Contains(scheduleKinds, kind) {
			name = "schedulesOfKind"
		}
		some, err := legibleOn(d, conn, name, []any{kind, int64(after.Workflow), after.Name, pageOf(limit)}, scanTrigger)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	sort.Slice(all, func(i, j int) bool {
		a, b := &all[i], &all[j]
		return cmp.Or(cmp.Compare(a.Workflow, b.Workflow), cmp.Compare(a.Name, b.Name)) < 0
	})
	return all[:min(len(all), pageOf(limit))], nil
}

// LastFire implements store.Schedules.
func (d *DB) LastFire(ctx context.Context, w dag.WorkflowID, trigger string) (store.Fire, error) {
	return first(d, ctx, "newestFire", []any{int64(w), trigger}, scanFire)
}

// FireByKey implements store.Schedules.
func (d *DB) FireByKey(ctx context.Context, k store.TriggerKey, at dag.Micros, key string) (store.Fire, error) {
	if key != "" {
		return first(d, ctx, "fireOfEvent", []any{int64(k.Workflow), k.Name, key}, scanFire)
	}
	f, err := first(d, ctx, "fireBefore", []any{int64(k.Workflow), k.Name, int64(at)}, scanFire)
	if err == nil && f.Last < at {
		return store.Fire{}, fmt.Errorf("fireBefore: %w", store.ErrNotFound)
	}
	return f, err
}

// newestFireKey is greater than the key of any line. A list without a cursor begins there.
var newestFireKey = store.FireKey{Decided: math.MaxInt64, Workflow: math.MaxInt64, Trigger: "\U0010ffff", At: math.MaxInt64, Key: "\U0010ffff"}

// Fires implements store.Schedules.
func (d *DB) Fires(ctx context.Context, q store.FireQuery) ([]store.Fire, error) {
	before, until := q.Before, q.Until
	if before == (store.FireKey{}) {
		before = newestFireKey
	}
	if until == 0 {
		until = math.MaxInt64
	}
	if q.From == 0 {
		q.From = math.MinInt64
	}
	args := []any{int64(before.Decided), int64(before.Workflow), before.Trigger, int64(before.At), before.Key,
		q.Outcome, int64(q.From), int64(until), pageOf(q.Limit)}
	switch {
	case q.Workflow != 0:
		return legible(d, ctx, "firesOfWorkflow", append(args, int64(q.Workflow), q.Trigger), scanFire)
	case q.Outcome == "" || q.Outcome == store.OutcomeFired:
		return legible(d, ctx, "firesDown", args, scanFire)
	}
	return legible(d, ctx, "exceptionsDown", args, scanFire)
}

// Backfill implements store.Schedules.
func (d *DB) Backfill(ctx context.Context, id int64) (store.Backfill, error) {
	return first(d, ctx, "backfillById", []any{id}, scanBackfill)
}

// Backfills implements store.Schedules.
func (d *DB) Backfills(ctx context.Context, w dag.WorkflowID, state string, before int64, limit int) ([]store.Backfill, error) {
	if before == 0 {
		before = math.MaxInt64
	}
	return list(d, ctx, "backfillsDown", []any{before, int64(w), state, pageOf(limit)}, scanBackfill)
}

// BackfillRuns implements store.Schedules.
func (d *DB) BackfillRuns(ctx context.Context, id int64, after dag.Micros, limit int) ([]store.BackfillRun, error) {
	return list(d, ctx, "runsOfBackfill", []any{id, int64(after), pageOf(limit)}, scanBackfillRun)
}

// RunsAt implements store.Schedules.
func (d *DB) RunsAt(ctx context.Context, w dag.WorkflowID, instant dag.Micros) ([]dag.RunID, error) {
	return list(d, ctx, "backfillRunsAt", []any{int64(w), int64(instant)}, func(s *sqlite.Stmt, id *dag.RunID) error {
		c := row{s: s}
		*id = c.id()
		return c.corrupt("the run of a backfill")
	})
}

// corrupt returns the error that a scan has found.
func (r *row) corrupt(what string) error {
	if r.bad == nil {
		return nil
	}
	return fmt.Errorf("%s: %w: %w", what, store.ErrCorrupt, r.bad)
}

func scanTrigger(s *sqlite.Stmt, t *store.Trigger) (err error) {
	c := row{s: s}
	t.Workflow, t.Name, t.Shard, t.Version = dag.WorkflowID(c.int()), c.text(), dag.ShardID(c.int()), int32(c.int())
	t.Kind, t.State, t.Actor, t.Reason = c.text(), c.text(), c.text(), c.text()
	t.Next, t.Decided, t.Since, t.Fired, t.MaxRuns = c.micros(), c.micros(), c.micros(), c.int(), int32(c.int())
	t.Revision, t.Created, t.Modified = c.int(), c.micros(), c.micros()
	t.On, err = packed.UnpackHears(c.text())
	t.Data, t.Spec = c.blob(), c.blob()
	if err != nil {
		return fmt.Errorf("trigger %s of workflow %d: %w", t.Name, t.Workflow, err)
	}
	return nil
}

func scanTriggerKey(s *sqlite.Stmt, k *store.TriggerKey) error {
	c := row{s: s}
	k.Workflow, k.Name = dag.WorkflowID(c.int()), c.text()
	return nil
}

func scanFire(s *sqlite.Stmt, f *store.Fire) error {
	c := row{s: s}
	f.Workflow, f.Trigger, f.At, f.Key = dag.WorkflowID(c.int()), c.text(), c.micros(), c.text()
	f.Last, f.Count, f.Outcome, f.Reason = c.micros(), c.int(), c.text(), store.Reason(c.text())
	if s.ColumnIsNull(c.col) {
		c.skip()
	} else {
		f.Run = c.id()
	}
	f.Decided = c.micros()
	return c.corrupt(fmt.Sprintf("fire of trigger %s of workflow %d at %d", f.Trigger, f.Workflow, f.At))
}

func scanBackfill(s *sqlite.Stmt, f *store.Backfill) error {
	c := row{s: s}
	f.ID, f.Workflow, f.Shard, f.Trigger, f.State = c.int(), dag.WorkflowID(c.int()), dag.ShardID(c.int()), c.text(), c.text()
	f.Total, f.Started, f.Ended, f.Failed, f.Parallel = c.int(), c.int(), c.int(), c.int(), int32(c.int())
	f.User, f.Revision, f.Created, f.Modified = c.text(), c.int(), c.micros(), c.micros()
	f.Spec, f.Instants = c.blob(), c.blob()
	return nil
}

func scanBackfillRun(s *sqlite.Stmt, r *store.BackfillRun) error {
	c := row{s: s}
	r.Backfill, r.Workflow, r.Instant, r.Run = c.int(), dag.WorkflowID(c.int()), c.micros(), c.id()
	return c.corrupt(fmt.Sprintf("run of backfill %d", r.Backfill))
}
