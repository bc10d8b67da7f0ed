package postgres

import (
	"context"
	"fmt"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// rotations implements RotateToken, JoinToken and RenewToken for the database that embeds it.
type rotations struct{ d *DB }

// RotateToken implements store.Tokens.
func (e rotations) RotateToken(ctx context.Context, r store.Rotation) (store.Token, error) {
	lock := query{"lockTokens", nil, nil}
	found, err := e.d.changeToken(ctx, "rotateToken", args{}.int8(r.Token).int8(int64(r.Grace)).blob(r.Hash).int8(int64(r.Expires)).text(r.By).
		int8(r.Maker).int8(r.Parent).int8(store.TokensMax).int4(store.ParentsMax), lock)
	if err == nil && len(found) == 0 {
		var all []store.Token
		if all, err = e.d.TokenList(ctx); err == nil {
			err = store.NotRotated(all, &r)
		}
	}
	if err != nil {
		return store.Token{}, fmt.Errorf("rotate: %w", err)
	}
	return found[0], nil
}

// JoinToken implements store.Tokens.
func (e rotations) JoinToken(ctx context.Context, j store.Joining) (store.Token, error) {
	lock := query{"lockTokens", nil, nil}
	found, err := e.d.changeToken(ctx, "joinToken", args{}.int8(j.Invite).text(j.Name).blob(j.Hash).int8(int64(j.Life)).int8(store.TokensMax).
		int4(store.ParentsMax), lock)
	if err == nil && len(found) == 0 {
		var all []store.Token
		var now dag.Micros
		if all, err = e.d.TokenList(ctx); err == nil {
			now, err = e.d.Clock(ctx)
		}
		if err == nil {
			err = store.NotJoined(all, &j, now)
		}
	}
	if err != nil {
		return store.Token{}, fmt.Errorf("join: %w", err)
	}
	return found[0], nil
}

// EnrollNode implements store.Tokens. If two processes of one name add the row at once, one of them is
// refused, and finds the row when it tries again.
func (e rotations) EnrollNode(ctx context.Context, n store.Enrolling) (t store.Token, err error) {
	if err := ended(ctx, "enrollNode"); err != nil {
		return t, err
	}
	a := args{}.text(n.Name).blob(n.Hash).int8(int64(n.Life))
	var found []store.Token
	err = e.d.change(ctx, nil, query{"moveNode", a, into(&found, scanToken)})
	if err == nil && len(found) == 0 {
		err = e.d.change(ctx, nil, query{"addNode", a.int8(store.TokensMax), into(&found, scanToken)})
	}
	if err != nil {
		return t, fmt.Errorf("the certificate of the %s: %w", n.Name, err)
	}
	made := found
	if len(found) == 0 {
		if made, err = list(ctx, e.d, query{name: "tokenByHash", args: args{}.blob(n.Hash)}, scanToken); err != nil {
			return t, err
		}
	}
	return store.Enrolled(made, &n, len(found) > 0)
}

// RenewToken implements store.Tokens.
func (e rotations) RenewToken(ctx context.Context, id int64, life dag.Micros) (store.Token, error) {
	found, err := e.d.changeToken(ctx, "renewToken", args{}.int8(id).int8(int64(life)))
	if err == nil && len(found) == 0 {
		err = store.ErrFenced
	}
	if err != nil {
		return store.Token{}, fmt.Errorf("the certificate %d is revoked or has expired: %w", id, err)
	}
	return found[0], nil
}
