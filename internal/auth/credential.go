package auth

import (
	"context"
	"fmt"
	"net/http"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/store"
)

// credential is the credential of a call, with the token that represents it.
type credential struct {
	token   store.Token
	session *Session // nil if the call showed no session
	proven  *Proven  // nil if the call showed no valid certificate
	// again finds the token again. It is used for calls that last.
	again func(context.Context) (store.Token, error)
}

// shown finds the credential of a call. A certificate takes precedence over a token, and a token over a
// session. A certificate is accepted only on routes of workers and nodes, and a session only on routes for
// people.
func (g *Gate) shown(r *http.Request, v access.Verb, over func() bool) (c credential, err error) {
	bearer := r.Header.Get("Authorization")
	if chain := g.chainOf(r, v); len(chain) > 0 {
		if c, err = g.byCertificate(r.Context(), chain, over); err == nil || bearer == "" {
			return c, err
		}
		c = credential{}
	}
	if bearer != "" {
		c.token, err = g.check(r.Context(), bearer, over)
		c.again = func(ctx context.Context) (store.Token, error) { return g.check(ctx, bearer, nil) }
		return c, err
	}
	cookie := ""
	if g.cfg.Sessions != nil && sessionable(v) {
		cookie = cookieOf(r, secure(r))
	}
	if cookie == "" {
		return c, fmt.Errorf("%w: %s", errMissing, g.remedy(v))
	}
	is, t, err := g.cfg.Sessions.find(r.Context(), cookie, over)
	c.token, c.session = t, &is
	if err != nil {
		return c, err
	}
	if err := ownPage(r); err != nil {
		return c, err
	}
	g.cfg.Sessions.note(r.Context(), &is)
	c.again = func(ctx context.Context) (store.Token, error) {
		_, t, err := g.cfg.Sessions.find(ctx, cookie, nil)
		return t, err
	}
	return c, nil
}
