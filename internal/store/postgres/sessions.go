package postgres

import (
	"context"
	"fmt"

	"skein.dev/skein/internal/store"
)

var _ store.Sessions = (*DB)(nil)

// sessions implements store.Sessions for the database that embeds it.
type sessions struct{ d *DB }

// AddSession implements store.Sessions.
func (e sessions) AddSession(ctx context.Context, s store.Session, b store.SessionBounds) (store.Session, error) {
	code := int64(0)
	if s.Code {
		code = 1
	}
	found, err := e.change(ctx, query{name: "dropOverSessions", args: args{}.int8(int64(store.SessionIdle))},
		query{name: "dropOldSessions", args: args{}.int8(s.Principal).int8(s.Token).int8(code).int8(int64(b.OfOne) - 1)},
		query{name: "insertSession", args: args{}.blob(s.Hash).int8(code).int8(s.Principal).int8(s.Token).int8(int64(s.Expires)).
			text(s.Address).text(s.Agent).int8(int64(b.All)).int8(s.Parent).text(s.Origin)})
	if err == nil && len(found) == 0 {
		err = store.SessionRefused(b)
	}
	if err != nil {
		return s, fmt.Errorf("add a session: %w", err)
	}
	return found[0], nil
}

// SessionList implements store.Sessions.
func (e sessions) SessionList(ctx context.Context) ([]store.Session, error) {
	return list(ctx, e.d, query{name: "sessions"}, scanSession)
}

// UseSession implements store.Sessions.
func (e sessions) UseSession(ctx context.Context, id int64) error {
	return e.d.alter(ctx, "use a session", nil, query{name: "useSession", args: args{}.int8(id)})
}

// EndSession implements store.Sessions.
func (e sessions) EndSession(ctx context.Context, id int64) error {
	found, err := e.change(ctx, query{name: "endSession", args: args{}.int8(id)})
	if err == nil && len(found) == 0 {
		err = store.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("session %d: %w", id, err)
	}
	return nil
}

// change runs statements that write, and returns the rows of the last one.
func (e sessions) change(ctx context.Context, all ...query) (found []store.Session, err error) {
	if err := ended(ctx, all[len(all)-1].name); err != nil {
		return nil, err
	}
	last := &all[len(all)-1]
	last.see = into(&found, scanSession)
	*last = notedQuery(ctx, *last)
	err = e.d.change(ctx, nil, all...)
	return found, err
}

func scanSession(r *row, s *store.Session) error {
	s.ID, s.Hash, s.Code, s.Principal, s.Token = r.int(), r.blob(), r.int() != 0, r.int(), r.int()
	s.Created, s.Used, s.Expires, s.Address, s.Agent, s.Parent, s.Origin = r.micros(), r.micros(), r.micros(), r.text(), r.text(), r.int(), r.text()
	return r.damaged("session %d", s.ID)
}
