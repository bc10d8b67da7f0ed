package sqlite

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"

	"zombiezen.com/go/sqlite"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/packed"
)

var _ store.Retention = (*DB)(nil)

// expired is a run that may be deleted.
type expired struct {
	id        dag.RunID
	n         int64
	key, user string
	state     string
	day       int32 // the day of the run's end
	again     bool  // the run may have ended several times
	tags      dag.Tags
}

// posOf returns the position of the run with a number.
func posOf(n int64) (p store.RunPos) {
	if n > 0 {
		binary.BigEndian.PutUint64(p[8:], uint64(n))
	}
	return p
}

// numberAt returns the number of the run at a position; 0 means before all runs.
func numberAt(p store.RunPos) int64 { return int64(binary.BigEndian.Uint64(p[8:]) & math.MaxInt64) }

// FinishedBut implements store.Retention.
func (d *DB) FinishedBut(ctx context.Context, w dag.WorkflowID, keep int) (_ store.RunPos, err error) {
	conn, err := d.take(ctx)
	if err != nil {
		return store.RunPos{}, err
	}
	defer d.give(ctx, conn, &err)
	n, err := newestBut(d, conn, w, keep)
	return posOf(n), err
}

// Expire implements store.Retention. A read-only connection finds the runs that may be deleted, and the
// transaction that deletes them checks them again.
func (d *DB) Expire(ctx context.Context, owner dag.HandlerID, x store.Expiry) (store.Expired, error) {
	if _, err := owns(ctx, d, "holderOfShard", []any{int64(x.Shard)}, owner); err != nil {
		return store.Expired{}, err
	}
	old, did, err := oldRuns(ctx, d, &x)
	if err != nil || len(old) == 0 {
		return did, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	did.Runs = make([]dag.RunID, 0, len(old))
	err = d.transact(func() error {
		if err := d.stmts.holdShard.row().int(int64(x.Shard)).int(int64(owner)).one(d.conn); err != nil {
			return err
		}
		for _, r := range old {
			if err := d.expire(&r, &x); err != nil {
				return err
			}
			did.Runs = append(did.Runs, r.id)
		}
		return d.writeRolls()
	})
	if err != nil {
		return store.Expired{}, fmt.Errorf("expire runs: %w", err)
	}
	return did, nil
}

func (d *DB) expire(r *expired, x *store.Expiry) error {
	w := x.Workflow
	// If a run has begun again in between, the transaction fails. The next call then leaves out that run.
	if err := d.stmts.expireRun.row().int(r.n).text(r.state).one(d.conn); err != nil {
		return err
	}
	for _, s := range []*stmt{d.stmts.expireAttempts, d.stmts.expireEvents} {
		if _, err := s.row().int(r.n).exec(d.conn); err != nil {
			return err
		}
	}
	if r.key != "" {
		if err := treeOf(d).unlist(w, r.key, r.n); err != nil {
			return err
		}
	}
	if err := d.enlist(workflowList(w), r.n, false); err != nil {
		return err
	}
	if store.UnsuccessfulName(r.state) {
		if err := d.enlist(stateList(r.state), r.n, false); err != nil {
			return err
		}
	}
	if err := enlistTags(d, r.tags, r.n, false); err != nil {
		return err
	}
	d.numbers.drop(r.id)
	if err := d.enlist(userList(r.user), r.n, false); err != nil || !x.Tallied {
		return err
	}
	if r.again {
		if _, err := drop(d, "tallyGone", int64(w), int64(r.day), store.TallyAgain); err != nil {
			return err
		}
	}
	_, err := drop(d, "tallyGone", int64(w), int64(r.day), r.state)
	return err
}

// oldRuns finds runs that may be deleted, the oldest first. did.Next is the position up to which it has
// searched.
func oldRuns(ctx context.Context, d *DB, x *store.Expiry) (all []expired, did store.Expired, err error) {
	conn, err := d.take(ctx)
	if err != nil {
		return nil, did, err
	}
	defer d.give(ctx, conn, &err)
	filling := false
	err = d.on(conn, "backfillGoesOn", []any{int64(x.Workflow)}, func(*sqlite.Stmt) error {
		filling = true
		return nil
	})
	if err != nil {
		return nil, did, err
	}
	to, keyedTo := numberAt(x.To), numberAt(x.KeyedTo)
	may := func(n int64, s *sqlite.Stmt) bool {
		finished, key := dag.Micros(s.ColumnInt64(1)), s.ColumnText(2)
		return (!x.Tallied || s.ColumnInt64(7) != 0) && (finished < x.Before || n <= to) && (key == "" || finished < x.KeptFrom(key) || n <= keyedTo) &&
			(!filling || dag.Origin(s.ColumnText(3)) != dag.OriginBackfill)
	}
	looked, last := 0, int64(0)
	err = d.walkUp(conn, workflowList(x.Workflow), numberAt(x.After)+1, func(n int64) (bool, error) {
		if len(all) == x.Limit || looked == store.ExpireLooks*x.Limit {
			did.Next = posOf(last)
			return false, nil
		}
		looked, last = looked+1, n
		old := true // false only if the run finished after Before
		err := d.on(conn, "finishedRun", []any{n, x.Counted}, func(s *sqlite.Stmt) error {
			if old = dag.Micros(s.ColumnInt64(1)) < x.Before; may(n, s) {
				r := expired{n: n, key: s.ColumnText(2), user: s.ColumnText(4), state: s.ColumnText(5),
					day: store.DayOf(dag.Micros(s.ColumnInt64(1))), again: s.ColumnInt64(6) > 1}
				s.ColumnBytes(0, r.id[:])
				r.tags = tagsIn((&row{s: s, col: 8}).blob())
				all = append(all, r)
			}
			return nil
		})
		did.Old = did.Old || old
		return true, err
	})
	return all, did, err
}

// newestBut returns the number of the newest finished run of a workflow that is not among the newest keep. It
// returns 0 if there is no such run. It reads only pages of lists, with 2,048 runs each.
func newestBut(d *DB, conn *sqlite.Conn, w dag.WorkflowID, keep int) (found int64, err error) {
	err = d.on(conn, "rollFinished", []any{workflowList(w), activeList}, func(s *sqlite.Stmt) error {
		words, err := finishedBits(s)
		if err != nil {
			return err
		}
		on := 0
		for _, word := range words {
			on += bits.OnesCount64(word)
		}
		if on <= keep {
			keep -= on
			return nil
		}
		_, err = downwards(s.ColumnInt64(0), &words, 1<<62, func(n int64) (bool, error) {
			found = n
			keep--
			return keep >= 0, nil
		})
		if err == nil {
			err = errEnough
		}
		return err
	})
	if found > 0 {
		err = nil
	}
	return found, err
}

// finishedBits reads a page of a list and removes the runs that have not ended.
func finishedBits(s *sqlite.Stmt) (words packed.Page, err error) {
	if words, err = readBits(s, 1); err != nil || s.ColumnType(2) == sqlite.TypeNull {
		return words, err
	}
	active, err := readBits(s, 2)
	for i := range words {
		words[i] &^= active[i]
	}
	return words, err
}

// ExpireVersions implements store.Retention. A reader finds the oldest version that runs use. A run that
// begins in between uses a newer version than the deleted ones.
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
		for _, s := range []*stmt{d.stmts.expireFiles, d.stmts.expireVersions} { // both statements select the same versions
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

// leastVersion returns the oldest version among the runs of a workflow. If there are no runs, it returns a
// number greater than any version. If there are too many runs for an answer, it returns 0.
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
