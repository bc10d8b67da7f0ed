package memory

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"skein.dev/skein/internal/store"
)

var _ store.Tokens = (*Store)(nil)

// AddToken adds a token.
func (s *Store) AddToken(ctx context.Context, t store.Token) (store.Token, error) {
	err := s.write(ctx, Op{Kind: TokensBefore}, TokensAfter, s.noted(ctx, func() error {
		taken := func(o store.Token) bool {
			return o.Revoked == 0 && o.Replaced == 0 && o.Name == t.Name || bytes.Equal(o.Hash, t.Hash)
		}
		if len(s.tokens) >= store.TokensMax || slices.ContainsFunc(s.tokens, taken) {
			return fmt.Errorf("token %q: it exists, or there are too many: %w", t.Name, store.ErrRefused)
		}
		if err := store.TokenOver(s.namespaces.rows, s.tokens, &t, s.clock()); err != nil {
			return err
		}
		t.ID, t.Created, t.Hash = int64(len(s.tokens)+1), s.clock(), bytes.Clone(t.Hash)
		s.tokens = append(s.tokens, t)
		return nil
	}))
	return t, err
}

// TokenByHash finds a token.
func (s *Store) TokenByHash(ctx context.Context, hash []byte) (t store.Token, err error) {
	err = s.read(ctx, Read, func() error {
		i := slices.IndexFunc(s.tokens, func(o store.Token) bool { return bytes.Equal(o.Hash, hash) })
		if i < 0 {
			return fmt.Errorf("token: %w", store.ErrNotFound)
		}
		t = s.tokens[i]
		return nil
	})
	return t, err
}

// TokenList lists all tokens.
func (s *Store) TokenList(ctx context.Context) (all []store.Token, err error) {
	err = s.read(ctx, Read, func() error {
		all = slices.Clone(s.tokens)
		return nil
	})
	return all, err
}

// RevokeToken ends tokens.
func (s *Store) RevokeToken(ctx context.Context, id int64, more ...int64) error {
	return s.write(ctx, Op{Kind: TokensBefore}, TokensAfter, s.noted(ctx, func() error {
		all := append([]int64{id}, more...)
		for _, id := range all {
			if id < 1 || id > int64(len(s.tokens)) {
				return fmt.Errorf("token %d: %w", id, store.ErrNotFound)
			}
		}
		for _, id := range all {
			if t := &s.tokens[id-1]; t.Revoked == 0 {
				t.Revoked = s.clock()
			}
		}
		return nil
	}))
}
