package postgres

import (
	"context"
	"fmt"

	"skein.dev/skein/internal/store"
)

// rotations implements RotateToken for the database that embeds it.
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
