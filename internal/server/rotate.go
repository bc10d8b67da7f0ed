package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/people"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
	api "skein.dev/skein/sdk/api/v1"
)

// graceDefault and graceMax are the default and the longest time for which a replaced token stays valid.
const (
	graceDefault = 24 * time.Hour
	graceMax     = 7 * 24 * time.Hour
)

type rotateTokenIn struct {
	ID   int64 `path:"id" minimum:"1"`
	Body *api.RotateRequest
}

// rotateToken makes the successor of a token, and sets the end of the old token.
func rotateToken(s *Server) func(ctx context.Context, in *rotateTokenIn) (*jsonOut[api.RotatedToken], error) {
	return func(ctx context.Context, in *rotateTokenIn) (*jsonOut[api.RotatedToken], error) {
		grace, err := graceOf(in.Body)
		if err != nil {
			return nil, err
		}
		now, err := s.engine.Clock(ctx)
		if err != nil {
			return nil, err
		}
		all, err := s.cfg.Tokens.TokenList(ctx)
		if err != nil {
			return nil, unread(err)
		}
		rights, err := s.cfg.Access.Rights(ctx)
		if err != nil {
			return nil, unread(err)
		}
		old, err := replaceable(all, &rights, in.ID, now)
		if err != nil {
			return nil, err
		}
		secret := auth.NewSecret(old.Kind)
		r, err := succeeds(ctx, old, all, &rights, now)
		if err != nil {
			return nil, err
		}
		if r.Parent != 0 {
			if err := allKnowScopes(ctx, s); err != nil {
				return nil, err
			}
		}
		if _, held := auth.Holder(ctx); held { // a program on the machine of the node needs no token
			if err := people.StaysRotated(ctx, registryOf(s), &r); err != nil {
				return nil, refusedChange(err)
			}
		}
		if r.Hash, err = auth.HashSecret(secret); err != nil {
			return nil, err
		}
		r.Grace = dag.Micros(grace.Microseconds())
		made, err := s.cfg.Tokens.RotateToken(ctx, r)
		switch {
		case errors.Is(err, store.ErrFenced):
			return nil, fmt.Errorf("%w: the token %s (%d), or the parent of its successor, was replaced or revoked meanwhile, or has expired; "+
				"skein token list shows it", errkind.ErrConflict, old.Name, old.ID)
		case errors.Is(err, store.ErrRefused):
			return nil, fmt.Errorf("%w: there are already %d tokens, invitations and certificates, which is the limit; revoke those that are no longer needed: Skein deletes them after retention_records_age", errkind.ErrConflict, store.TokensMax)
		case err != nil:
			return nil, unread(err)
		}
		was := *old
		if was.Replaced, was.Expires = made.Created, earlier(old.Expires, made.Created+r.Grace); was.Expires == 0 {
			was.Expires = made.Created + r.Grace
		}
		out := api.RotatedToken{NewToken: api.NewToken{Token: tokenOf(&made, &rights, now), Secret: secret}, Old: tokenOf(&was, &rights, max(now, made.Created))}
		family := store.FamilyOf(all)
		out.ExpiresAt, out.Old.ExpiresAt, out.Old.ReplacedBy = endOf(family, &made), endOf(family, &was), &made.ID
		return &jsonOut[api.RotatedToken]{Body: out}, nil
	}
}

// graceOf reads the time for which the old token stays valid.
func graceOf(req *api.RotateRequest) (time.Duration, error) {
	if req == nil || req.Grace == "" {
		return graceDefault, nil
	}
	d, err := workflow.ParseDuration(req.Grace)
	if err != nil || d < 0 || time.Duration(d) > graceMax {
		return 0, invalid("grace: %.40q is not a duration from 0s to 7d", req.Grace)
	}
	return time.Duration(d), nil
}

// replaceable finds a token that can be replaced: it is valid and has no successor yet.
func replaceable(all []store.Token, rights *store.Rights, id int64, now dag.Micros) (*store.Token, error) {
	i := slices.IndexFunc(all, func(t store.Token) bool { return t.ID == id })
	if i < 0 {
		return nil, notFound("there is no token %d", id)
	}
	t, ended := &all[i], auth.Ended(all, rights, now)
	if t.Kind == store.TokenInvite || t.Kind == store.TokenCertificate {
		return nil, fail(http.StatusConflict, api.ProblemConflict, "%s is an invitation or a certificate, which cannot be rotated: a worker renews its certificate itself; for another invitation: skein worker invite", t.Name)
	}
	stateOf := func(id int64) string {
		j := slices.IndexFunc(all, func(o store.Token) bool { return o.ID == id })
		if ended[id] {
			return tokenEnded
		}
		return tokenState(&all[j], now)
	}
	remedy := func(id int64) string {
		switch stateOf(id) {
		case tokenValid:
			return "rotate that one"
		case tokenRevoked:
			return "make a new one: skein token create"
		}
		return fmt.Sprintf("revoke it, for its name is taken, and make a new one: skein token revoke %d, skein token create", id)
	}
	state := stateOf(id)
	switch next := successor(all, id); {
	case next != 0:
		last := next // the last of several successors may still be valid
		for n := next; n != 0; n = successor(all, n) {
			last = n
		}
		return nil, fail(http.StatusConflict, api.ProblemConflict, "the token %s (%d) is replaced by the token %d, which is %s; %s", t.Name, id, last,
			stateOf(last), remedy(last))
	case t.Replaced != 0:
		return nil, fail(http.StatusConflict, api.ProblemConflict, "the token %s (%d) was replaced by a token that is deleted; make a new one: skein token create", t.Name, id)
	case state != tokenValid:
		return nil, fail(http.StatusConflict, api.ProblemConflict, "the token %s (%d) is %s and no longer valid; %s", t.Name, id, state, remedy(id))
	}
	return t, nil
}

// successor returns the token that replaces another one, or 0 if there is none.
func successor(all []store.Token, id int64) int64 {
	for i := range all {
		if all[i].Replaces == id {
			return all[i].ID
		}
	}
	return 0
}

// succeeds returns the rotation of a token by the caller. The caller learns the new secret, so it needs the
// same rights as for making the token. Like every token that the caller makes, the new token ends with the
// caller's token, too. So no caller can keep a right by replacing a token.
func succeeds(ctx context.Context, old *store.Token, all []store.Token, rights *store.Rights, now dag.Micros) (store.Rotation, error) {
	r := store.Rotation{Token: old.ID, Expires: old.Expires, By: userOf(ctx), Maker: old.Maker, Parent: old.Parent}
	by, held := auth.Holder(ctx)
	if !held { // the caller is a program on the machine of the node
		return r, nil
	}
	is, err := made(ctx, old, &by, rights)
	if err != nil {
		return r, err
	}
	family := store.FamilyOf(all)
	r.Maker, r.Expires = is.Maker, earlier(old.Expires, by.Expires)
	if by.Kind == store.TokenAPI {
		if r.Parent, err = above(family, old, &by, now); err != nil {
			return r, err
		}
		r.Expires = earlier(r.Expires, family.End(family[by.ID]))
	}
	is.Parent, is.Expires = r.Parent, r.Expires
	if old.Kind == store.TokenAPI && auth.Widens(all, rights, &is, old, now) {
		return r, fail(http.StatusForbidden, api.ProblemForbidden, "%s made the token %s and has fewer rights than you, so a token that you make would have more rights; "+
			"make a new one: skein token create", old.By, old.Name)
	}
	return r, nil
}

// made returns the token that the caller would get if it made a token like the given one.
func made(ctx context.Context, like, by *store.Token, rights *store.Rights) (store.Token, error) {
	req := api.TokenRequest{Kind: like.Kind, Name: like.Name}
	is := store.WholeToken(like.Kind, like.Name, nil)
	if like.Kind == store.TokenAPI {
		if like.Verbs != store.All {
			req.Verbs = strings.Fields(like.Verbs)
		}
		if like.Namespaces != store.All {
			req.Namespaces = strings.Fields(like.Namespaces)
		}
		i := slices.IndexFunc(rights.Principals, func(p store.Principal) bool { return p.ID == like.Principal })
		if i < 0 {
			return is, fail(http.StatusConflict, api.ProblemConflict, "the user or service of the token %s was deleted", like.Name)
		}
		req.For = rights.Principals[i].Name
	}
	if err := ownerOf(ctx, &is, &req, rights); err != nil {
		return is, err
	}
	if like.Verbs == store.All && is.Verbs != store.All {
		return is, fail(http.StatusForbidden, api.ProblemForbidden, "your token has only the verbs %s, and the token %s has all verbs of its user", by.Verbs, like.Name)
	}
	is.Verbs, is.Namespaces = like.Verbs, like.Namespaces
	return is, nil
}

// above returns the parent of the successor that the holder of a token makes. It refuses a caller whose token
// was replaced. Otherwise two tokens could replace each other, and both successors would end with them.
func above(f store.Family, old, by *store.Token, now dag.Micros) (parent int64, err error) {
	switch {
	case !f.Stays(by.ID, now):
		return 0, fail(http.StatusConflict, api.ProblemConflict, "your token, or a token with which it was made, was replaced or has ended, so the new token would be invalid; "+
			"call with its successor, or sign in")
	case by.ID == old.ID || f.IsAbove(old.ID, by):
		return 0, fail(http.StatusForbidden, api.ProblemForbidden, "the new token would end together with the token %s that it replaces, because it is made with that token; "+
			"sign in, or call with another token", old.Name)
	case f.IsAbove(by.ID, old):
		return old.Parent, nil
	case old.Parent == 0 || f.IsAbove(old.Parent, by):
		return by.ID, shallow(f, by)
	}
	return 0, fail(http.StatusForbidden, api.ProblemForbidden, "the token %[2]s was made with the token %[1]d and not with yours; rotate it with that token, or sign in", old.Parent, old.Name)
}

// shallow returns an error if the caller's token already has the largest number of ancestors.
func shallow(f store.Family, by *store.Token) error {
	if line, _ := f.Line(by); len(line) > store.ParentsMax {
		return fail(http.StatusForbidden, api.ProblemForbidden, "your token is at the end of a chain of %d tokens that made each other, the longest that is allowed; sign in, or use an earlier token of the chain", store.ParentsMax)
	}
	return nil
}

// earlier returns the earlier one of two ends. 0 means that there is no end.
func earlier(a, b dag.Micros) dag.Micros {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
