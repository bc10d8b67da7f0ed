package postgres

import (
	"context"
	"fmt"
	"slices"

	"skein.dev/skein/internal/store"
)

var _ store.Tokens = (*DB)(nil)

// AddToken implements store.Tokens.
func (d *DB) AddToken(ctx context.Context, t store.Token) (store.Token, error) {
	if err := ended(ctx, "insertToken"); err != nil {
		return t, err
	}
	var found []store.Token
	insert := args{}.text(t.Kind).text(t.Name).blob(t.Hash).int8(int64(t.Expires)).text(t.By).int8(store.TokensMax).
		int8(t.Principal).text(t.Verbs).text(t.Namespaces).int8(t.Maker).int8(t.Parent).text(t.Groups).int4(t.Slots).int4(t.Uses)
	err := d.change(ctx, nil, notedQuery(ctx, query{"insertToken", insert, into(&found, scanToken)}), query{name: "withinTokens", args: args{}.text(t.Namespaces)})
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("there are already %d tokens, invitations and certificates, which is the limit: %w", store.TokensMax, store.ErrRefused)
	}
	if err != nil {
		return t, fmt.Errorf("token %q: %w", t.Name, err)
	}
	return found[0], nil
}

// TokenByHash implements store.Tokens.
func (d *DB) TokenByHash(ctx context.Context, hash []byte) (store.Token, error) {
	return first(ctx, d, query{"tokenByHash", args{}.blob(hash), nil}, scanToken)
}

// TokenList implements store.Tokens.
func (d *DB) TokenList(ctx context.Context) ([]store.Token, error) {
	return list(ctx, d, query{name: "tokens"}, scanToken)
}

// RevokeToken implements store.Tokens.
func (d *DB) RevokeToken(ctx context.Context, id int64, more ...int64) error {
	all := append([]int64{id}, more...)
	slices.Sort(all)
	all = slices.Compact(all)
	found, err := d.changeToken(ctx, "revokeToken", args{}.array(int8s(all)))
	if err == nil && len(found) == 0 {
		err = store.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("token %d: %w", id, err)
	}
	return nil
}

// changeToken runs a statement that changes tokens, after other statements in the same transaction. It
// returns the changed tokens.
func (d *DB) changeToken(ctx context.Context, name string, a args, before ...query) (found []store.Token, err error) {
	if err := ended(ctx, name); err != nil {
		return nil, err
	}
	err = d.change(ctx, nil, append(before, notedQuery(ctx, query{name, a, into(&found, scanToken)}))...)
	return found, err
}

func scanToken(r *row, t *store.Token) error {
	t.ID, t.Kind, t.Name, t.Hash = r.int(), r.text(), r.text(), r.blob()
	t.Created, t.Expires, t.Revoked, t.By = r.micros(), r.micros(), r.micros(), r.text()
	t.Principal, t.Verbs, t.Namespaces, t.Maker = r.int(), r.text(), r.text(), r.int()
	t.Parent, t.Replaces, t.Replaced = r.int(), r.int(), r.micros()
	t.Groups, t.Slots, t.Uses, t.Used, t.Invite = r.text(), int32(r.int()), int32(r.int()), int32(r.int()), r.int()
	return r.damaged("token %d", t.ID)
}
