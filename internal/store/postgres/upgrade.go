package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"skein.dev/skein/internal/store"
)

const (
	// statesStep is the number of runs that one step of Upgrade examines.
	statesStep = 5000
	// formatStock is the format from which on every node counts the stocks of namespaces.
	formatStock = 36
	// buildMax bounds the time for building an index. If that takes longer, the build begins again.
	buildMax = time.Hour
)

var _ store.Upgrader = (*DB)(nil)

// Upgrade implements store.Upgrader. It lists older runs by their states. Then it sets up tables, counts what
// namespaces keep, and builds indexes: a migration would hold its locks until the end of its transaction, and
// nodes of the version before would wait for them.
func (d *DB) Upgrade(ctx context.Context) (more bool, err error) {
	if more, err = upgradeStates(ctx, d); more && err == nil || d.built.Load() {
		return more, err
	}
	tuned := tuneTables(ctx, d)
	all, failed := restock(ctx, d)
	err, all = errors.Join(err, tuned, failed), all && tuned == nil
	for _, name := range builtIndexes {
		built, failed := buildIndex(ctx, d, name)
		all, err = all && built, errors.Join(err, failed)
	}
	d.built.Store(all)
	return false, err
}

// upgradeStates lists the next older runs by their states.
func upgradeStates(ctx context.Context, d *DB) (more bool, err error) {
	begins, err := statesKnown(ctx, d)
	if err != nil || d.statesListed.Load() || d.stands.Load() < formatStates {
		return false, err
	}
	c, err := d.logs.take(ctx)
	if err != nil {
		return false, err
	}
	defer d.logs.give(c)
	if begins {
		_, err := c.Exec(ctx, statements("upgrade")["clearStates"]).ReadAll()
		return err == nil, translate("clearStates", err)
	}
	more = true // stays true if another node holds the row of meta, because that node does this work
	err = c.change(ctx, []query{{"listStates", args{}.int8(statesStep), func(r *row) error {
		more = r.bool()
		return r.damaged("the list of states")
	}}})
	return more, err
}

// statesKnown learns whether all runs are listed by their states. begins reports whether the listing has not
// begun.
func statesKnown(ctx context.Context, d *DB) (begins bool, err error) {
	if d.statesListed.Load() {
		return false, nil
	}
	err = d.query(ctx, "statesListed", nil, func(r *row) error {
		if r.bool() {
			d.statesListed.Store(true)
		}
		begins = r.bool()
		return r.damaged("the progress of the list of states")
	})
	return begins, err
}

// tuneTables sets autovacuum for the large tables so that it runs before a fifth of their rows is dead. It
// does not change a table that already has its own settings.
func tuneTables(ctx context.Context, d *DB) error {
	tables, err := list(ctx, d, query{name: "untuned"}, func(r *row, table *string) error {
		*table = r.text()
		return r.damaged("the settings of tables")
	})
	if err != nil || len(tables) == 0 {
		return err
	}
	c, err := d.writers.take(ctx)
	if err != nil {
		return err
	}
	defer d.writers.give(c)
	for _, table := range tables {
		_, failed := c.Exec(ctx, fmt.Sprintf(statements("upgrade")["tune"], table)).ReadAll()
		err = errors.Join(err, translate("tune table "+table, failed))
	}
	return err
}

// IndexState is the state of an index that nodes build while they run.
type IndexState int64

// The states of an index that indexState returns.
const (
	IndexMissing IndexState = iota
	IndexInvalid            // the build of the index has failed or is in progress
	IndexValid
)

// The indexes that Upgrade builds, because their tables may be large in a database of an earlier version:
// requests and audit rows by time, and the versions with alert rules.
const (
	requestIndex = "request_created"
	auditIndex   = "audit_at"
	watchedIndex = "version_watched"
)

var builtIndexes = [...]string{requestIndex, auditIndex, watchedIndex}

// indexState returns the state of an index.
func indexState(ctx context.Context, d *DB, name string) (state IndexState, err error) {
	return state, d.query(ctx, "indexState", args{}.text(name), func(r *row) error {
		state = IndexState(r.int())
		return r.damaged("the state of an index")
	})
}

// restock counts the stocks of namespaces once, after all nodes of versions that do not maintain these counts
// have left. It reports whether this has been done.
func restock(ctx context.Context, d *DB) (done bool, err error) {
	if d.stands.Load() < formatStock {
		return false, nil
	}
	see := func(r *row) error {
		done = r.bool()
		return r.damaged("whether everything was counted")
	}
	if err := d.query(ctx, "stocked", nil, see); err != nil || done {
		return done, err
	}
	c, err := onlyHere(ctx, d, "count what namespaces keep")
	if c == nil || err != nil {
		return false, err
	}
	defer hangUp(c)
	// another node may have counted before this node got the lock
	if err := c.query(ctx, "stocked", nil, see); err != nil || done {
		return done, err
	}
	_, err = c.Exec(ctx, statements("upgrade")["restock"]).ReadAll()
	return err == nil, translate("count what namespaces keep", err)
}

// onlyHere opens a connection for long work that only one node may do at a time. It returns nil while another
// node does such work. When the connection ends, the lock is released.
func onlyHere(ctx context.Context, d *DB, doing string) (c *conn, err error) {
	if c, err = d.logs.open(ctx); err != nil {
		return nil, err
	}
	mine := false
	_, err = c.Exec(ctx, fmt.Sprintf(statements("upgrade")["unbound"], buildMax.Milliseconds())).ReadAll()
	if err = translate(doing, err); err == nil {
		err = c.query(ctx, "tryLock", args{}.int8(buildKey(d.schema)), func(r *row) error {
			mine = r.bool()
			return r.damaged("an advisory lock")
		})
	}
	if err != nil || !mine {
		hangUp(c)
		return nil, err
	}
	return c, nil
}

// buildIndex builds an index without blocking writers, and reports whether the index is valid. It uses a
// separate connection, because it can take long. While another node builds the index, it does nothing.
func buildIndex(ctx context.Context, d *DB, name string) (built bool, err error) {
	if state, err := indexState(ctx, d, name); err != nil || state == IndexValid {
		return err == nil, err
	}
	c, err := onlyHere(ctx, d, "build the index "+name)
	if c == nil || err != nil {
		return false, err
	}
	defer hangUp(c)
	sql, state := statements("upgrade"), IndexMissing
	// another node may have built the index before this node got the lock
	err = c.query(ctx, "indexState", args{}.text(name), func(r *row) error {
		state = IndexState(r.int())
		return r.damaged("the state of an index")
	})
	if err == nil && state == IndexInvalid {
		_, err = c.Exec(ctx, "DROP INDEX CONCURRENTLY IF EXISTS "+name).ReadAll()
	}
	if err == nil && state != IndexValid {
		_, err = c.Exec(ctx, sql[name]).ReadAll()
	}
	return err == nil, translate("build the index "+name, err)
}
