package memory

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"skein.dev/skein/internal/store"
)

var _ store.Sessions = (*Store)(nil)

// sessions implements store.Sessions for the store that embeds it.
type sessions struct {
	s       *Store
	all     []store.Session // sorted by number
	numbers int64
}

// AddSession implements store.Sessions.
func (e *sessions) AddSession(ctx context.Context, one store.Session, b store.SessionBounds) (store.Session, error) {
	err := e.s.write(ctx, Op{Kind: SessionsBefore}, SessionsAfter, e.s.noted(ctx, func() error {
		now, left := e.s.clock(), []store.Session{}
		same := 0
		for i := len(e.all) - 1; i >= 0; i-- { // the newest first
			is := e.all[i]
			if is.Ends() <= now {
				continue
			}
			if is.Principal == one.Principal && is.Token == one.Token && is.Code == one.Code {
				if same++; same >= b.OfOne {
					continue
				}
			}
			left = append(left, is)
		}
		slices.Reverse(left)
		left = withParents(left)
		taken := func(o store.Session) bool { return bytes.Equal(o.Hash, one.Hash) }
		if len(left) >= b.All || slices.ContainsFunc(left, taken) || !hasParent(left, &one) {
			return store.SessionRefused(b)
		}
		e.numbers++
		one.ID, one.Created, one.Used, one.Hash = e.numbers, now, now, bytes.Clone(one.Hash)
		e.all = append(left, one)
		return nil
	}))
	return one, err
}

// SessionList implements store.Sessions.
func (e *sessions) SessionList(ctx context.Context) (all []store.Session, err error) {
	err = e.s.read(ctx, Read, func() error {
		all = slices.Clone(e.all)
		return nil
	})
	return all, err
}

// UseSession implements store.Sessions.
func (e *sessions) UseSession(ctx context.Context, id int64) error {
	return e.s.write(ctx, Op{Kind: SessionsBefore}, SessionsAfter, func() error {
		if i := e.at(id); i >= 0 {
			e.all[i].Used = e.s.clock()
		}
		return nil
	})
}

// EndSession implements store.Sessions.
func (e *sessions) EndSession(ctx context.Context, id int64) error {
	return e.s.write(ctx, Op{Kind: SessionsBefore}, SessionsAfter, e.s.noted(ctx, func() error {
		i := e.at(id)
		if i < 0 {
			return fmt.Errorf("session %d: %w", id, store.ErrNotFound)
		}
		e.all = withParents(slices.Delete(slices.Clone(e.all), i, i+1))
		return nil
	}))
}

// hasParent reports whether the parent of a session, if any, is among some sessions.
func hasParent(all []store.Session, one *store.Session) bool {
	return one.Parent == 0 || slices.ContainsFunc(all, func(o store.Session) bool { return o.ID == one.Parent })
}

// withParents deletes the sessions whose parent was deleted. A child comes after its parent.
func withParents(all []store.Session) (left []store.Session) {
	for i := range all {
		if hasParent(left, &all[i]) {
			left = append(left, all[i])
		}
	}
	return left
}

// drop deletes sessions and codes.
func (e *sessions) drop(which func(*store.Session) bool) {
	e.all = withParents(slices.DeleteFunc(slices.Clone(e.all), func(o store.Session) bool { return which(&o) }))
}

func (e *sessions) at(id int64) int {
	return slices.IndexFunc(e.all, func(o store.Session) bool { return o.ID == id })
}
