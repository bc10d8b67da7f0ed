package sqlite

import "skein.dev/skein/internal/store"

// newKeys reports whether no run has any of the keys. It reads over the writer's connection, whose cache
// contains the pages of the newest keys, and needs no goroutine for an interrupt. Most keys are new, so most
// starts need no other connection. newKeys also returns false if it cannot decide, because the connection is
// in use or has failed.
func (d *DB) newKeys(keys []store.RunKey) bool {
	if !d.mu.TryLock() {
		return false
	}
	defer d.mu.Unlock()
	if d.conn == nil || d.ahead != nil || d.closed.Load() || d.broken.Load() {
		return false
	}
	if len(keys) > 1 { // in a transaction, the locks of the file are taken only once
		if _, err := d.stmts.beginRead.row().exec(d.conn); err != nil {
			return false
		}
		defer func() {
			if _, err := d.stmts.commit.row().exec(d.conn); err != nil {
				d.rollback()
			}
		}()
	}
	for i := range keys {
		if _, late := d.keys.find(keys[i]); late {
			return false
		}
	}
	if there, err := treeOf(d).anyListed(keys); err != nil || there {
		return false
	}
	for i := range keys {
		d.keys.absent(keys[i])
	}
	return true
}
