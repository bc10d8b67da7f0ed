package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode"

	api "skein.dev/skein/api/v1"
	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
)

func (s *Server) tokenRoutes(tokens tag) {
	route(s, tokens.get("/me", "get-me", "Read who you are to this node, and your verbs by namespace"), whoCalls)
	route(s, tokens.get("/tokens", "list-tokens", "List the tokens, revoked ones too"), s.listTokens)
	route(s, tokens.verb("/tokens", "create-token", "Make a token; what its holder shows is told once, here"), s.createToken)
	route(s, tokens.verb("/tokens/{id}:revoke", "revoke-token", "End a token; every node refuses it within seconds"), s.revokeToken)
}

// whoCalls says who the caller is and what it may do.
func whoCalls(ctx context.Context, _ *struct{}) (*jsonOut[api.Me], error) {
	p, now := auth.Rights(ctx)
	if p == nil { // its last right ended during the call
		return nil, fail(http.StatusForbidden, api.ProblemForbidden, "your token has no rights any more: ask whoever made it for a new one")
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
	out := api.List[api.Token]{Items: make([]api.Token, len(all))}
	for i := range all {
		out.Items[i] = tokenOf(&all[i], now)
	}
	return &jsonOut[api.List[api.Token]]{Body: out}, nil
}

type createTokenIn struct {
	Body api.TokenRequest
}

func (s *Server) createToken(ctx context.Context, in *createTokenIn) (*jsonOut[api.NewToken], error) {
	req := &in.Body
	if strings.TrimSpace(req.Name) != req.Name || strings.ContainsFunc(req.Name, func(c rune) bool { return !unicode.IsPrint(c) }) {
		return nil, invalid("the name of a token is printable text without spaces around it")
	}
	if reserved(req.Name) {
		return nil, invalid("the name %s is reserved for callers without a token; choose another one", localUser)
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
	if err := scope(ctx, &t, req); err != nil {
		return nil, err
	}
	if t.Verbs != store.All || t.Namespaces != store.All {
		if err := allKnowScopes(ctx, s); err != nil {
			return nil, err
		}
	}
	if req.Expires != nil {
		if t.Expires = dag.Micros(req.Expires.UnixMicro()); t.Expires <= now {
			return nil, invalid("expires_at is in the past: the token would never be valid")
		}
	}
	t, err = s.cfg.Tokens.AddToken(ctx, t)
	switch {
	case errors.Is(err, store.ErrRefused):
		return nil, fmt.Errorf("%w: there is a token %q already, or there are %d; revoke it, or choose another name", engine.ErrConflict, req.Name, store.TokensMax)
	case err != nil:
		return nil, unread(err)
	}
	return &jsonOut[api.NewToken]{Body: api.NewToken{Token: tokenOf(&t, now), Secret: secret}}, nil
}

type tokenPath struct {
	ID int64 `path:"id" minimum:"1"`
}

func (s *Server) revokeToken(ctx context.Context, in *tokenPath) (*jsonOut[api.Token], error) {
	err := s.cfg.Tokens.RevokeToken(ctx, in.ID)
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

// scope narrows a new API token to the verbs and namespaces that a request names. Its maker must have each
// of these verbs there, and the token is bound to the rights of its maker. So no token has a right that
// its maker does not have. Workers and nodes read and change runs of every namespace, so the maker of
// their tokens needs every verb everywhere.
func scope(ctx context.Context, t *store.Token, req *api.TokenRequest) error {
	if t.Kind != store.TokenAPI {
		if len(req.Verbs)+len(req.Namespaces) > 0 {
			return invalid("verbs and namespaces narrow tokens of the kind api; one of the kind %s has a single verb", t.Kind)
		}
		p, now := auth.Rights(ctx)
		if err := access.MayGive(p, access.Whole().Verbs, access.Everywhere, now); err != nil {
			return fail(http.StatusForbidden, api.ProblemForbidden, "a token of the kind %s reaches the runs of all namespaces: %s", t.Kind, err)
		}
		return nil
	}
	verbs, namespaces := access.Whole().Verbs, []string{access.Everywhere}
	if len(req.Verbs) > 0 {
		var err error
		if verbs, err = access.ParseVerbs(req.Verbs); err != nil {
			return invalid("verbs: %s", err)
		}
		t.Verbs = verbs.String()
	}
	if len(req.Namespaces) > 0 {
		namespaces = req.Namespaces
		t.Namespaces = strings.Join(namespaces, " ")
	}
	p, now := auth.Rights(ctx)
	for _, ns := range namespaces {
		if err := access.CheckNamespace(ns); err != nil {
			return invalid("namespaces: %s", err)
		}
		if err := access.MayGive(p, verbs, ns, now); err != nil {
			return fail(http.StatusForbidden, api.ProblemForbidden, "%s", err)
		}
	}
	if by, held := auth.Holder(ctx); held {
		t.Principal, t.Maker = by.Principal, cmp.Or(by.Maker, by.Principal) // the maker's own bound holds for its tokens, too
	}
	return nil
}

// allKnowScopes refuses while a node of an earlier version is there: to it every API token has all rights.
func allKnowScopes(ctx context.Context, s *Server) error {
	info, err := s.engine.Info(ctx)
	if err != nil {
		return err
	}
	if info.Format < info.Known {
		return fail(http.StatusConflict, api.ProblemConflict, "a node of an earlier version is there, to which every token of the kind api has all rights; "+
			"upgrade all nodes first")
	}
	return nil
}

func tokenOf(t *store.Token, now dag.Micros) api.Token {
	out := api.Token{ID: t.ID, Name: t.Name, Kind: t.Kind, State: "valid", CreatedAt: api.Time{Time: t.Created.Time()}, CreatedBy: t.By}
	if t.Kind == store.TokenAPI && t.Verbs != store.All {
		out.Verbs = strings.Fields(t.Verbs)
	}
	if t.Kind == store.TokenAPI && t.Namespaces != store.All {
		out.Namespaces = strings.Fields(t.Namespaces)
	}
	if t.Expires != 0 {
		out.ExpiresAt = &api.Time{Time: t.Expires.Time()}
	}
	if t.Revoked != 0 {
		out.RevokedAt = &api.Time{Time: t.Revoked.Time()}
	}
	switch {
	case t.Revoked != 0:
		out.State = "revoked"
	case !t.Valid(now):
		out.State = "expired"
	}
	return out
}
