package memory

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"skein.dev/skein/internal/store"
)

// rotations implements RotateToken for the store that embeds it.
type rotations struct{ s *Store }

// RotateToken implements store.Tokens.
func (e rotations) RotateToken(ctx context.Context, r store.Rotation) (t store.Token, err error) {
	s := e.s
	err = s.write(ctx, Op{Kind: TokensBefore}, TokensAfter, s.noted(ctx, func() error {
		i, now := slices.IndexFunc(s.tokens, func(o store.Token) bool { return o.ID == r.Token }), s.clock()
		if i < 0 || s.tokens[i].Replaced != 0 || !s.tokens[i].Valid(now) || len(s.tokens) >= store.TokensMax ||
			r.Parent != 0 && !store.FamilyOf(s.tokens).Stays(r.Parent, now) {
			return store.NotRotated(s.tokens, &r)
		}
		if slices.ContainsFunc(s.tokens, func(o store.Token) bool { return bytes.Equal(o.Hash, r.Hash) }) {
			return fmt.Errorf("there is a token of this secret: %w", store.ErrRefused)
		}
		t = s.tokens[i]
		t.ID, t.Created, t.Hash, t.Expires, t.By = int64(len(s.tokens)+1), now, bytes.Clone(r.Hash), r.Expires, r.By
		t.Maker, t.Parent, t.Replaces = r.Maker, r.Parent, r.Token
		old := &s.tokens[i]
		if old.Replaced = now; old.Expires == 0 || old.Expires > now+r.Grace {
			old.Expires = now + r.Grace
		}
		s.tokens = append(s.tokens, t)
		return nil
	}))
	return t, err
}
