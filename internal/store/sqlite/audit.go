package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"zombiezen.com/go/sqlite"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

var _ store.AuditLog = (*DB)(nil)

// audits implements store.AuditLog for the database that embeds it.
type audits struct{ d *DB }

// AddAudit implements store.AuditLog.
func (e audits) AddAudit(ctx context.Context, rows ...store.Audit) error {
	return e.d.changeBeside(ctx, "audit", func() error {
		for i := range rows {
			if err := insertAudit(e.d, &rows[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// auditRows writes the audit rows of a batch.
func (e audits) auditRows(b *store.Batch) error {
	for i := range b.Audit {
		if err := insertAudit(e.d, &b.Audit[i]); err != nil {
			return err
		}
	}
	return nil
}

func insertAudit(d *DB, r *store.Audit) error {
	at, last := r.At, r.Last
	if at == 0 {
		at = wall()
		last = at
	}
	_, err := d.stmts.insertAudit.row().blob(r.Key[:]).int(-1).null().int(int64(at)).int(int64(last)).int(r.Count).text(r.Principal).text(r.Kind).
		int(r.Token).int(r.Session).text(r.Address).text(r.Verb).text(r.Action).text(r.Object).text(r.Namespace).text(r.Outcome).
		text(r.Request).text(r.Detail).exec(d.conn)
	return err
}

// changeNoted does the same as changeBeside, and also writes the audit row of the call.
func changeNoted(ctx context.Context, d *DB, what string, change func() error) error {
	return d.changeBeside(ctx, what, func() error {
		if err := change(); err != nil {
			return err
		}
		if row, ok := store.AuditOf(ctx); ok {
			return insertAudit(d, &row)
		}
		return nil
	})
}

// AuditFresh implements store.AuditLog.
func (e audits) AuditFresh(ctx context.Context, limit int) ([]store.Audit, error) {
	return list(e.d, ctx, "auditFresh", []any{int64(limit)}, scanAudit)
}

// AuditTree implements store.AuditLog.
func (e audits) AuditTree(ctx context.Context) (store.AuditTree, error) {
	t, err := first(e.d, ctx, "auditTree", nil, func(s *sqlite.Stmt, t *store.AuditTree) error {
		c := row{s: s}
		t.Size, t.First, t.Head, t.Edge, t.Era, t.Base = c.int(), c.int(), c.blob(), c.blob(), dag.Era(c.int()), c.int()
		return nil
	})
	if errors.Is(err, store.ErrNotFound) {
		return store.AuditTree{}, nil
	}
	return t, err
}

// GrowAudit implements store.AuditLog.
func (e audits) GrowAudit(ctx context.Context, size int64, to store.AuditTree, rows []store.AuditLeaf) error {
	d := e.d
	err := d.changeBeside(ctx, "audit", func() error {
		if err := moveAuditTree(d, size, to.First, &to); err != nil {
			return err
		}
		for i := range rows {
			if err := d.stmts.indexAudit.row().int(rows[i].ID).int(size + int64(i)).blob(rows[i].Hash).one(d.conn); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("add audit rows to the tree: %w", err)
	}
	return nil
}

func moveAuditTree(d *DB, size, first int64, to *store.AuditTree) error {
	return d.stmts.moveAuditTree.row().int(size).int(first).int(to.Size).int(to.First).blob(some(to.Head)).blob(some(to.Edge)).
		int(int64(to.Era)).int(to.Base).one(d.conn)
}

// ForgetAudit implements store.AuditLog.
func (e audits) ForgetAudit(ctx context.Context, from, to store.AuditTree) error {
	d := e.d
	err := d.changeBeside(ctx, "audit", func() error {
		if err := moveAuditTree(d, from.Size, from.First, &to); err != nil {
			return err
		}
		_, err := d.stmts.dropAudit.row().int(to.First).exec(d.conn)
		return err
	})
	if err != nil {
		return fmt.Errorf("delete audit rows: %w", err)
	}
	return nil
}

// AuditLeaves implements store.AuditLog.
func (e audits) AuditLeaves(ctx context.Context, from int64, limit int) ([]store.Audit, error) {
	return list(e.d, ctx, "auditLeaves", []any{from, int64(limit)}, scanAudit)
}

// AuditList implements store.AuditLog.
func (e audits) AuditList(ctx context.Context, q store.AuditQuery) ([]store.Audit, error) {
	at, id := q.Edge()
	return list(e.d, ctx, "auditRows", []any{int64(at), id, int64(q.Since), q.Principal, q.Verb, q.In(), int64(q.Limit)}, scanAudit)
}

func scanAudit(s *sqlite.Stmt, r *store.Audit) error {
	c := row{s: s}
	r.ID = c.int()
	key, err := uuid.FromBytes(c.blob())
	if err != nil {
		return fmt.Errorf("audit row %d: its key: %w: %w", r.ID, store.ErrCorrupt, err)
	}
	r.Key, r.Index, r.Hash, r.At, r.Last, r.Count = key, c.int(), c.blob(), c.micros(), c.micros(), c.int()
	r.Principal, r.Kind, r.Token, r.Session, r.Address = c.text(), c.text(), c.int(), c.int(), c.text()
	r.Verb, r.Action, r.Object, r.Namespace = c.text(), c.text(), c.text(), c.text()
	r.Outcome, r.Request, r.Detail = c.text(), c.text(), c.text()
	return nil
}
