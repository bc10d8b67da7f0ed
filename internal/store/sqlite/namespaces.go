package sqlite

import (
	"context"
	"fmt"
	"slices"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

var _ store.Namespaces = (*DB)(nil)

// namespaces implements store.Namespaces for the database that embeds it.
type namespaces struct{ d *DB }

// PutNamespace implements store.Namespaces.
func (e namespaces) PutNamespace(ctx context.Context, n store.Namespace) (store.Namespace, error) {
	n.Modified = wall()
	err := changeNoted(ctx, e.d, "change of namespaces", func() error {
		changed, err := e.d.stmts.putNamespace.row().text(n.Name).int(n.Revision).int(n.Runs).int(n.RunsPerHour).int(n.Tasks).int(n.ParamsBytes).
			int(n.StoredBytes).int(n.Versions).int(n.Triggers).int(n.Tokens).int(n.RequestsPerMinute).int(int64(n.Modified)).text(n.By).int(store.NamespacesMax).int(n.LogsPerDay).text(n.Isolation).
			text(n.AllowRead).text(n.AllowWrite).text(n.Egress).text(n.Locks).text(n.RunAs).exec(e.d.conn)
		if err == nil && changed == 0 {
			err = store.ErrFenced
		}
		return err
	})
	if err != nil {
		return n, namespaceRefused(ctx, e, &n, err)
	}
	return n, nil
}

// namespaceRefused returns the reason why the settings of a namespace were not written.
func namespaceRefused(ctx context.Context, e namespaces, n *store.Namespace, err error) error {
	if all, failed := e.NamespaceList(ctx); failed == nil && n.Revision == 1 && len(all) >= store.NamespacesMax {
		return fmt.Errorf("there are already %d namespaces, the limit: %w", store.NamespacesMax, store.ErrRefused)
	}
	return fmt.Errorf("namespace %s: %w", n.Name, err)
}

// NamespaceList implements store.Namespaces.
func (e namespaces) NamespaceList(ctx context.Context) ([]store.Namespace, error) {
	return list(e.d, ctx, "namespaces", nil, scanNamespace)
}

func scanNamespace(s *sqlite.Stmt, n *store.Namespace) error {
	r := row{s: s}
	n.Name, n.Revision, n.Runs, n.RunsPerHour, n.Tasks, n.ParamsBytes = r.text(), r.int(), r.int(), r.int(), r.int(), r.int()
	n.StoredBytes, n.Versions, n.Triggers, n.Tokens, n.RequestsPerMinute = r.int(), r.int(), r.int(), r.int(), r.int()
	n.Modified, n.By, n.LogsPerDay, n.Isolation = r.micros(), r.text(), r.int(), r.text()
	n.AllowRead, n.AllowWrite, n.Egress, n.Locks, n.RunAs = r.text(), r.text(), r.text(), r.text(), r.text()
	return nil
}

// LevelsStand implements store.Namespaces. Only one program opens the database.
func (e namespaces) LevelsStand() bool { return true }

// NamesStand implements store.Namespaces. Only one program opens the database.
func (e namespaces) NamesStand() bool { return true }

// RunAsStands implements store.Namespaces. Only one program opens the database.
func (e namespaces) RunAsStands() bool { return true }

// NamespaceUses implements store.Namespaces.
func (e namespaces) NamespaceUses(ctx context.Context, namespace string) ([]store.NamespaceUse, error) {
	return list(e.d, ctx, "namespaceUses", []any{namespace}, func(s *sqlite.Stmt, u *store.NamespaceUse) error {
		r := row{s: s}
		u.Namespace, u.Shard, u.Runs, u.Started, u.Since = r.text(), dag.ShardID(r.int()), r.int(), r.int(), r.micros()
		u.Logged, u.Day = r.int(), r.micros()
		return nil
	})
}

// NamespaceStocks implements store.Namespaces.
func (e namespaces) NamespaceStocks(ctx context.Context, namespace string) ([]store.NamespaceStock, error) {
	return list(e.d, ctx, "namespaceStocks", []any{namespace}, func(s *sqlite.Stmt, is *store.NamespaceStock) error {
		r := row{s: s}
		is.Namespace, is.Versions, is.Triggers, is.Bytes = r.text(), r.int(), r.int(), r.int()
		return nil
	})
}

// UnfinishedOf implements store.Namespaces.
func (e namespaces) UnfinishedOf(ctx context.Context, shards []dag.ShardID) (all []store.WorkflowRuns, err error) {
	if len(shards) == 0 {
		return nil, nil
	}
	conn, err := e.d.take(ctx)
	if err != nil {
		return nil, err
	}
	defer e.d.give(ctx, conn, &err)
	defer sqlitex.Transaction(conn)(&err) // all pages are read as of one instant
	at := map[dag.WorkflowID]int{0: 0}
	all = []store.WorkflowRuns{{Shard: theShard}}
	err = e.d.on(conn, "seqOfShard", nil, func(s *sqlite.Stmt) error {
		all[0].Seq = s.ColumnInt64(0)
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = e.d.walkUp(conn, activeList, 0, func(n int64) (bool, error) {
		return true, e.d.on(conn, "begunByNumber", []any{n}, func(s *sqlite.Stmt) error {
			w := dag.WorkflowID(s.ColumnInt64(0))
			i, there := at[w]
			if !there {
				i, at[w] = len(all), len(all)
				all = append(all, store.WorkflowRuns{Workflow: w, Shard: theShard, Seq: all[0].Seq})
			}
			all[i].Runs++
			return nil
		})
	})
	return all, err
}

// writeUses writes the use of namespaces after the transaction, and compares it with their quotas.
func writeUses(d *DB, b *store.Batch) error {
	for i := range b.Uses {
		u := &b.Uses[i]
		if err := checkShard(u.Shard); err != nil {
			return fmt.Errorf("the use of namespace %s: %w", u.Namespace, err)
		}
		if _, err := d.stmts.putUse.row().text(u.Namespace).int(int64(u.Shard)).int(u.Runs).int(u.Started).int(int64(u.Since)).int(u.Logged).int(int64(u.Day)).exec(d.conn); err != nil {
			return err
		}
		if !u.Check {
			continue
		}
		err := d.stmts.quotasOf.row().text(u.Namespace).each(func(r row) error { // SQLite has one shard, so this row covers all runs
			q := store.Quotas{Runs: r.int(), RunsPerHour: r.int()}
			if over := q.Exceeded(u.Namespace, u.Runs, u.Started, u.Since); over != nil {
				return over
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return writeStocks(d, b)
}

// writeStocks adds the parameters of new runs, and the bytes that ended runs keep, to the stocks of
// namespaces. It compares the stocks with the quotas.
func writeStocks(d *DB, b *store.Batch) error {
	for i := range b.Kept {
		if _, err := d.stmts.putStock.row().text(b.Kept[i].Namespace).int(b.Kept[i].Bytes).exec(d.conn); err != nil {
			return err
		}
	}
	for i := range b.Stocks {
		u := &b.Stocks[i]
		if err := checkShard(u.Shard); err != nil {
			return fmt.Errorf("the stock of namespace %s: %w", u.Namespace, err)
		}
		if u.Bytes != 0 {
			if _, err := d.stmts.putStock.row().text(u.Namespace).int(u.Bytes).exec(d.conn); err != nil {
				return err
			}
		}
		if u.Check == 0 {
			continue
		}
		err := d.stmts.stockOf.row().text(u.Namespace).each(func(r row) error {
			q := store.Quotas{StoredBytes: r.int(), Versions: r.int(), Triggers: r.int()}
			is := store.NamespaceStock{Namespace: u.Namespace, Versions: r.int(), Triggers: r.int(), Bytes: r.int()}
			if over := q.Overstocked(&is, u.Check); over != nil {
				return over
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// tokenFits returns a QuotaError if the quota of the namespace does not allow a new token.
func tokenFits(d *DB, t *store.Token) error {
	rows, err := listOn(d, d.conn, "namespaces", nil, scanNamespace)
	if err != nil || !slices.ContainsFunc(rows, func(n store.Namespace) bool { return n.Tokens > 0 }) {
		return err
	}
	all, err := listOn(d, d.conn, "tokens", nil, scanToken)
	if err != nil {
		return err
	}
	return store.TokenOver(rows, all, t, t.Created)
}
