package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/people"
	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

func (s *Server) tokenRoutes(tokens tag) {
	route(s, tokens.get("/me", "get-me", "Read who you are to this node, and your verbs by namespace"), whoCalls)
	route(s, tokens.get("/tokens", "list-tokens", "List the tokens, including revoked ones"), s.listTokens)
	route(s, tokens.verb("/tokens", "create-token", "Make a token; only this answer has its secret"), s.createToken)
	route(s, tokens.verb("/tokens/{id}:rotate", "rotate-token", "Rotate a token: make its successor with the same rights and name; the old token stays valid for a while"), rotateToken(s))
	route(s, tokens.verb("/tokens/{id}:revoke", "revoke-token", "Revoke a token; every node refuses it within seconds"), s.revokeToken)
}

// whoCalls returns the caller and its rights.
func whoCalls(ctx context.Context, _ *struct{}) (*jsonOut[api.Me], error) {
	p, now := auth.Rights(ctx)
	if p == nil { // the last right of the caller has ended during the call
		return nil, fail(http.StatusForbidden, api.ProblemForbidden, "your token no longer has any rights; ask its maker for a new one")
	}
	me := api.Me{Name: userOf(ctx), Kind: p.Kind.String(), Verbs: map[string][]string{}}
	for ns, verbs := range access.Can(p, now) {
		me.Verbs[ns] = verbs.Names()
	}
	return &jsonOut[api.Me]{Body: me}, nil
}

func (s *Server) listTokens(ctx context.Context, _ *struct{}) (*jsonOut[api.List[api.Token]], error) {
	all, err := s.cfg.Tokens.TokenList(ctx)
	if err != nil {
		return nil, unread(err)
	}
	now, err := s.engine.Clock(ctx)
	if err != nil {
		return nil, err
	}
	rights, err := s.cfg.Access.Rights(ctx)
	if err != nil {
		return nil, unread(err)
	}
	out, ended, family := api.List[api.Token]{Items: make([]api.Token, len(all))}, auth.Ended(all, &rights, now), store.FamilyOf(all)
	for i := range all {
		out.Items[i] = tokenOf(&all[i], &rights, now)
		out.Items[i].ExpiresAt = endOf(family, &all[i])
		if next := successor(all, all[i].ID); next != 0 {
			out.Items[i].ReplacedBy = &next
		}
		if ended[all[i].ID] {
			out.Items[i].State = tokenEnded
		}
	}
	return &jsonOut[api.List[api.Token]]{Body: out}, nil
}

// tokenLife is how long the token of a person or program is valid if its maker chooses nothing else. Tokens
// of workers and nodes do not end by themselves, because each is made once for a machine that keeps running.
const tokenLife = 90 * 24 * time.Hour

type createTokenIn struct {
	Body api.TokenRequest
}

func (s *Server) createToken(ctx context.Context, in *createTokenIn) (*jsonOut[api.NewToken], error) {
	req := &in.Body
	if req.Kind == store.TokenInvite || len(req.Groups) > 0 || req.Slots != 0 || req.Uses != 0 {
		return inviteWorker(ctx, s, req)
	}
	if strings.TrimSpace(req.Name) != req.Name || strings.ContainsFunc(req.Name, func(c rune) bool { return !unicode.IsPrint(c) }) {
		return nil, invalid("the name of a token must be printable text without spaces at its ends")
	}
	if strings.Trim(req.Name, "0123456789") == "" {
		return nil, invalid("the name of a token must not be a number, because commands read a number as an id")
	}
	if reserved(req.Name) || takenPrefix(req.Name) {
		return nil, invalid("the name %s is reserved; choose another one", req.Name)
	}
	now, err := s.engine.Clock(ctx)
	if err != nil {
		return nil, err
	}
	secret := auth.NewSecret(req.Kind)
	hash, err := auth.HashSecret(secret)
	if err != nil {
		return nil, err
	}
	t := store.WholeToken(req.Kind, req.Name, hash)
	t.By = userOf(ctx)
	rights, err := s.cfg.Access.Rights(ctx)
	if err != nil {
		return nil, unread(err)
	}
	if err := ownerOf(ctx, &t, req, &rights); err != nil {
		return nil, err
	}
	by, held := auth.Holder(ctx)
	below := held && by.Kind == store.TokenAPI
	// A node of an earlier format does not know the owner of a token, and gives the token every right. It
	// also does not know the maker of a token, and keeps the token when the maker's token has ended.
	if below || t.Verbs != store.All || t.Namespaces != store.All || t.Kind == store.TokenAPI && t.Principal != store.FirstService {
		if err := allKnowScopes(ctx, s); err != nil {
			return nil, err
		}
	}
	switch {
	case req.Expires != nil && req.NeverExpires:
		return nil, invalid("never_expires and expires_at cannot be combined: send one of them")
	case req.Expires == nil && !req.NeverExpires && t.Kind == store.TokenAPI:
		t.Expires = dag.Micro(now.Time().Add(tokenLife))
	case req.Expires != nil:
		if t.Expires = dag.Micros(req.Expires.UnixMicro()); t.Expires <= now {
			return nil, invalid("expires_at is in the past: the token would never be valid")
		}
	}
	if below {
		end, err := deep(ctx, s.cfg.Tokens, &by)
		if err != nil {
			return nil, err
		}
		t.Parent, t.Expires = by.ID, earlier(t.Expires, end) // a token ends with the token of its maker
	}
	noteAudit(ctx, "", fmt.Sprintf("token %s of the kind %s for %d, verbs %s, namespaces %s", t.Name, t.Kind, t.Principal, t.Verbs, t.Namespaces))
	t, err = s.cfg.Tokens.AddToken(ctx, t)
	switch {
	case errors.As(err, new(*store.QuotaError)):
		return nil, err
	case errors.Is(err, store.ErrRefused):
		return nil, fmt.Errorf("%w: there is already a token %q, or there are %d tokens, invitations and certificates, which is the limit; choose another name, or revoke those that are no longer needed", errkind.ErrConflict, req.Name, store.TokensMax)
	case err != nil:
		return nil, unread(err)
	}
	return &jsonOut[api.NewToken]{Body: api.NewToken{Token: tokenOf(&t, &rights, now), Secret: secret}}, nil
}

// deep returns an error if the caller's token already has the largest number of ancestors. Otherwise it
// returns the latest end that a new token may have.
func deep(ctx context.Context, tokens store.Tokens, by *store.Token) (end dag.Micros, err error) {
	all, err := tokens.TokenList(ctx)
	if err != nil {
		return 0, unread(err)
	}
	f := store.FamilyOf(all)
	return earlier(by.Expires, f.End(f[by.ID])), shallow(f, by)
}

type tokenPath struct {
	ID int64 `path:"id" minimum:"1"`
}

func (s *Server) revokeToken(ctx context.Context, in *tokenPath) (*jsonOut[api.Token], error) {
	if _, held := auth.Holder(ctx); held { // a program on the machine of the node needs no token
		if err := registryOf(s).StaysWithout(ctx, in.ID); err != nil {
			return nil, refusedChange(err)
		}
	}
	with, err := endsWith(ctx, s, in.ID)
	if err != nil {
		return nil, err
	}
	err = s.cfg.Tokens.RevokeToken(ctx, in.ID, with...)
	if errors.Is(err, store.ErrNotFound) {
		return nil, notFound("there is no token %d", in.ID)
	}
	if err != nil {
		return nil, unread(err)
	}
	all, err := s.listTokens(ctx, nil)
	if err != nil {
		return nil, err
	}
	for _, t := range all.Body.Items {
		if t.ID == in.ID {
			return &jsonOut[api.Token]{Body: t}, nil
		}
	}
	return nil, notFound("there is no token %d", in.ID)
}

// ownerOf returns the owner of the rights of a new token. A token for another user acts as that user. So its
// maker needs the verb user.impersonate, and every right of that user. A token must not have the name of a
// user other than its owner, because people recognise users by names.
func ownerOf(ctx context.Context, t *store.Token, req *api.TokenRequest, all *store.Rights) error {
	var to store.Principal
	if req.For != "" {
		var err error
		if to, err = people.Find(all, req.For); err != nil {
			return refusedChange(err)
		}
		if t.Kind != store.TokenAPI {
			return invalid("for: a token of the kind %s cannot belong to a user", t.Kind)
		}
	}
	by, _ := auth.Holder(ctx)
	if by.Maker != 0 && by.Maker != by.Principal && (t.Kind != store.TokenAPI || to.ID != 0 && to.ID != by.Principal) {
		// A token has only one maker. So tokens that this token makes would not end with the rights of its
		// own principal.
		return fail(http.StatusForbidden, api.ProblemForbidden, "another user made your token, so it can make only tokens of the kind api "+
			"for yourself; sign in, or call with a token that you made yourself")
	}
	if to.ID == 0 || to.ID == by.Principal {
		if err := scope(ctx, t, req); err != nil {
			return err
		}
	} else if err := scopeFor(ctx, t, req, all, &to); err != nil {
		return err
	}
	if named, err := people.Find(all, t.Name); err == nil && t.Kind == store.TokenAPI && named.ID != t.Principal {
		return fail(http.StatusConflict, api.ProblemConflict, "%s is a user or service; choose another name, or make the token for it: --for %s", named.Name, named.Name)
	}
	return nil
}

// scopeFor does the same as scope, for a token of another user or service.
func scopeFor(ctx context.Context, t *store.Token, req *api.TokenRequest, all *store.Rights, to *store.Principal) error {
	if to.Kind == store.PrincipalUser {
		if err := may(ctx, access.UserImpersonate, access.Everywhere); err != nil {
			return err
		}
	}
	c := changer(ctx)
	if err := c.Covers(all, to); err != nil {
		return refusedChange(err)
	}
	asked, err := narrowed(t, req)
	if err != nil {
		return err
	}
	t.Principal = to.ID
	if by, held := auth.Holder(ctx); held {
		t.Maker = cmp.Or(by.Maker, by.Principal)
		return within(t, &by, asked.Verbs)
	}
	return nil
}

// within limits the verbs of token t, which token by makes for another principal, to the verbs of by. If the
// request names no verbs, t gets the verbs of by. A restriction of by to namespaces is impossible here,
// because making t needs the verb token.all, which is a verb of the cluster. If a person with a session makes
// t, within limits nothing.
func within(t, by *store.Token, asked access.Verbs) error {
	own := strings.Fields(by.Verbs)
	if by.Kind != store.TokenAPI || slices.Contains(own, store.All) {
		return nil
	}
	verbs, err := access.ParseVerbs(own)
	switch {
	case t.Verbs == store.All:
		t.Verbs = by.Verbs
	case err != nil || !verbs.Covers(asked):
		return fail(http.StatusForbidden, api.ProblemForbidden, "your token has only the verbs %s, and a token that you make with it has no others; "+
			"name some of these", by.Verbs)
	}
	return nil
}

// scope narrows a new API token to the verbs and namespaces that a request names. Its maker must have each of
// these verbs in these namespaces, and the maker's rights bound the token. So no token has a right that its
// maker does not have. Workers and nodes read and change runs of every namespace, so the maker of their
// tokens needs every verb in all namespaces.
func scope(ctx context.Context, t *store.Token, req *api.TokenRequest) error {
	if t.Kind != store.TokenAPI {
		if len(req.Verbs)+len(req.Namespaces) > 0 {
			return invalid("verbs and namespaces narrow tokens of the kind api; one of the kind %s has a single verb", t.Kind)
		}
		p, now := auth.Rights(ctx)
		if err := access.MayGive(p, access.Whole().Verbs, access.Everywhere, now); err != nil {
			return fail(http.StatusForbidden, api.ProblemForbidden, "a token of the kind %s reaches the runs of all namespaces: %s", t.Kind, err)
		}
		if by, held := auth.Holder(ctx); held {
			t.Maker = cmp.Or(by.Maker, by.Principal)
		}
		return nil
	}
	to, err := narrowed(t, req)
	if err != nil {
		return err
	}
	p, now := auth.Rights(ctx)
	for _, ns := range to.Namespaces {
		if err := access.MayGive(p, to.Verbs, ns, now); err != nil {
			return fail(http.StatusForbidden, api.ProblemForbidden, "%s", err)
		}
	}
	if by, held := auth.Holder(ctx); held {
		// if the maker's token itself has a maker, the rights of that maker also bound the new token
		t.Principal, t.Maker = by.Principal, cmp.Or(by.Maker, by.Principal)
	}
	return nil
}

// narrowed narrows a token to the scope that a request names.
func narrowed(t *store.Token, req *api.TokenRequest) (to access.Scope, err error) {
	to = access.Whole()
	if len(req.Verbs) > 0 {
		if to.Verbs, err = access.ParseVerbs(req.Verbs); err != nil {
			return to, invalid("verbs: %s", err)
		}
		t.Verbs = to.Verbs.String()
	}
	if len(req.Namespaces) > 0 {
		to.Namespaces = req.Namespaces
		t.Namespaces = strings.Join(to.Namespaces, " ")
	}
	for _, ns := range to.Namespaces {
		if err := access.CheckNamespace(ns); err != nil {
			return to, invalid("namespaces: %s", err)
		}
	}
	return to, nil
}

// allKnowScopes returns an error while a node of an earlier version is present. Such a node gives all rights
// to every API token, and keeps tokens whose maker's token has ended.
func allKnowScopes(ctx context.Context, s *Server) error {
	info, err := s.engine.Info(ctx)
	if err != nil {
		return err
	}
	if info.Format < info.Known {
		return fail(http.StatusConflict, api.ProblemConflict, "a node of an earlier version is present: it gives all rights to every token of the kind api, "+
			"and ends no token with its maker's token; upgrade all nodes first")
	}
	return nil
}

func tokenOf(t *store.Token, all *store.Rights, now dag.Micros) api.Token {
	out := api.Token{ID: t.ID, Name: t.Name, Kind: t.Kind, State: tokenState(t, now), CreatedAt: api.Time{Time: t.Created.Time()}, CreatedBy: t.By}
	for i := range all.Principals {
		if p := &all.Principals[i]; t.Kind == store.TokenAPI && p.ID == t.Principal {
			out.User = &p.Name
		}
	}
	if t.Kind == store.TokenAPI && t.Verbs != store.All {
		out.Verbs = strings.Fields(t.Verbs)
	}
	out.Node = nodeOf(t)
	if words := strings.Fields(t.Name); out.Node == "" && (t.Kind == store.TokenInvite || t.Kind == store.TokenCertificate) && len(words) > 1 {
		out.Worker, out.Groups, out.Slots, out.Uses, out.Used = words[1], strings.Fields(t.Groups), t.Slots, t.Uses, t.Used
	}
	if t.Kind != store.TokenWorker && t.Kind != store.TokenNode && t.Namespaces != store.All {
		out.Namespaces = strings.Fields(t.Namespaces)
	}
	if t.Expires != 0 {
		out.ExpiresAt = &api.Time{Time: t.Expires.Time()}
	}
	if t.Revoked != 0 {
		out.RevokedAt = &api.Time{Time: t.Revoked.Time()}
	}
	if t.Parent != 0 {
		out.Parent = &t.Parent
	}
	if t.Replaces != 0 {
		out.Replaces = &t.Replaces
	}
	return out
}

// endOf returns the end of a token: its own end, or an earlier end of one of its ancestors.
func endOf(f store.Family, t *store.Token) *api.Time {
	if end := f.End(t); end != 0 {
		return &api.Time{Time: end.Time()}
	}
	return nil
}

// The states of tokens.
const (
	tokenValid   = "valid"
	tokenExpired = "expired"
	tokenRevoked = "revoked"
	tokenEnded   = "ended"
)

// tokenState returns the state of a token according to its own row.
func tokenState(t *store.Token, now dag.Micros) string {
	switch {
	case t.Revoked != 0:
		return tokenRevoked
	case !t.Valid(now):
		return tokenExpired
	}
	return tokenValid
}
