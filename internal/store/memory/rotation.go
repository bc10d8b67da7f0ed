package memory

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// rotations implements RotateToken, JoinToken and RenewToken for the store that embeds it.
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

// JoinToken implements store.Tokens.
func (e rotations) JoinToken(ctx context.Context, j store.Joining) (t store.Token, err error) {
	s := e.s
	err = s.write(ctx, Op{Kind: TokensBefore}, TokensAfter, s.noted(ctx, func() error {
		now := s.clock()
		i := slices.IndexFunc(s.tokens, func(o store.Token) bool { return bytes.Equal(o.Hash, j.Hash) })
		switch {
		// an earlier call has joined, and its answer was lost
		case i >= 0 && s.tokens[i].Invite == j.Invite && s.tokens[i].Name == j.Name && s.tokens[i].Revoked == 0:
			s.tokens[i].Expires = now + j.Life
			t = s.tokens[i]
			return nil
		case i >= 0 || store.Joinable(s.tokens, &j, now) != nil:
			return store.NotJoined(s.tokens, &j, now)
		}
		for i := range s.tokens {
			if o := &s.tokens[i]; o.Name == j.Name && o.Revoked == 0 && o.Replaced == 0 { // the old token has expired
				o.Revoked = now
			}
		}
		of := &s.tokens[slices.IndexFunc(s.tokens, func(o store.Token) bool { return o.ID == j.Invite })]
		of.Used++
		t = *of
		t.ID, t.Kind, t.Name, t.Hash = int64(len(s.tokens)+1), store.TokenCertificate, j.Name, bytes.Clone(j.Hash)
		t.Created, t.Expires, t.Uses, t.Used, t.Invite = now, now+j.Life, 0, 0, j.Invite
		s.tokens = append(s.tokens, t)
		return nil
	}))
	return t, err
}

// EnrollNode implements store.Tokens.
func (e rotations) EnrollNode(ctx context.Context, n store.Enrolling) (t store.Token, err error) {
	s := e.s
	err = s.write(ctx, Op{Kind: TokensBefore}, TokensAfter, func() error {
		now := s.clock()
		if slices.ContainsFunc(s.tokens, func(o store.Token) bool { return bytes.Equal(o.Hash, n.Hash) && o.Revoked != 0 }) {
			return fmt.Errorf("the certificate of the %s is revoked: %w", n.Name, store.ErrFenced)
		}
		i := slices.IndexFunc(s.tokens, func(o store.Token) bool {
			return o.Kind == store.TokenCertificate && o.Name == n.Name && o.Revoked == 0
		})
		if i < 0 {
			if len(s.tokens) >= store.TokensMax {
				return fmt.Errorf("there are already %d tokens, invitations and certificates, which is the limit: %w", store.TokensMax, store.ErrRefused)
			}
			t, i = n.NodeToken(), len(s.tokens)
			t.ID, t.Created = int64(i+1), now
			s.tokens = append(s.tokens, t)
		}
		s.tokens[i].Hash, s.tokens[i].Expires = bytes.Clone(n.Hash), now+n.Life
		t = s.tokens[i]
		return nil
	})
	return t, err
}

// RenewToken implements store.Tokens.
func (e rotations) RenewToken(ctx context.Context, id int64, life dag.Micros) (t store.Token, err error) {
	s := e.s
	err = s.write(ctx, Op{Kind: TokensBefore}, TokensAfter, s.noted(ctx, func() error {
		now := s.clock()
		i := slices.IndexFunc(s.tokens, func(o store.Token) bool { return o.ID == id && o.Kind == store.TokenCertificate && o.Valid(now) })
		if i < 0 {
			return fmt.Errorf("the certificate %d is revoked or has expired: %w", id, store.ErrFenced)
		}
		s.tokens[i].Expires = now + life
		t = s.tokens[i]
		return nil
	}))
	return t, err
}
