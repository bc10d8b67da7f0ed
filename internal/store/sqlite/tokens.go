package sqlite

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"skein.dev/skein/internal/store"
)

var _ store.Tokens = (*DB)(nil)

// AddToken implements store.Tokens.
func (d *DB) AddToken(ctx context.Context, t store.Token) (store.Token, error) {
	t.Created = wall()
	err := changeNoted(ctx, d, "change of tokens", func() error {
		if err := tokenFits(d, &t); err != nil {
			return err
		}
		n, err := d.stmts.insertToken.row().text(t.Kind).text(t.Name).blob(t.Hash).int(int64(t.Created)).int(int64(t.Expires)).
			text(t.By).int(store.TokensMax).int(t.Principal).text(t.Verbs).text(t.Namespaces).int(t.Maker).int(t.Parent).
			text(t.Groups).int(int64(t.Slots)).int(int64(t.Uses)).exec(d.conn)
		if err == nil && n == 0 {
			err = fmt.Errorf("there are already %d tokens, invitations and certificates, which is the limit: %w", store.TokensMax, store.ErrRefused)
		}
		t.ID = d.conn.LastInsertRowID()
		return err
	})
	return t, err
}

// TokenByHash implements store.Tokens.
func (d *DB) TokenByHash(ctx context.Context, hash []byte) (store.Token, error) {
	return first(d, ctx, "tokenByHash", []any{hash}, scanToken)
}

// TokenList implements store.Tokens.
func (d *DB) TokenList(ctx context.Context) ([]store.Token, error) {
	return list(d, ctx, "tokens", nil, scanToken)
}

// RevokeToken implements store.Tokens.
func (d *DB) RevokeToken(ctx context.Context, id int64, more ...int64) error {
	return changeNoted(ctx, d, "change of tokens", func() error {
		now := int64(wall())
		for _, id := range append([]int64{id}, more...) {
			n, err := d.stmts.revokeToken.row().int(id).int(now).exec(d.conn)
			if err == nil && n == 0 {
				err = fmt.Errorf("token %d: %w", id, store.ErrNotFound)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// changeBeside makes a change that belongs to no shard.
func (d *DB) changeBeside(ctx context.Context, what string, change func() error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w: %w", what, store.ErrUnavailable, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.transact(change)
}

func scanToken(s *sqlite.Stmt, t *store.Token) error {
	c := row{s: s}
	t.ID, t.Kind, t.Name, t.Hash = c.int(), c.text(), c.text(), c.blob()
	t.Created, t.Expires, t.Revoked, t.By = c.micros(), c.micros(), c.micros(), c.text()
	t.Principal, t.Verbs, t.Namespaces, t.Maker = c.int(), c.text(), c.text(), c.int()
	t.Parent, t.Replaces, t.Replaced = c.int(), c.int(), c.micros()
	t.Groups, t.Slots, t.Uses, t.Used, t.Invite = c.text(), int32(c.int()), int32(c.int()), int32(c.int()), c.int()
	return nil
}
