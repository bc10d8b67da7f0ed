package sqlite

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// rotations implements RotateToken, JoinToken and RenewToken for the database that embeds it.
type rotations struct{ d *DB }

// RotateToken implements store.Tokens.
func (e rotations) RotateToken(ctx context.Context, r store.Rotation) (t store.Token, err error) {
	d := e.d
	err = changeNoted(ctx, d, "change of tokens", func() error {
		wall := wall()
		now := int64(wall)
		all, err := listOn(d, d.conn, "tokens", nil, scanToken)
		if err != nil {
			return err
		}
		if r.Parent != 0 && !store.FamilyOf(all).Stays(r.Parent, wall) {
			return store.NotRotated(all, &r)
		}
		n, err := d.stmts.replaceToken.row().int(r.Token).int(now).int(now + int64(r.Grace)).int(store.TokensMax).exec(d.conn)
		if err == nil && n == 0 {
			err = store.NotRotated(all, &r)
		}
		if err != nil {
			return err
		}
		_, err = d.stmts.succeedToken.row().int(r.Token).blob(r.Hash).int(now).int(int64(r.Expires)).text(r.By).int(r.Maker).int(r.Parent).exec(d.conn)
		if err != nil {
			return err
		}
		made, err := listOn(d, d.conn, "tokenByHash", []any{r.Hash}, scanToken)
		if err == nil && len(made) == 1 {
			t = made[0]
		}
		return err
	})
	if err != nil {
		return t, fmt.Errorf("rotate: %w", err)
	}
	return t, nil
}

// JoinToken implements store.Tokens.
func (e rotations) JoinToken(ctx context.Context, j store.Joining) (t store.Token, err error) {
	d := e.d
	err = changeNoted(ctx, d, "change of tokens", func() error {
		now := wall()
		all, err := listOn(d, d.conn, "tokens", nil, scanToken)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(all, func(o store.Token) bool { return bytes.Equal(o.Hash, j.Hash) })
		switch {
		// an earlier call has joined, and its answer was lost
		case i >= 0 && all[i].Invite == j.Invite && all[i].Name == j.Name && all[i].Revoked == 0:
			_, err = d.stmts.renewToken.row().int(all[i].ID).int(-1).int(int64(now + j.Life)).exec(d.conn)
		case i >= 0 || store.Joinable(all, &j, now) != nil:
			return store.NotJoined(all, &j, now)
		default:
			err = e.join(all, &j, now)
		}
		if err != nil {
			return err
		}
		made, err := listOn(d, d.conn, "tokenByHash", []any{j.Hash}, scanToken)
		if err == nil && len(made) == 1 {
			t = made[0]
		}
		return err
	})
	if err != nil {
		return t, fmt.Errorf("join: %w", err)
	}
	return t, nil
}

// join adds the row of a certificate. It replaces a row of the same name that has expired.
func (e rotations) join(all []store.Token, j *store.Joining, now dag.Micros) error {
	d := e.d
	for i := range all {
		if o := &all[i]; o.Name == j.Name && o.Revoked == 0 && o.Replaced == 0 {
			if _, err := d.stmts.revokeToken.row().int(o.ID).int(int64(now)).exec(d.conn); err != nil {
				return err
			}
		}
	}
	if _, err := d.stmts.joinToken.row().int(j.Invite).text(j.Name).blob(j.Hash).int(int64(now)).int(int64(now + j.Life)).exec(d.conn); err != nil {
		return err
	}
	_, err := d.stmts.useInvite.row().int(j.Invite).exec(d.conn)
	return err
}

// EnrollNode implements store.Tokens.
func (e rotations) EnrollNode(ctx context.Context, n store.Enrolling) (t store.Token, err error) {
	d := e.d
	err = d.changeBeside(ctx, "change of tokens", func() error {
		now := wall()
		changed, err := d.stmts.moveNode.row().text(n.Name).blob(n.Hash).int(int64(now + n.Life)).exec(d.conn)
		if err == nil && changed == 0 {
			changed, err = d.stmts.addNode.row().text(n.Name).blob(n.Hash).int(int64(now + n.Life)).int(int64(now)).int(store.TokensMax).exec(d.conn)
		}
		if err != nil {
			return err
		}
		made, err := listOn(d, d.conn, "tokenByHash", []any{n.Hash}, scanToken)
		if err == nil {
			t, err = store.Enrolled(made, &n, changed > 0)
		}
		return err
	})
	return t, err
}

// RenewToken implements store.Tokens.
func (e rotations) RenewToken(ctx context.Context, id int64, life dag.Micros) (t store.Token, err error) {
	d := e.d
	err = changeNoted(ctx, d, "change of tokens", func() error {
		now := wall()
		n, err := d.stmts.renewToken.row().int(id).int(int64(now)).int(int64(now + life)).exec(d.conn)
		if err == nil && n == 0 {
			err = fmt.Errorf("the certificate %d is revoked or has expired: %w", id, store.ErrFenced)
		}
		if err != nil {
			return err
		}
		all, err := listOn(d, d.conn, "tokens", nil, scanToken)
		if i := slices.IndexFunc(all, func(o store.Token) bool { return o.ID == id }); err == nil && i >= 0 {
			t = all[i]
		}
		return err
	})
	return t, err
}
