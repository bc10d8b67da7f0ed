package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/identity"
	"skein.dev/skein/internal/people"
	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

// The routes on which people are sent to an identity provider and come back.
const (
	loginPath    = "/auth/{name}/login"
	callbackPath = "/auth/{name}/callback"
	logoutPath   = "/auth/{name}/logout"
)

const (
	// arrivesMax bounds the number of people for whom a provider is asked at the same time. arriveMax bounds
	// the time for each of them.
	arrivesMax = 16
	arriveMax  = 25 * time.Second
)

// arrivals are the routes of people who sign in by an identity provider. Each provider has its own bound of
// concurrent requests. So a provider that hangs does not block the others.
type arrivals struct {
	s        *Server
	registry *people.Registry
	places   map[string]places // provider → the bound on its requests
	refusals *refusals
}

func arrivalRoutes(s *Server) {
	a := arrivals{s, registryOf(s), map[string]places{}, &refusals{log: s.log}}
	for _, p := range s.cfg.Providers {
		a.places[p.Name()] = make(places, arrivesMax)
	}
	outside(s, loginPath, a.answered(a.login))
	outside(s, callbackPath, auditing(s, access.RowOf(http.MethodGet, callbackPath), "sign-in-by-provider", a.answered(a.callback)))
	s.adapter.bodies[http.MethodPost+" "+logoutPath] = identity.LogoutBytesMax
	outsideBy(s, http.MethodPost, logoutPath, auditing(s, access.RowOf(http.MethodPost, logoutPath), "sign-out-by-provider", a.answered(a.logout)))
}

func providerRoutes(s *Server, sessions tag) {
	op := sessions.get("/identity-providers", "list-identity-providers", "List the identity providers by which people can sign in")
	route(s, op, func(context.Context, *struct{}) (*jsonOut[api.List[api.IdentityProvider]], error) {
		all := make([]api.IdentityProvider, len(s.cfg.Providers))
		for i, p := range s.cfg.Providers {
			all[i] = api.IdentityProvider{Name: p.Name(), Login: basePathOf(s) + "/auth/" + p.Name() + "/login"}
		}
		return list(all, ""), nil
	})
}

// basePathOf returns the path under which browsers reach the server.
func basePathOf(s *Server) string {
	if s.cfg.UI == nil {
		return ""
	}
	return s.cfg.UI.BasePath
}

// arriving is a request of a person who signs in, with the provider that the request names.
type arriving struct {
	*http.Request
	provider *identity.Provider
	secure   bool   // whether the browser uses TLS
	redirect string // the address to which the provider sends the browser back
}

// answered finds the provider of a request and bounds the cost of the request. If the request fails, it
// answers with a page.
func (a arrivals) answered(do func(w http.ResponseWriter, r *arriving) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := a.take(w, r, do)
		if err == nil {
			return
		}
		var f *failure
		if !errors.As(failed(err), &f) {
			f = internal()
		}
		if !strings.Contains(r.Header.Get("Accept"), "text/html") {
			f.write(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(f.Status)
		var page markup
		page.put(failedPage, f.Detail, f.Code, basePathOf(a.s)+"/")
		_, _ = io.WriteString(w, page.String()) // an error means that the client is gone
	}
}

const failedPage = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Not signed in – Skein</title></head>
<body><h1>You are not signed in</h1><p>%s.</p><p>Code: <code>%s</code></p><p><a href="%s">Back to the sign-in form</a></p></body></html>
`

func (a arrivals) take(w http.ResponseWriter, r *http.Request, do func(w http.ResponseWriter, r *arriving) error) error {
	name := r.PathValue("name")
	is := arriving{secure: auth.Secure(r.TLS != nil, r.Header.Get("X-Forwarded-Proto"))}
	for _, p := range a.s.cfg.Providers {
		if p.Name() == name {
			is.provider = p
		}
	}
	switch {
	case is.provider == nil || a.s.cfg.Sessions == nil:
		return notFound("this server has no identity provider %.40q", name)
	case a.s.cfg.Sessions.Over(r.RemoteAddr):
		return tooOften("too many calls from this address were refused; try again in 1 s", time.Second)
	}
	base, err := publicURLOf(a.s, r, is.secure)
	if err != nil {
		return err
	}
	is.redirect = base + "/auth/" + name + "/callback"
	if err := a.places[name].enter("people are signing in by " + name); err != nil {
		return err
	}
	defer a.places[name].leave()
	ctx, cancel := context.WithTimeout(r.Context(), arriveMax)
	defer cancel()
	is.Request = r.WithContext(ctx)
	err = do(w, &is)
	var refused *identity.Refusal
	if errors.As(err, &refused) && refused.Kind != identity.Away {
		a.s.cfg.Sessions.Refuse(r.RemoteAddr)
	}
	if errors.As(err, &refused) && refused.Kind != identity.Stale && !refused.Told || errors.Is(err, people.ErrName) || errors.Is(err, people.ErrDisabled) {
		a.refusals.tell(name, r.RemoteAddr, err)
	}
	return arrivalFailed(err)
}

// refusalsMax bounds the lines about refused sign-ins in one minute of the log, because strangers can cause
// them.
const refusalsMax = 30

// refusals writes refused sign-ins to the log.
type refusals struct {
	log *slog.Logger

	mu      sync.Mutex // protects following fields
	since   time.Time  // begin of the present minute
	n, left int        // numbers of the present minute: log lines, and refusals without a line
}

// tell writes a line, unless the minute already has refusalsMax of them. The next line says how many refusals
// have no line.
func (f *refusals) tell(provider, address string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.since) >= time.Minute {
		f.since, f.n = time.Now(), 0
	}
	if f.n++; f.n > refusalsMax {
		f.left++
		return
	}
	f.log.Warn("a sign-in by an identity provider was refused", "code", "sign_in_refused", "provider", provider, "address", address,
		"text", err, "err", errors.Unwrap(err), "left_out", f.left)
	f.left = 0
}

// publicURLOf returns the address by which the browser of a request reaches the server. It uses the host of
// the request only if that host is checked, and only with the port of this node. Otherwise the provider could
// be made to send people to another address, such as a program of another user on this machine.
func publicURLOf(s *Server, r *http.Request, secure bool) (string, error) {
	switch {
	case s.cfg.PublicURL != "":
		return s.cfg.PublicURL + basePathOf(s), nil
	case s.guard.any || !s.guard.ours(r.Host) || portOf(r.Host, secure) != portOf(s.cfg.Listen, secure):
		return "", fail(http.StatusServiceUnavailable, api.ProblemSignInAway, "the server does not know the address by which browsers reach it; its operator sets public_url")
	case secure:
		return "https://" + r.Host + basePathOf(s), nil
	}
	return "http://" + r.Host + basePathOf(s), nil
}

// portOf returns the port of an address. Without a port it returns the default port of the scheme.
func portOf(address string, secure bool) string {
	if _, port, err := net.SplitHostPort(address); err == nil && port != "" {
		return port
	}
	if secure {
		return "443"
	}
	return "80"
}

// login sends a browser to the provider. If the request comes from a page of another site, login sends the
// browser to the first page instead. Another site must not sign a person in under another name, or end the
// person's session.
func (a arrivals) login(w http.ResponseWriter, r *arriving) error {
	if site := siteOf(r.Request); site == "cross-site" || site == "same-site" {
		http.Redirect(w, r.Request, basePathOf(a.s)+"/", http.StatusSeeOther)
		return nil
	}
	to, cookie, err := r.provider.Begin(r.Context(), r.redirect, pathOfPage(r.URL.Query().Get("return")))
	if err != nil {
		return err
	}
	w.Header().Add("Set-Cookie", auth.ArrivalCookie(cookie, r.secure))
	http.Redirect(w, r.Request, to, http.StatusSeeOther)
	return nil
}

// callback opens a session for the person who comes back from the provider.
func (a arrivals) callback(w http.ResponseWriter, r *arriving) error {
	cookie := auth.ArrivalOf(r.Request, r.secure)
	w.Header().Add("Set-Cookie", auth.ArrivalCookie("", r.secure)) // whatever the result is, the cookie is valid only once
	found, back, err := r.provider.Finish(r.Context(), cookie, r.redirect, r.URL.Query())
	if err != nil {
		return err
	}
	who, err := arrive(r.Context(), a.s, a.registry, &found)
	if err != nil {
		return err
	}
	sessions := a.s.cfg.Sessions
	secret, _, err := sessions.ByUser(r.Context(), &who, auth.Place{Remote: r.RemoteAddr, Agent: r.UserAgent(), Origin: found.Session})
	if err != nil {
		return signInFailed(err)
	}
	if was, shown := sessions.CookieOf(r.Context(), r.Header, r.secure); shown {
		// Ending the earlier session is part of the sign-in. If it fails, that session ends at its usual time.
		_ = sessions.End(store.WithAudit(r.Context(), nil), &was)
	}
	a.s.log.Info("a person has signed in by an identity provider", "code", "signed_in", "provider", r.provider.Name(), "user", who.Name, "address", r.RemoteAddr)
	w.Header().Add("Set-Cookie", auth.SessionCookie(secret, r.secure))
	http.Redirect(w, r.Request, basePathOf(a.s)+pathOfPage(back), http.StatusSeeOther)
	return nil
}

// logout ends the session that has ended at the provider, or all sessions of a person whom the provider has
// signed out (OpenID Connect Back-Channel Logout 1.0). It answers 400 to a token that is not valid.
func (a arrivals) logout(w http.ResponseWriter, r *arriving) error {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/x-www-form-urlencoded" {
		return fail(http.StatusUnsupportedMediaType, api.ProblemMediaType, "a logout is a form with logout_token (application/x-www-form-urlencoded)")
	}
	r.Body = http.MaxBytesReader(w, r.Body, identity.LogoutBytesMax)
	if err := r.ParseForm(); err != nil || len(r.PostForm["logout_token"]) != 1 {
		return fail(http.StatusBadRequest, api.ProblemInvalid, "the form has no logout_token, or several, or is too large")
	}
	err := r.provider.Logout(r.Context(), r.PostForm.Get("logout_token"), func(ended identity.Ended) error { return a.signOut(r, ended) })
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

// signOut ends the sessions that have ended at a provider.
func (a arrivals) signOut(r *arriving, is identity.Ended) error {
	principal, known := int64(0), is.Subject == ""
	if !known {
		rights, err := a.s.cfg.Access.Rights(r.Context())
		if err != nil {
			return unread(err)
		}
		i := slices.IndexFunc(rights.Identities, func(o store.Identity) bool {
			return o.Issuer == r.provider.Issuer() && o.Subject == is.Subject
		})
		if known = i >= 0; known {
			principal = rights.Identities[i].Principal
		}
	}
	ended := 0
	if known { // a person who has never signed in has no session to end
		var err error
		if ended, err = a.s.cfg.Sessions.EndOf(r.Context(), principal, is.Session); err != nil {
			return unread(err)
		}
	}
	a.s.log.Info("an identity provider has signed a person out", "code", "signed_out", "provider", r.provider.Name(), "sessions", ended, "address", r.RemoteAddr)
	return nil
}

// pathOfPage returns the path to which a browser is sent after sign-in. This is the path that was asked for,
// if it is a clean path on this server, and otherwise "/".
func pathOfPage(asked string) string {
	u, err := url.Parse(asked)
	odd := func(r rune) bool { return r == '\\' || unicode.IsControl(r) || unicode.IsSpace(r) }
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || !strings.HasPrefix(asked, "/") || strings.HasPrefix(asked, "//") ||
		strings.ContainsFunc(asked, odd) || strings.ContainsFunc(u.Path, odd) || path.Clean(u.Path) != u.Path || access.Reserved(u.Path) {
		return "/"
	}
	to := url.URL{Path: u.Path, RawQuery: u.RawQuery}
	return to.String()
}

// arrivalKinds are the problems of refused sign-ins.
var arrivalKinds = map[identity.Kind]struct {
	status  int
	problem string
}{
	identity.Away:         {http.StatusServiceUnavailable, api.ProblemSignInAway},
	identity.Stale:        {http.StatusBadRequest, api.ProblemSignInStale},
	identity.Denied:       {http.StatusUnauthorized, api.ProblemSignInDenied},
	identity.OtherIssuer:  {http.StatusUnauthorized, api.ProblemSignInIssuer},
	identity.BadToken:     {http.StatusUnauthorized, api.ProblemSignInToken},
	identity.OutsideGroup: {http.StatusForbidden, api.ProblemSignInGroup},
	identity.Weak:         {http.StatusForbidden, api.ProblemSignInWeak},
	identity.BadLogout:    {http.StatusBadRequest, api.ProblemInvalid},
}

// arrivalFailed returns the answer to a sign-in that did not succeed.
func arrivalFailed(err error) error {
	var refused *identity.Refusal
	var answered *failure
	switch {
	case err == nil || errors.As(err, &answered):
		return err
	case errors.As(err, &refused):
		k := arrivalKinds[refused.Kind]
		f := fail(k.status, k.problem, "%s", refused.Text)
		if k.status == http.StatusServiceUnavailable {
			f.header.Set("Retry-After", fmt.Sprint(5))
		}
		return f
	case errors.Is(err, people.ErrDisabled):
		return fail(http.StatusForbidden, api.ProblemSignInDisabled, "%s", err)
	case errors.Is(err, people.ErrName):
		return fail(http.StatusConflict, api.ProblemSignInName, "%s", err)
	}
	return refusedChange(err)
}
