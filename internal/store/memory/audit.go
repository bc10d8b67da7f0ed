package memory

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"skein.dev/skein/internal/store"
)

var _ store.AuditLog = (*Store)(nil)

// audits implements store.AuditLog for the store that embeds it.
type audits struct {
	s       *Store
	all     []store.Audit // sorted by ID
	numbers int64
	tree    store.AuditTree
}

// AddAudit implements store.AuditLog.
func (e *audits) AddAudit(ctx context.Context, rows ...store.Audit) error {
	return e.s.write(ctx, Op{Kind: AuditBefore}, AuditAfter, func() error {
		for i := range rows {
			if err := checkAudit(&rows[i]); err != nil {
				return err
			}
		}
		for i := range rows {
			e.add(rows[i])
		}
		return nil
	})
}

func checkAudit(r *store.Audit) error {
	return checkTexts("audit row", r.Principal, r.Kind, r.Address, r.Verb, r.Action, r.Object, r.Namespace, r.Outcome, r.Request, r.Detail)
}

// add writes a row, unless a row with its key exists.
func (e *audits) add(r store.Audit) {
	if slices.ContainsFunc(e.all, func(o store.Audit) bool { return o.Key == r.Key }) {
		return
	}
	e.numbers++
	if r.ID, r.Index, r.Hash = e.numbers, -1, nil; r.At == 0 {
		r.At = e.s.clock()
		r.Last = r.At
	}
	e.all = append(e.all, r)
}

// insertAudit writes the row of a change of a batch.
func (x *tx) insertAudit(r *store.Audit) error {
	if err := checkAudit(r); err != nil {
		return err
	}
	e := &x.s.audits
	n := len(e.all)
	e.add(*r)
	x.onUndo(func() { e.all = e.all[:n] })
	return nil
}

// noted makes a change also write the audit row of its call.
func (e *audits) noted(ctx context.Context, change func() error) func() error {
	return func() error {
		row, ok := store.AuditOf(ctx)
		if ok {
			if err := checkAudit(&row); err != nil {
				return err
			}
		}
		err := change()
		if err == nil && ok {
			e.add(row)
		}
		return err
	}
}

// AuditFresh implements store.AuditLog.
func (e *audits) AuditFresh(ctx context.Context, limit int) (rows []store.Audit, err error) {
	return rows, e.s.read(ctx, Read, func() error {
		for i := 0; i < len(e.all) && len(rows) < limit; i++ {
			if e.all[i].Index < 0 {
				rows = append(rows, e.all[i])
			}
		}
		return nil
	})
}

// AuditTree implements store.AuditLog.
func (e *audits) AuditTree(ctx context.Context) (t store.AuditTree, err error) {
	return t, e.s.read(ctx, Read, func() error {
		t = e.tree
		return nil
	})
}

// GrowAudit implements store.AuditLog.
func (e *audits) GrowAudit(ctx context.Context, size int64, to store.AuditTree, rows []store.AuditLeaf) error {
	return e.s.write(ctx, Op{Kind: AuditBefore}, AuditAfter, func() error {
		if e.tree.Size != size || e.tree.First != to.First {
			return fmt.Errorf("the tree of the audit log has another size: %w", store.ErrFenced)
		}
		next := slices.Clone(e.all)
		for n := range rows {
			i := slices.IndexFunc(next, func(r store.Audit) bool { return r.ID == rows[n].ID && r.Index < 0 })
			if i < 0 {
				return fmt.Errorf("audit row %d has an index already, or is gone: %w", rows[n].ID, store.ErrFenced)
			}
			next[i].Index, next[i].Hash = size+int64(n), bytes.Clone(rows[n].Hash)
		}
		e.all, e.tree = next, to
		return nil
	})
}

// ForgetAudit implements store.AuditLog.
func (e *audits) ForgetAudit(ctx context.Context, from, to store.AuditTree) error {
	return e.s.write(ctx, Op{Kind: AuditBefore}, AuditAfter, func() error {
		if e.tree.Size != from.Size || e.tree.First != from.First {
			return fmt.Errorf("the tree of the audit log has another size: %w", store.ErrFenced)
		}
		e.tree = to
		e.all = slices.DeleteFunc(slices.Clone(e.all), func(r store.Audit) bool { return r.Index >= 0 && r.Index < to.First })
		return nil
	})
}

// AuditLeaves implements store.AuditLog.
func (e *audits) AuditLeaves(ctx context.Context, from int64, limit int) (rows []store.Audit, err error) {
	return rows, e.s.read(ctx, Read, func() error {
		for i := range e.all {
			if e.all[i].Index >= max(from, 0) {
				rows = append(rows, e.all[i])
			}
		}
		slices.SortFunc(rows, func(a, b store.Audit) int { return int(a.Index - b.Index) })
		rows = rows[:min(limit, len(rows))]
		return nil
	})
}

// AuditList implements store.AuditLog.
func (e *audits) AuditList(ctx context.Context, q store.AuditQuery) (rows []store.Audit, err error) {
	return rows, e.s.read(ctx, Read, func() error {
		all := slices.Clone(e.all)
		slices.SortFunc(all, func(a, b store.Audit) int { return cmp.Or(cmp.Compare(b.At, a.At), cmp.Compare(b.ID, a.ID)) })
		at, id := q.Edge()
		for i := 0; i < len(all) && len(rows) < q.Limit; i++ {
			r := &all[i]
			if (r.At < at || r.At == at && r.ID < id) && r.At >= q.Since && (q.Principal == "" || r.Principal == q.Principal) &&
				(q.Verb == "" || r.Verb == q.Verb) && (q.Namespaces == nil || slices.Contains(q.Namespaces, r.Namespace)) {
				rows = append(rows, *r)
			}
		}
		return nil
	})
}
