package sqlite

import (
	"context"
	"fmt"

	"skein.dev/skein/internal/store"
)

// rotations implements RotateToken for the database that embeds it.
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
