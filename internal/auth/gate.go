package auth

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	api "skein.dev/skein/api/v1"
	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/line"
	"skein.dev/skein/internal/store"
)

// Store is where tokens are.
type Store interface {
	TokenList(ctx context.Context) ([]store.Token, error)
	Clock(ctx context.Context) (dag.Micros, error)
	RightsRevision(ctx context.Context) (int64, error)
	Rights(ctx context.Context) (store.Rights, error)
}

// Route is what is known of a request by its path, before anything of its body is read.
type Route struct {
	// Verb is what a caller needs here. Zero: every call is refused.
	Verb access.Verb
	// BodyMax bounds the body, in bytes; 0: the route takes none.
	BodyMax int64
}

// Config says how a gate is kept.
type Config struct {
	Store Store
	// Required: every call must show a token; otherwise only one that is shown counts.
	Required bool
	// Local is the hash of the token of this start, which programs of the node's user show; nil: there is none.
	Local []byte
	// Route finds the route of a request.
	Route func(r *http.Request) Route
	// Channel proves what other nodes pass on; nil: there are no other nodes.
	Channel Channel
	// Refusals is how many refusals an address gets in a second; 0: the default.
	Refusals int
	// StrangerBody is how long the body of a caller may take that has shown no credential, CallerBody that of
	// another one; 0: the default.
	StrangerBody, CallerBody time.Duration
	Log                      *slog.Logger
}

// Gate lets calls through that are allowed, within their bounds.
type Gate struct {
	cfg      Config
	book     *book
	refusals refusals
	strange  budget // bytes of bodies of callers without a credential
	known    budget // of the others
	refused  atomic.Int64
}

// New makes a gate.
func New(cfg Config) *Gate {
	g := &Gate{cfg: cfg, book: &book{store: cfg.Store, log: cfg.Log}}
	g.strange.max, g.strange.each, g.known.max = strangerBytesMax, addressBytesMax, callerBytesMax
	g.refusals.from = newCounts()
	g.refusals.max = cmp.Or(cfg.Refusals, refusalsMax)
	g.cfg.StrangerBody = cmp.Or(cfg.StrangerBody, StrangerBodyMax)
	return g
}

// Refused returns the number of calls that were refused because of their token.
func (g *Gate) Refused() int64 { return g.refused.Load() }

// BodyBytes is how many bytes of bodies are in flight.
func (g *Gate) BodyBytes() int64 { return g.strange.used.Load() + g.known.used.Load() }

// Forget has the rights be read again. Call it when the database has gone back.
func (g *Gate) Forget() { g.book.forget() }

type holderKey struct{}

// Holder is the token of the store that a call showed; false: none.
func Holder(ctx context.Context) (store.Token, bool) {
	if t, ok := holder(ctx); ok && t.Kind != kindLocal {
		return t, true
	}
	return store.Token{}, false
}

// holder is what a call showed, which may be the token of this start.
func holder(ctx context.Context) (store.Token, bool) {
	t, ok := ctx.Value(holderKey{}).(store.Token)
	return t, ok
}

// Wrap puts the gate in front of a handler.
func (g *Gate) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { g.serve(w, r, next) })
}

func (g *Gate) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	a := &answer{ResponseWriter: w, r: r, rc: http.NewResponseController(w)}
	a.conn, _ = r.Context().Value(connKey{}).(*conn)
	_ = a.rc.SetReadDeadline(time.Time{}) // that of the server is for what it answers itself; there may be no connection
	route := g.cfg.Route(r)
	if r.ContentLength != 0 {
		a.body = &body{ReadCloser: r.Body, rc: a.rc, max: route.BodyMax, lasts: g.cfg.StrangerBody, budget: &g.strange,
			from: addressOf(r.RemoteAddr)}
		defer a.body.done()
	}
	passed := g.passed(a)
	t, held, ok := g.admit(a, route, passed)
	if !ok {
		return
	}
	if route.Verb != access.Public || passed != nil {
		a.admitted = true
		a.conn.trust()
		if a.body != nil {
			a.body.lasts, a.body.budget = cmp.Or(g.cfg.CallerBody, BodyTime(bodyBytes(r, route.BodyMax))), &g.known
		}
	}
	if !g.takes(a, route) {
		return
	}
	switch {
	case held && passed != nil && passed.Token.Kind == t.Kind: // the node that passes it on ends it with its token
		a.r = r.WithContext(g.hold(r.Context(), &t))
	case held:
		ctx, cancel := context.WithCancelCause(g.hold(r.Context(), &t))
		defer cancel(nil)
		stop := g.watch(ctx, cancel, r.Header.Get("Authorization"))
		defer stop()
		if r.Header.Get("Upgrade") != "" { // it stays for longer than a call
			ctx = line.Checked(ctx, func() error { return g.still(r.Context(), r.Header.Get("Authorization")) })
		}
		a.r = r.WithContext(ctx)
	}
	next.ServeHTTP(a, a.r)
	a.end()
}

// passed returns for whom another node passes a call on; nil: it comes from outside. Then headers that count
// only between nodes are dropped.
func (g *Gate) passed(a *answer) *Principal {
	if g.cfg.Channel != nil && a.r.Header[HeaderPrincipal] != nil {
		p, ok := g.cfg.Channel.Passed(a.r)
		if ok && a.body == nil {
			empty := sha256.Sum256(nil)
			ok = p.fits(empty[:])
		}
		if ok {
			if a.body != nil {
				a.body.passed = &p
			}
			return &p
		}
	}
	dropOutside(a.r.Header)
	return nil
}

// takes puts the bounds around the body, and refuses one that is larger than its route allows.
func (g *Gate) takes(a *answer, route Route) bool {
	switch {
	case a.body == nil:
	case route.BodyMax == 0:
		a.r.Body = http.NoBody // no handler reads it
	case a.r.ContentLength > route.BodyMax:
		a.refuse(http.StatusRequestEntityTooLarge, api.ProblemTooLarge, tooLarge(route.BodyMax))
		return false
	default:
		a.r.Body = a.body
	}
	return true
}

// admit finds the token that a call shows, and refuses the call if that is not what its route asks for.
func (g *Gate) admit(a *answer, route Route, passed *Principal) (t store.Token, held, ok bool) {
	switch {
	case route.Verb == access.Public:
		return t, false, true
	case passed != nil && passed.Token.Kind != "" && g.vouched(a.r.Context(), &passed.Token, route.Verb):
		return passed.Token, true, true
	}
	shown := a.r.Header.Get("Authorization")
	from := addressOf(a.r.RemoteAddr)
	if shown == "" && !g.cfg.Required && access.Decide(localCaller, route.Verb, access.Everywhere, 0) {
		return t, false, true
	}
	var err error
	if shown == "" {
		err = fmt.Errorf("%w: %s", errMissing, g.remedy(route.Verb))
	} else {
		t, err = g.check(a.r.Context(), shown, func() bool { return g.refusals.over(from) })
	}
	if err == nil && g.allows(&t, route.Verb) {
		return t, true, true
	}
	if err == nil {
		err = fmt.Errorf("%w: %s", errKind, lacks(&t, route.Verb))
	}
	g.turnAway(a, from, err)
	return t, false, false
}

// remedy says how a caller without a token gets one.
func (g *Gate) remedy(v access.Verb) string {
	if g.cfg.Local != nil {
		return "this node answers only callers that show a token, on loopback too: commands of the user who runs it find it by themselves, " +
			"and skein token local prints it; send it as Authorization: Bearer TOKEN. Other users need one that skein token create --kind " +
			kindFor(v) + " makes (--token-file or SKEIN_API_TOKEN)"
	}
	return "this node asks for a token: send it as Authorization: Bearer TOKEN (--token-file or SKEIN_API_TOKEN); " +
		"the operator of the cluster makes one with skein token create --kind " + kindFor(v)
}

// turnAway refuses a call.
func (g *Gate) turnAway(a *answer, from addressPrefix, err error) {
	g.refused.Add(1)
	counted := errors.Is(err, errMissing) || errors.Is(err, errRefused) || errors.Is(err, errKind)
	switch {
	case errors.Is(err, errStrangers):
		a.refuse(http.StatusTooManyRequests, api.ProblemBusy, err.Error())
		return
	case errors.Is(err, errOften), counted && g.refusals.over(from):
		a.refuse(http.StatusTooManyRequests, api.ProblemBusy, "too many calls from this address were refused; try again in 1 s")
		return
	case errors.Is(err, errKind):
		a.refuse(http.StatusForbidden, api.ProblemForbidden, textOf(err, errKind))
	case counted:
		a.refuse(http.StatusUnauthorized, api.ProblemUnauthenticated, textOf(err, errMissing))
	default:
		a.refuse(http.StatusServiceUnavailable, api.ProblemUnavailable, "the tokens cannot be read now, so the call is not allowed yet; try again")
	}
	if counted {
		g.refusals.add(from)
	}
}

var (
	errRefused = errors.New("the token is refused")
	errMissing = errors.New("no token")
	errKind    = errors.New("another kind of token")
	errOften   = errors.New("too many refusals")
)

// textOf is an error without the kind that it begins with.
func textOf(err, kind error) string { return strings.TrimPrefix(err.Error(), kind.Error()+": ") }

// lacks says why a token does not have a verb anywhere.
func lacks(t *store.Token, v access.Verb) string {
	if t.Kind != store.TokenAPI || v == access.WorkerCall || v == access.NodeCall {
		return fmt.Sprintf("the token %s is of the kind %s; this route needs the verb %v, which tokens of the kind %s have",
			t.Name, t.Kind, v, kindFor(v))
	}
	return fmt.Sprintf("the token %s has the verb %v in no namespace; the roles that have it: %s", t.Name, v, strings.Join(access.Holders(v), ", "))
}

// vouched reports whether the caller for whom another node passes a call on has a verb. The rights of an API
// token are those that this node knows of it, so a proof gives no more than the token itself does here.
func (g *Gate) vouched(ctx context.Context, t *store.Token, v access.Verb) bool {
	if t.Kind == store.TokenAPI {
		found, ok, err := g.book.find(ctx, []byte(keyOf(t.ID)))
		if err != nil || !ok || found.Kind != t.Kind || found.Name != t.Name {
			return false
		}
		*t = found
	}
	return g.allows(t, v)
}

// watch checks the token of a call again for as long as the call lasts, and ends the call when the token has
// been revoked, has expired or has lost a right.
func (g *Gate) watch(ctx context.Context, cancel context.CancelCauseFunc, shown string) (stop func()) {
	var timer atomic.Pointer[time.Timer]
	had := access.Can(Rights(ctx))
	look := func() {
		if ctx.Err() != nil {
			return
		}
		t, err := g.check(ctx, shown, nil)
		if err == nil && access.Lost(had, access.Can(g.book.rightsOf(&t))) {
			err = fmt.Errorf("%w: it has lost a right since the call began; call again", errRefused)
		}
		if errors.Is(err, errRefused) {
			cancel(err)
			return
		}
		timer.Load().Reset(recheckEach)
	}
	first := time.AfterFunc(time.Hour, look)
	timer.Store(first)
	first.Reset(recheckEach)
	return func() { first.Stop() }
}

// still refuses a call on a line whose token is no more what it was when the line began.
func (g *Gate) still(ctx context.Context, shown string) error {
	if _, err := g.check(ctx, shown, nil); err != nil {
		return &line.Refused{Code: line.Unauthenticated, Text: err.Error()}
	}
	return nil
}

// check finds the token that a call shows. over, if not nil, is asked before an unknown token is looked up.
func (g *Gate) check(ctx context.Context, shown string, over func() bool) (store.Token, error) {
	scheme, secret, _ := strings.Cut(shown, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return store.Token{}, fmt.Errorf("%w: send it as Authorization: Bearer TOKEN", errRefused)
	}
	hash, err := HashSecret(strings.TrimSpace(secret))
	if err != nil {
		return store.Token{}, fmt.Errorf("%w: %w", errRefused, err)
	}
	if g.cfg.Local != nil && subtle.ConstantTimeCompare(hash, g.cfg.Local) == 1 {
		return localToken, nil
	}
	if over != nil && !g.book.knows(hash) && over() {
		return store.Token{}, errOften
	}
	t, ok, err := g.book.find(ctx, hash)
	if err == nil && !ok {
		err = fmt.Errorf("%w: it is unknown, revoked or expired", errRefused)
	}
	return t, err
}
