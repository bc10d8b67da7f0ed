package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/people"
	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

func sessionRoutes(s *Server, sessions tag) {
	in := sessionVerbs{s, newByDirectory(s)}
	signIn := sessions.verb("/session", "sign-in", "Sign in: get a session as a cookie")
	signIn.Description, signIn.MaxBodyBytes = signInDoc, signInBytesMax+1
	route(s, signIn, in.signIn)
	route(s, sessions.get("/session", "get-session", "Read the session of this call: its user and its end"), in.current)
	out := sessions.delete("/session", "sign-out", "Sign out: end the session of this call")
	out.DefaultStatus = http.StatusNoContent
	route(s, out, in.signOut)
	route(s, sessions.verb("/session:code", "create-sign-in-code", "Make a code that opens one session with your rights, within a minute; a session that was opened by a session's code ends with that session"), in.code)
	route(s, sessions.get("/sessions", "list-sessions", "List your sessions; with the verb user.write, the sessions of all users"), in.list)
	end := sessions.delete("/sessions/{id}", "end-session", "End a session; every node refuses it within seconds")
	end.DefaultStatus = http.StatusNoContent
	route(s, end, in.end)
}

const signInDoc = "Show one of: a token, a code, or a user with a password. The answer sets the cookie __Host-skein over TLS, and skein otherwise. " +
	"It counts where people and programs call, for changes only from the page of this server, and neither for workers and nodes nor for /metrics. " +
	"A session ends after 8 hours without use, and after 24 hours."

// signInBytesMax bounds the body of a sign-in, because strangers can send it.
const signInBytesMax = 4 << 10

// sessionVerbs are the operations on sessions.
type sessionVerbs struct {
	s         *Server
	directory *byDirectory // nil if there is no directory
}

// sessions returns the sessions of the node.
func (v sessionVerbs) sessions() (*auth.Sessions, error) {
	if v.s.cfg.Sessions == nil {
		return nil, notFound("this process only reads the database, so it cannot open sessions; send the call to a node")
	}
	return v.s.cfg.Sessions, nil
}

type signInIn struct {
	Forwarded string `header:"X-Forwarded-Proto" hidden:"true"`
	Cookie    string `header:"Cookie" hidden:"true"`
	Agent     string `header:"User-Agent" hidden:"true"`
	Body      api.SignIn
	remote    string
	tls       bool
}

// Resolve implements huma.Resolver.
func (in *signInIn) Resolve(ctx huma.Context) []error {
	in.remote, in.tls = ctx.RemoteAddr(), ctx.TLS() != nil
	return nil
}

type sessionOut struct {
	Cookie string `header:"Set-Cookie"`
	Body   api.Session
}

func (v sessionVerbs) signIn(ctx context.Context, in *signInIn) (*sessionOut, error) {
	all, err := v.sessions()
	if err != nil {
		return nil, err
	}
	secret, is, err := v.open(ctx, all, in)
	if err != nil {
		return nil, signInFailed(err)
	}
	tls := auth.Secure(in.tls, in.Forwarded)
	if was, shown := all.CookieOf(ctx, http.Header{"Cookie": {in.Cookie}}, tls); shown && !is.ChildOf(&was) {
		// The sign-in also ends the earlier session, unless the new one would end with it. If that fails, the
		// earlier session ends at its usual time.
		_ = all.End(store.WithAudit(ctx, nil), &was)
	}
	if is.Local {
		if err := recordLocal(ctx, v.s); err != nil {
			return nil, err
		}
	}
	return &sessionOut{Cookie: auth.SessionCookie(secret, tls), Body: sessionOf(&is, &is)}, nil
}

// recordLocal writes the audit row of a change of a session that is only in memory.
func recordLocal(ctx context.Context, s *Server) error {
	if row := store.AuditIn(ctx); row != nil {
		row.Principal, row.Kind = auth.LocalName, access.Local.String()
	}
	return recordAudit(ctx, s)
}

// open opens a session with the credential in a body, of which there must be exactly one.
func (v sessionVerbs) open(ctx context.Context, all *auth.Sessions, in *signInIn) (string, auth.Session, error) {
	b, p := &in.Body, auth.Place{Remote: in.remote, Agent: in.Agent}
	named := b.User != "" || b.Password != ""
	switch {
	case b.Token != "" && b.Code == "" && !named:
		return all.ByToken(ctx, b.Token, p)
	case b.Code != "" && b.Token == "" && !named:
		return all.ByCode(ctx, b.Code, p)
	case b.User != "" && b.Password != "" && b.Token == "" && b.Code == "":
		if v.s.cfg.Passwords == nil {
			return "", auth.Session{}, people.ErrWrong
		}
		who, err := v.verify(ctx, b.User, b.Password, &p)
		if err != nil {
			return "", auth.Session{}, err
		}
		return all.ByUser(ctx, &who, p)
	}
	return "", auth.Session{}, invalid("give one of: token; code; user and password")
}

// signInFailed returns the answer to a failed sign-in.
func signInFailed(err error) error {
	var often *people.Often
	var f *failure
	switch {
	case errors.As(err, &f):
		return f
	case errors.Is(err, auth.ErrSignIn):
		return fail(http.StatusUnauthorized, api.ProblemUnauthenticated, "%s", auth.SignInText(err))
	case errors.Is(err, people.ErrWrong):
		return fail(http.StatusUnauthorized, api.ProblemUnauthenticated, "%s", err)
	case errors.As(err, &often):
		return tooOften(often.Error(), often.After)
	case errors.Is(err, people.ErrBusy):
		return tooOften(err.Error(), time.Second)
	case auth.IsBusy(err):
		return tooOften("too many calls from this address were refused; try again in 1 s", time.Second)
	case errors.Is(err, store.ErrRefused):
		return tooOften("too many people are signed in; unused sessions end after 8 hours", time.Minute)
	}
	return unread(err)
}

func tooOften(text string, after time.Duration) error {
	return retryAfter(fail(http.StatusTooManyRequests, api.ProblemBusy, "%s", text), after)
}

// current returns the session of a call. A caller that uses a token has no session.
func (v sessionVerbs) current(ctx context.Context, _ *struct{}) (*jsonOut[api.Session], error) {
	is, ok := auth.SessionOf(ctx)
	if !ok {
		return nil, notFound("this call has no session: it was made with a token, or without a credential")
	}
	return &jsonOut[api.Session]{Body: sessionOf(&is, &is)}, nil
}

type signOutIn struct {
	Forwarded string `header:"X-Forwarded-Proto" hidden:"true"`
	tls       bool
}

// Resolve implements huma.Resolver.
func (in *signOutIn) Resolve(ctx huma.Context) []error {
	in.tls = ctx.TLS() != nil
	return nil
}

type signedOut struct {
	Cookie string `header:"Set-Cookie"`
}

func (v sessionVerbs) signOut(ctx context.Context, in *signOutIn) (*signedOut, error) {
	is, ok := auth.SessionOf(ctx)
	if !ok {
		return nil, notFound("this call has no session: it was made with a token, or without a credential")
	}
	if err := v.ended(ctx, &is); err != nil {
		return nil, err
	}
	return &signedOut{Cookie: auth.SessionCookie("", auth.Secure(in.tls, in.Forwarded))}, nil
}

// ended ends a session.
func (v sessionVerbs) ended(ctx context.Context, is *auth.Session) error {
	err := v.s.cfg.Sessions.End(ctx, is)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case err == nil && is.Local:
		return recordLocal(ctx, v.s)
	}
	return unread(err)
}

func (v sessionVerbs) code(ctx context.Context, _ *struct{}) (*jsonOut[api.SignInCode], error) {
	all, err := v.sessions()
	if err != nil {
		return nil, err
	}
	code, err := all.Code(ctx)
	if errors.Is(err, auth.ErrChild) {
		return nil, fail(http.StatusForbidden, api.ProblemForbidden, "%s", err)
	}
	if err != nil {
		return nil, signInFailed(err)
	}
	if _, held := auth.Holder(ctx); !held {
		if err := recordLocal(ctx, v.s); err != nil {
			return nil, err
		}
	}
	return &jsonOut[api.SignInCode]{Body: api.SignInCode{Code: code, ExpiresAt: api.Time{Time: time.Now().UTC().Add(auth.CodeLife)}}}, nil
}

// readable returns the sessions that the caller may read and end.
func (v sessionVerbs) readable(ctx context.Context) ([]auth.Session, error) {
	all, err := v.sessions()
	if err != nil {
		return nil, err
	}
	p, now := auth.Rights(ctx)
	list, err := all.List(ctx, access.Decide(p, access.UserWrite, access.Everywhere, now))
	return list, unread(err)
}

func (v sessionVerbs) list(ctx context.Context, _ *struct{}) (*jsonOut[api.List[api.Session]], error) {
	found, err := v.readable(ctx)
	if err != nil {
		return nil, err
	}
	mine, _ := auth.SessionOf(ctx)
	out := make([]api.Session, len(found))
	for i := range found {
		out[i] = sessionOf(&found[i], &mine)
	}
	return list(out, ""), nil
}

type sessionPath struct {
	ID string `path:"id" maxLength:"40"`
}

func (v sessionVerbs) end(ctx context.Context, in *sessionPath) (*struct{}, error) {
	found, err := v.readable(ctx)
	if err != nil {
		return nil, err
	}
	for i := range found {
		if found[i].ID() != in.ID {
			continue
		}
		return nil, v.ended(ctx, &found[i])
	}
	return nil, notFound("there is no session %s", in.ID)
}

// sessionOf shows a session to the caller whose own session is mine.
func sessionOf(is, mine *auth.Session) api.Session {
	at := func(t dag.Micros) api.Time { return api.Time{Time: t.Time()} }
	return api.Session{ID: is.ID(), User: is.Name, CreatedAt: at(is.Created), UsedAt: at(is.Used), ExpiresAt: at(is.Ends()), EndsAt: at(is.Expires),
		Address: is.Address, Agent: is.Agent, Current: len(is.Hash) > 0 && string(is.Hash) == string(mine.Hash)}
}
