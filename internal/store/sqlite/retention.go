package sqlite

import (
	"context"
	"fmt"
	"math"
	"slices"

	"zombiezen.com/go/sqlite"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

var _ store.Retention = (*DB)(nil)

// expired is a run that need not be kept.
type expired struct {
	id        dag.RunID
	n         int64
	key, user string
	state     string
}

// Expire implements store.Retention. What may go is looked for beside the writer; the deletion
// looks again.
func (d *DB) Expire(ctx context.Context, owner dag.HandlerID, x store.Expiry) ([]dag.RunID, error) {
	old, err := oldRuns(ctx, d, x)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	ids := make([]dag.RunID, 0, len(old))
	err = d.transact(func() error {
		if err := d.stmts.holdShard.row().int(int64(x.Shard)).int(int64(owner)).one(d.conn); err != nil {
			return err
		}
		for _, r := range old {
			if err := d.expire(&r, x.Workflow); err != nil {
				return err
			}
			ids = append(ids, r.id)
		}
		return d.writeRolls()
	})
	if err != nil {
		return nil, fmt.Errorf("expire runs: %w", err)
	}
	d.checkpoints.wrote(len(ids))
	return ids, nil
}

func (d *DB) expire(r *expired, w dag.WorkflowID) error {
	// One that has begun again meanwhile stops it all; the next look leaves it out.
	if err := d.stmts.expireRun.row().int(r.n).text(r.state).one(d.conn); err != nil {
		return err
	}
	for _, s := range []*stmt{d.stmts.expireAttempts, d.stmts.expireEvents} {
		if _, err := s.row().int(r.n).exec(d.conn); err != nil {
			return err
		}
	}
	if r.key != "" {
		if err := d.stmts.expireKey.row().int(int64(w)).text(r.key).int(r.n).one(d.conn); err != nil {
			return err
		}
	}
	if err := d.enlist(workflowList(w), r.n, false); err != nil {
		return err
	}
	if slices.Contains(store.UnsuccessfulStates(), r.state) {
		if err := d.enlist(stateList(r.state), r.n, false); err != nil {
			return err
		}
	}
	d.numbers.drop(r.id)
	return d.enlist(userList(r.user), r.n, false)
}

// oldRuns finds what need not be kept, oldest first.
func oldRuns(ctx context.Context, d *DB, x store.Expiry) (_ []expired, err error) {
	conn, err := d.take(ctx)
	if err != nil {
		return nil, err
	}
	defer d.give(ctx, conn, &err)
	filling := false
	err = d.on(conn, "backfillGoesOn", []any{int64(x.Workflow)}, func(*sqlite.Stmt) error {
		filling = true
		return nil
	})
	if err != nil {
		return nil, err
	}
	floor, err := newestBut(d, conn, x.Workflow, max(x.Keep, 1))
	if err != nil {
		return nil, err
	}
	keyed := int64(-1) // the newest run that a key does not protect, not known yet
	kept := func(n int64, key string, finished dag.Micros) (bool, error) {
		if key == "" || finished < x.KeptFrom(key) {
			return false, nil
		}
		if keyed < 0 {
			if keyed = 0; x.KeyedKeep > 0 {
				var err error
				if keyed, err = newestBut(d, conn, x.Workflow, x.KeyedKeep); err != nil {
					return false, err
				}
			}
		}
		return n > keyed, nil
	}
	var all []expired
	looked := 0
	err = d.walkUp(conn, workflowList(x.Workflow), 0, func(n int64) (bool, error) {
		looked++
		var r *expired
		finished := dag.Micros(0)
		err := d.on(conn, "finishedRun", []any{n}, func(s *sqlite.Stmt) error {
			if finished = dag.Micros(s.ColumnInt64(1)); finished >= x.Before && n > floor || dag.Origin(s.ColumnText(3)) == dag.OriginBackfill && filling {
				return nil
			}
			r = &expired{n: n, key: s.ColumnText(2), user: s.ColumnText(4), state: s.ColumnText(5)}
			s.ColumnBytes(0, r.id[:])
			return nil
		})
		if err != nil || r == nil {
			return looked < lookMax, err
		}
		is, err := kept(n, r.key, finished)
		if !is {
			all = append(all, *r)
		}
		return len(all) < x.Limit && looked < lookMax, err
	})
	return all, err
}

// newestBut is the newest finished run of a workflow that is not among those to keep; 0: none.
func newestBut(d *DB, conn *sqlite.Conn, w dag.WorkflowID, keep int) (floor int64, err error) {
	left := keep
	err = d.walkDown(conn, workflowList(w), 1<<62, func(n int64) (bool, error) {
		err := d.on(conn, "finishedRun", []any{n}, func(*sqlite.Stmt) error {
			if left--; left < 0 {
				floor = n
			}
			return nil
		})
		return floor == 0, err
	})
	return floor, err
}

// ExpireVersions implements store.Retention. Runs are looked at beside the writer: those that begin meanwhile
// are of a version that is newer than what goes.
func (d *DB) ExpireVersions(ctx context.Context, owner dag.HandlerID, x store.VersionExpiry) (int, error) {
	keep := int64(max(x.Keep, 1))
	may, err := owns(ctx, d, "versionsMayGo", []any{int64(x.Shard), int64(x.Workflow), keep}, owner)
	if err != nil || !may {
		return 0, err
	}
	least, err := leastVersion(ctx, d, x.Workflow)
	if err != nil || least == 0 {
		return 0, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	err = d.transact(func() error {
		if err := d.stmts.holdShard.row().int(int64(x.Shard)).int(int64(owner)).one(d.conn); err != nil {
			return err
		}
		for _, s := range []*stmt{d.stmts.expireFiles, d.stmts.expireVersions} { // both see the same versions
			if n, err = s.row().int(int64(x.Workflow)).int(least).int(int64(x.Superseded)).int(int64(x.Limit)).int(keep).exec(d.conn); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("expire versions: %w", err)
	}
	return n, nil
}

// leastVersion is the oldest version that a run of a workflow has, or one that none can have; 0: there are too
// many runs to tell.
func leastVersion(ctx context.Context, d *DB, w dag.WorkflowID) (_ int64, err error) {
	conn, err := d.take(ctx)
	if err != nil {
		return 0, err
	}
	defer d.give(ctx, conn, &err)
	least, looked := int64(math.MaxInt32), 0
	err = d.walkUp(conn, workflowList(w), 0, func(n int64) (bool, error) {
		looked++
		err := d.on(conn, "versionOfRun", []any{n}, func(s *sqlite.Stmt) error {
			least = min(least, s.ColumnInt64(0))
			return nil
		})
		return looked <= store.VersionRunsMax, err
	})
	if looked > store.VersionRunsMax {
		least = 0
	}
	return least, err
}
