package sqlite

import (
	"context"
	"errors"
	"fmt"

	"zombiezen.com/go/sqlite"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// PutAlertRules implements store.Alerts.
func (e alerts) PutAlertRules(ctx context.Context, r store.AlertRules) (store.AlertRules, error) {
	d := e.d
	err := changeNoted(ctx, d, "change of alert rules", func() error {
		n, err := d.stmts.putAlertRules.row().text(r.Namespace).int(r.Version).blob(some(r.Data)).text(r.By).int(int64(wall())).exec(d.conn)
		if err == nil && n == 0 {
			err = errNoChange
		}
		return err
	})
	if errors.Is(err, errNoChange) {
		return r, fmt.Errorf("alert rules of namespace %s: %w", r.Namespace, store.ErrFenced)
	}
	if err != nil {
		return r, err
	}
	all, err := e.AlertRules(ctx)
	for i := range all {
		if all[i].Namespace == r.Namespace {
			return all[i], nil
		}
	}
	return r, err
}

// AlertRules implements store.Alerts.
func (e alerts) AlertRules(ctx context.Context) ([]store.AlertRules, error) {
	return list(e.d, ctx, "alertRules", nil, func(s *sqlite.Stmt, c *store.AlertRules) error {
		r := row{s: s}
		c.Namespace, c.Version, c.Data, c.By, c.Created, c.Modified = r.text(), r.int(), r.blob(), r.text(), r.micros(), r.micros()
		return nil
	})
}

// LostMembers implements store.Alerts.
func (e alerts) LostMembers(ctx context.Context) ([]store.LostMember, error) {
	return list(e.d, ctx, "lostMembers", nil, func(s *sqlite.Stmt, m *store.LostMember) error {
		r := row{s: s}
		m.Name, m.Worker, m.Handler, m.At = r.text(), r.int() != 0, dag.HandlerID(r.int()), r.micros()
		return nil
	})
}

// Watched implements store.Alerts.
func (e alerts) Watched(ctx context.Context, shards []dag.ShardID) ([]store.Watched, error) {
	return list(e.d, ctx, "watched", []any{jsonArray(shards)}, func(s *sqlite.Stmt, w *store.Watched) error {
		r := row{s: s}
		w.Workflow, w.Version, w.Def = dag.WorkflowID(r.int()), int32(r.int()), r.blob()
		return nil
	})
}

// Lose implements store.Workers.
func (e members) Lose(ctx context.Context, handler dag.HandlerID) error {
	d := e.d
	return d.changeBeside(ctx, "change of members", func() error {
		now := wall()
		_, err := d.stmts.forgetLost.row().int(int64(now) - store.LostMembersKept.Microseconds()).exec(d.conn)
		if err == nil {
			_, err = d.stmts.noteLost.row().int(int64(handler)).int(int64(now)).int(store.LostMembersMax).exec(d.conn)
		}
		if err == nil {
			_, err = d.stmts.leaveMember.row().int(int64(handler)).exec(d.conn)
		}
		return err
	})
}
