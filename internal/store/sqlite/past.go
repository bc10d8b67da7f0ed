package sqlite

import (
	"context"
	"fmt"
	"math"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// expireAs runs a change that deletes old rows, for the owner of a shard.
func expireAs(ctx context.Context, d *DB, shard dag.ShardID, owner dag.HandlerID, what string, change func() error) error {
	err := d.changeBeside(ctx, what, func() error {
		if err := d.stmts.holdShard.row().int(int64(shard)).int(int64(owner)).one(d.conn); err != nil {
			return err
		}
		return change()
	})
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// owns runs a statement that returns the owner of a shard, and whether there may be rows to delete. It
// returns ErrFenced if the shard has another owner.
func owns(ctx context.Context, d *DB, name string, args []any, owner dag.HandlerID) (may bool, err error) {
	err = d.query(ctx, name, args, func(s *sqlite.Stmt) error {
		if is := dag.HandlerID(s.ColumnInt64(0)); is != owner {
			return fmt.Errorf("%s: the shard belongs to another owner: %w", name, store.ErrFenced)
		}
		may = s.ColumnInt64(1) != 0
		return nil
	})
	return may, err
}

// drop runs a statement that deletes, and returns the number of deleted rows.
func drop(d *DB, name string, args ...any) (int, error) {
	if err := sqlitex.Execute(d.conn, d.read[name], &sqlitex.ExecOptions{Args: args}); err != nil {
		return 0, translate(name, err)
	}
	return d.conn.Changes(), nil
}

// drops runs several statements that delete, with the same arguments, and returns the number of changed
// rows.
func drops(d *DB, names []string, args ...any) (all int, err error) {
	for _, name := range names {
		n, err := drop(d, name, args...)
		if err != nil {
			return all, err
		}
		all += n
	}
	return all, nil
}

// ExpireFires implements store.Retention. A read-only connection finds the lines that may be deleted.
func (d *DB) ExpireFires(ctx context.Context, owner dag.HandlerID, x store.FireExpiry) (did store.FiresExpired, err error) {
	old, next, err := oldFires(ctx, d, &x)
	if err != nil {
		return did, err
	}
	first := x.After == (store.FireKey{})
	if len(old) == 0 {
		days, err := owns(ctx, d, "daysMayGo", []any{int64(x.Shard), int64(x.Workflow), x.Days}, owner)
		if err != nil || !first || !days {
			return store.FiresExpired{Next: next}, err
		}
	}
	err = expireAs(ctx, d, x.Shard, owner, "expire lines of the ledger", func() error {
		for i := range old {
			f := &old[i]
			n, err := drop(d, "expireFire", int64(f.Workflow), f.Trigger, int64(f.At), f.Key, int64(f.Decided), f.Count)
			if err != nil {
				return err
			}
			if n == 0 {
				continue // the line has changed meanwhile
			}
			did.Gone++
			day := store.FireDay{}
			day.Add(f)
			_, err = drop(d, "addDay", int64(f.Workflow), f.Trigger, store.DayOf(f.At), day.Fired, day.Late, day.Skipped, day.Merged,
				day.Missed, int64(day.Until))
			if err != nil {
				return err
			}
		}
		if !first {
			return nil
		}
		_, err := drop(d, "expireDays", int64(x.Workflow), x.Days)
		return err
	})
	if err != nil {
		return store.FiresExpired{}, err
	}
	did.Next = next
	return did, nil
}

// oldFires finds the lines of a page that may be deleted, and the cursor of the next page.
func oldFires(ctx context.Context, d *DB, x *store.FireExpiry) (old []store.Fire, next store.FireKey, err error) {
	conn, err := d.take(ctx)
	if err != nil {
		return nil, next, err
	}
	defer d.give(ctx, conn, &err)
	least := dag.Micros(math.MinInt64)
	err = d.on(conn, "leastFire", []any{int64(x.Workflow), max(x.Keep, 1)}, func(s *sqlite.Stmt) error {
		least = dag.Micros(s.ColumnInt64(0))
		return nil
	})
	if err != nil {
		return nil, next, err
	}
	looked, last := 0, store.FireKey{}
	below := max(x.Plain, x.Exceptions, least+1)
	args := []any{int64(x.Workflow), int64(x.After.Decided), x.After.Trigger, int64(x.After.At), x.After.Key, int64(below), x.Limit}
	err = d.on(conn, "oldFires", args, func(s *sqlite.Stmt) error {
		var f store.Fire
		looked++
		if err := scanFire(s, &f); err != nil {
			return nil // a damaged line stays, and skein verify reports it
		}
		last = store.FireKey{Decided: f.Decided, Workflow: f.Workflow, Trigger: f.Trigger, At: f.At, Key: f.Key}
		bound := x.Exceptions
		if f.Plain() {
			bound = x.Plain
		}
		if newest := s.ColumnInt64(s.ColumnCount()-1) != 0; !newest && (f.Decided < bound || f.Decided <= least) {
			old = append(old, f)
		}
		return nil
	})
	if looked == x.Limit {
		next = last
	}
	return old, next, err
}

// FireDays implements store.Schedules.
func (d *DB) FireDays(ctx context.Context, k store.TriggerKey, before int32, limit int) ([]store.FireDay, error) {
	if before == 0 {
		before = math.MaxInt32
	}
	return list(d, ctx, "fireDays", []any{int64(k.Workflow), k.Name, before, limitOf(limit)}, func(s *sqlite.Stmt, v *store.FireDay) error {
		r := row{s: s}
		v.Workflow, v.Trigger, v.Day = dag.WorkflowID(r.int()), r.text(), int32(r.int())
		v.Fired, v.Late, v.Skipped, v.Merged, v.Missed, v.Until = r.int(), r.int(), r.int(), r.int(), r.int(), r.micros()
		return nil
	})
}

// ExpireBackfills implements store.Retention.
func (d *DB) ExpireBackfills(ctx context.Context, owner dag.HandlerID, x store.BackfillExpiry) (n int, err error) {
	may, err := owns(ctx, d, "backfillsMayGo", []any{int64(x.Shard), int64(x.Workflow)}, owner)
	if err != nil || !may {
		return 0, err
	}
	err = expireAs(ctx, d, x.Shard, owner, "expire backfills", func() error {
		id := int64(0)
		err := d.on(d.conn, "oldBackfill", []any{int64(x.Workflow), int64(x.Before), max(x.Keep, 1)}, func(s *sqlite.Stmt) error {
			id = s.ColumnInt64(0)
			return nil
		})
		if err != nil || id == 0 {
			return err
		}
		if n, err = drop(d, "expireBackfillRuns", id, x.Limit); err == nil {
			gone := 0
			gone, err = drop(d, "expireBackfill", id)
			n += gone
		}
		return err
	})
	return n, err
}

// ExpireWorkflow implements store.Retention.
func (d *DB) ExpireWorkflow(ctx context.Context, owner dag.HandlerID, x store.WorkflowExpiry) (n int, err error) {
	err = expireAs(ctx, d, x.Shard, owner, "expire a deleted workflow", func() error {
		deleted, empty := false, true
		err := d.on(d.conn, "isDeleted", []any{int64(x.Workflow), int64(x.Before)}, func(*sqlite.Stmt) error {
			deleted = true
			return nil
		})
		if err == nil {
			err = d.walkUp(d.conn, workflowList(x.Workflow), 0, func(int64) (bool, error) {
				empty = false
				return false, nil
			})
		}
		if err != nil || !deleted || !empty {
			return err
		}
		n, err = drops(d, []string{"dropFires", "dropDays", "dropBackfillRuns", "dropBackfills", "dropFiles", "dropVersions", "dropTally", "dropTallyMarks"},
			int64(x.Workflow), x.Limit)
		if err == nil && n == 0 {
			n, err = drop(d, "dropWorkflow", int64(x.Workflow))
		}
		return err
	})
	return n, err
}

// DeletedWorkflows implements store.Retention.
func (d *DB) DeletedWorkflows(ctx context.Context, after dag.WorkflowID, limit int) ([]store.Workflow, error) {
	return list(d, ctx, "deletedWorkflows", []any{int64(after), limitOf(limit)}, scanWorkflow)
}

// ExpireRecords implements store.Retention.
func (d *DB) ExpireRecords(ctx context.Context, owner dag.HandlerID, x store.RecordExpiry) (n int, err error) {
	err = expireAs(ctx, d, x.Shard, owner, "expire records", func() error {
		requests, err := drop(d, "expireRequests", int64(x.Requests), max(x.RequestsKeep, 1), x.Limit)
		if err != nil {
			return err
		}
		calls, err := drop(d, "expireCalls", int64(x.Calls), x.Limit)
		if err != nil {
			return err
		}
		busy, err := drop(d, "expireBusyCalls", max(x.CallsKeep, 1), x.Limit)
		if err != nil {
			return err
		}
		events, err := drop(d, "expireSent", int64(x.Events), max(x.EventsKeep, 1), x.Limit)
		if err != nil {
			return err
		}
		handlers, err := drop(d, "expireHandlers", int64(x.Records), max(x.RecordsKeep, 1), x.Limit, int64(x.RecordsMin))
		if err != nil {
			return err
		}
		tokens, err := drop(d, "expireTokens", int64(x.Records))
		n = requests + calls + busy + events + handlers + tokens
		return err
	})
	return n, err
}
