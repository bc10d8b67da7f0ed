package sqlite

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"skein.dev/skein/internal/store"
)

var _ store.Sessions = (*DB)(nil)

// sessions implements store.Sessions for the database that embeds it.
type sessions struct{ d *DB }

// AddSession implements store.Sessions.
func (e sessions) AddSession(ctx context.Context, s store.Session, b store.SessionBounds) (store.Session, error) {
	d := e.d
	err := changeNoted(ctx, d, "change of sessions", func() error {
		s.Created = wall()
		s.Used = s.Created
		now, code := int64(s.Created), int64(0)
		if s.Code {
			code = 1
		}
		if _, err := d.stmts.dropOverSessions.row().int(now).int(now - int64(store.SessionIdle)).exec(d.conn); err != nil {
			return err
		}
		if _, err := d.stmts.dropOldSessions.row().int(s.Principal).int(s.Token).int(code).int(int64(b.OfOne) - 1).exec(d.conn); err != nil {
			return err
		}
		n, err := d.stmts.insertSession.row().blob(s.Hash).int(code).int(s.Principal).int(s.Token).int(now).int(int64(s.Expires)).
			text(s.Address).text(s.Agent).int(int64(b.All)).int(s.Parent).text(s.Origin).exec(d.conn)
		if err == nil && n == 0 {
			err = store.SessionRefused(b)
		}
		s.ID = d.conn.LastInsertRowID()
		return err
	})
	return s, err
}

// SessionList implements store.Sessions.
func (e sessions) SessionList(ctx context.Context) ([]store.Session, error) {
	return list(e.d, ctx, "sessions", nil, scanSession)
}

// UseSession implements store.Sessions.
func (e sessions) UseSession(ctx context.Context, id int64) error {
	return e.d.changeBeside(ctx, "change of sessions", func() error {
		_, err := e.d.stmts.useSession.row().int(id).int(int64(wall())).exec(e.d.conn)
		return err
	})
}

// EndSession implements store.Sessions.
func (e sessions) EndSession(ctx context.Context, id int64) error {
	return changeNoted(ctx, e.d, "change of sessions", func() error {
		n, err := e.d.stmts.endSession.row().int(id).exec(e.d.conn)
		if err == nil && n == 0 {
			err = fmt.Errorf("session %d: %w", id, store.ErrNotFound)
		}
		return err
	})
}

func scanSession(s *sqlite.Stmt, one *store.Session) error {
	c := row{s: s}
	one.ID, one.Hash, one.Code, one.Principal, one.Token = c.int(), c.blob(), c.int() != 0, c.int(), c.int()
	one.Created, one.Used, one.Expires, one.Address, one.Agent, one.Parent, one.Origin = c.micros(), c.micros(), c.micros(), c.text(), c.text(), c.int(), c.text()
	return nil
}
