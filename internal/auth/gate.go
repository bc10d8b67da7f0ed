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

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
	"skein.dev/skein/sdk/shared/line"
)

// Store holds the tokens.
type Store interface {
	TokenList(ctx context.Context) ([]store.Token, error)
	Clock(ctx context.Context) (dag.Micros, error)
	RightsRevision(ctx context.Context) (int64, error)
	Rights(ctx context.Context) (store.Rights, error)
	SessionList(ctx context.Context) ([]store.Session, error)
}

// Route holds what the path of a request determines, before any of its body is read.
type Route struct {
	// Verb is the verb that a caller needs. If it is zero, every call is refused.
	Verb access.Verb
	// BodyMax bounds the body, in bytes. It is 0 if the route takes no body.
	BodyMax int64
}

// Config holds the settings of a gate.
type Config struct {
	Store Store
	// Required is true if every call must show a token. If it is false, a call may come without a token. A
	// token that a call shows must be valid in both cases.
	Required bool
	// Local is the hash of the local token, which the node makes at each start for programs of its user. It
	// is nil if the node has no local token.
	Local []byte
	// Route finds the route of a request.
	Route func(r *http.Request) Route
	// Sessions are accepted by their cookie. If it is nil, no session is accepted.
	Sessions *Sessions
	// Certificates checks the certificates of workers and nodes. If it is nil, no certificate is accepted.
	Certificates Certificates
	// NodesCertified is true if a call of another node is accepted only with the certificate of a node. In
	// that case tokens and the key in the database do not suffice.
	NodesCertified bool
	// Channel checks the proofs in calls that other nodes pass on. It is nil if there are no other nodes.
	Channel Channel
	// Refusals is the number of refusals that an address gets in a second. 0 means the default.
	Refusals int
	// Rates bound the calls of one caller that has shown a credential.
	Rates Rates
	// Others returns the loads of the other present nodes, one for each node; see OthersOf. It is nil if there
	// are no other nodes.
	Others func() []*store.Load
	// PerMinute returns the number of calls a minute for all callers of a namespace together. Only callers
	// with rights in no other namespace count. 0 means that there is no limit. If PerMinute is nil, no
	// namespace has a limit.
	PerMinute func(namespace string) int64
	// StrangerBody bounds the time of a body whose caller has shown no credential. CallerBody bounds that of
	// all other bodies. 0 means the default.
	StrangerBody, CallerBody time.Duration
	// Refused, if not nil, receives each call that is refused because of its credential, with the verb of its
	// route, and the token if the token is known.
	Refused func(r *http.Request, v access.Verb, by *store.Token)
	Log     *slog.Logger
}

// Gate lets allowed calls through, within their bounds.
type Gate struct {
	cfg      Config
	book     *book
	refusals refusals
	rates    rates
	strange  budget // bytes of bodies in flight of callers without a credential
	known    budget // bytes of bodies in flight of all other callers
	refused  atomic.Int64
	watch    watch
}

// New returns a gate.
func New(cfg Config) *Gate {
	g := &Gate{cfg: cfg, book: &book{store: cfg.Store, log: cfg.Log}}
	g.strange.max, g.strange.each, g.known.max = strangerBytesMax, addressBytesMax, callerBytesMax
	g.refusals.from = newCounts()
	g.rates = rates{Rates: cfg.Rates, now: time.Now, calls: map[rated]*bucket{}, spaces: map[string]*bucket{}, open: map[rated]int{}, elsewhere: elsewhere{others: cfg.Others}}
	g.refusals.max = cmp.Or(cfg.Refusals, refusalsMax)
	g.cfg.StrangerBody = cmp.Or(cfg.StrangerBody, StrangerBodyMax)
	g.watch.lost = g.lost
	if cfg.Sessions != nil {
		cfg.Sessions.gate = g
	}
	return g
}

// Refused returns the number of calls that were refused because of their credential.
func (g *Gate) Refused() int64 { return g.refused.Load() }

// BodyBytes returns the number of bytes of bodies in flight.
func (g *Gate) BodyBytes() int64 { return g.strange.used.Load() + g.known.used.Load() }

// Forget makes the gate read the rights again. Call it when the database has gone back.
func (g *Gate) Forget() { g.book.forget() }

// Holder returns the stored token that a call showed. ok is false if the call showed none.
func Holder(ctx context.Context) (store.Token, bool) {
	if t := holder(ctx); t != nil && t.Kind != kindLocal {
		return *t, true
	}
	return store.Token{}, false
}

// holder returns the token of a call, which may be the local token. It returns nil if there is none.
func holder(ctx context.Context) *store.Token {
	t, _ := ctx.Value(holderKey{}).(*store.Token)
	return t
}

// Wrap puts the gate in front of a handler.
func (g *Gate) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { g.serve(w, r, next) })
}

func (g *Gate) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	a := &answer{ResponseWriter: w, r: r, rc: http.NewResponseController(w)}
	a.conn, _ = r.Context().Value(connKey{}).(*conn)
	_ = a.rc.SetReadDeadline(time.Time{}) // the server's deadline is for its own answers; an error means that there is no connection
	route := g.cfg.Route(r)
	if r.ContentLength != 0 {
		a.body = &body{ReadCloser: r.Body, rc: a.rc, max: route.BodyMax, lasts: g.cfg.StrangerBody, budget: &g.strange,
			from: addressOf(r.RemoteAddr)}
		defer a.body.done()
	}
	passed := g.passed(a)
	r = a.r
	if passed != nil && passed.Remote != "" {
		r = r.WithContext(r.Context())
		r.RemoteAddr = passed.Remote // the address from which the caller called the other node
		a.r = r
	}
	c, held, ok := g.admit(a, route, passed)
	if !ok {
		return
	}
	if g.uncertified(a.r, &c, route.Verb, passed != nil) {
		a.refuse(http.StatusForbidden, api.ProblemForbidden, errUncertified)
		return
	}
	if held && passed == nil && g.rates.over(&c) { // only the node that the caller called counts the call
		a.refuse(http.StatusTooManyRequests, api.ProblemBusy, "you make more calls per second than this node accepts from one caller; try again in 1 s")
		return
	}
	if held && passed == nil {
		if over := g.spaceFull(&c.token); over != nil {
			a.refuse(http.StatusTooManyRequests, api.ProblemQuota, over.Error())
			return
		}
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
	case held && passed != nil && passed.Token.Kind == c.token.Kind: // the node that the caller called ends the call when the token ends
		a.r = r.WithContext(g.callOf(r.Context(), &c))
	case held:
		ctx, cancel := context.WithCancelCause(r.Context())
		defer cancel(nil)
		k := g.callOf(ctx, &c)
		k.cancel = cancel
		g.watch.begin(k)
		defer g.watch.end(k)
		if ctx = k; r.Header.Get("Upgrade") != "" { // the connection lasts longer than the call
			ctx = stillHeld(r.Context(), k)
		}
		a.r = r.WithContext(ctx)
	}
	if !held && route.Verb != access.Public {
		a.r = withoutToken(a.r)
	}
	next.ServeHTTP(a, a.r)
	a.end()
}

// passed returns the caller for whom another node passes a call on. If the call comes from outside, it
// returns nil and removes the headers that are valid only between nodes. If a node has signed the call, the
// context of the call has the node's name.
func (g *Gate) passed(a *answer) *Principal {
	if g.cfg.Channel != nil && a.r.Header[HeaderPrincipal] != nil {
		if p, ok := g.cfg.Channel.Passed(a.r); ok && a.expects(&p) {
			return &p
		}
	}
	if g.cfg.Channel != nil && a.r.Header[HeaderNode] != nil {
		if p, ok := g.cfg.Channel.Signed(a.r); ok && a.expects(&p) {
			a.r = a.r.WithContext(context.WithValue(a.r.Context(), signerKey{}, p.Token.Name))
		}
	}
	dropOutside(a.r.Header)
	return nil
}

// expects makes the body of a call fail if it differs from the one in a proof. It reports whether the call
// can still be the proven one.
func (a *answer) expects(p *Principal) bool {
	if a.body == nil {
		empty := sha256.Sum256(nil)
		return p.fits(empty[:])
	}
	a.body.passed = p
	return true
}

// signerKey is the key of a context for the name of the node that has signed the call.
type signerKey struct{}

// takes limits the body of a call. It refuses a body that is larger than its route allows.
func (g *Gate) takes(a *answer, route Route) bool {
	switch {
	case a.body == nil:
	case route.BodyMax == 0:
		a.r.Body = http.NoBody // no handler reads the body
	case a.r.ContentLength > route.BodyMax:
		a.refuse(http.StatusRequestEntityTooLarge, api.ProblemTooLarge, tooLarge(route.BodyMax))
		return false
	default:
		a.r.Body = a.body
	}
	return true
}

// admit finds the credential of a call. It refuses the call if the credential lacks the verb of the route.
func (g *Gate) admit(a *answer, route Route, passed *Principal) (c credential, held, ok bool) {
	switch {
	case route.Verb == access.Public:
		return c, false, true
	case passed != nil && passed.Token.Kind != "" && g.vouched(a.r.Context(), &passed.Token, route.Verb):
		c = credential{token: passed.Token}
		if chain := g.chainOf(a.r, route.Verb); len(chain) > 0 { // the certificate of the connection also proves the name of the node
			if is, _, err := g.proven(a.r.Context(), chain); err == nil && is.Node != "" {
				c.proven = &is
			}
		}
		return c, true, true
	}
	from := addressOf(a.r.RemoteAddr)
	c, err := g.shown(a.r, route.Verb, func() bool { return g.refusals.over(from) })
	none := errors.Is(err, errMissing) || c.session != nil && errors.Is(err, errRefused)
	if none && !g.cfg.Required && access.Decide(localCaller, route.Verb, access.Everywhere, 0) {
		return credential{}, false, true
	}
	if err == nil && g.allows(&c.token, route.Verb) {
		return c, true, true
	}
	if err == nil {
		err = fmt.Errorf("%w: %s", errKind, lacks(&c.token, route.Verb))
	}
	if g.turnAway(a, from, err) && g.cfg.Refused != nil {
		g.cfg.Refused(a.r, route.Verb, &c.token)
	}
	return c, false, false
}

// remedy returns the sentences that say how a caller without a token gets one.
func (g *Gate) remedy(v access.Verb) string {
	if g.cfg.Local != nil {
		return "this node asks every caller for a token, also on loopback. If you are the user who runs the node, commands find the token by themselves: " +
			"use skein api METHOD PATH in place of curl, or send the output of skein token local as Authorization: Bearer TOKEN. Another user needs a token " +
			"of its own, in --token-file or SKEIN_API_TOKEN: " + makes(v)
	}
	return "this node asks for a token: send it as Authorization: Bearer TOKEN (--token-file or SKEIN_API_TOKEN); " +
		"the operator of the cluster makes one with " + makes(v)
}

// makes returns the command that makes a credential for a verb.
func makes(v access.Verb) string {
	if v == access.WorkerJoin {
		return "skein worker invite"
	}
	return "skein token create --kind " + kindFor(v)
}

// turnAway refuses a call. It reports whether the credential is the reason. Otherwise a bound is the reason.
func (g *Gate) turnAway(a *answer, from addressPrefix, err error) bool {
	g.refused.Add(1)
	counted := errors.Is(err, errMissing) || errors.Is(err, errRefused) || errors.Is(err, errKind)
	switch {
	case errors.Is(err, errStrangers):
		a.refuse(http.StatusTooManyRequests, api.ProblemBusy, err.Error())
		return false
	case errors.Is(err, errOften), counted && g.refusals.over(from):
		a.refuse(http.StatusTooManyRequests, api.ProblemBusy, "too many calls from this address were refused; try again in 1 s")
		return false
	case errors.Is(err, errForeign):
		a.refuse(http.StatusForbidden, api.ProblemForeignOrigin, textOf(err, errForeign))
		return true
	case errors.Is(err, errMedia):
		a.refuse(http.StatusUnsupportedMediaType, api.ProblemMediaType, textOf(err, errMedia))
		return false
	case errors.Is(err, errKind):
		a.refuse(http.StatusForbidden, api.ProblemForbidden, textOf(err, errKind))
	case counted:
		a.refuse(http.StatusUnauthorized, api.ProblemUnauthenticated, textOf(err, errMissing))
	default:
		a.refuse(http.StatusServiceUnavailable, api.ProblemUnavailable, "the node cannot read the tokens now, so it cannot check yours; try again")
	}
	if counted {
		g.refusals.add(from)
	}
	return counted
}

var (
	errRefused = errors.New("the token is refused")
	errMissing = errors.New("no token")
	errKind    = errors.New("the token has the wrong kind for this call")
	errOften   = errors.New("too many refusals")
)

// textOf returns the text of an error without the kind in front of it.
func textOf(err, kind error) string { return strings.TrimPrefix(err.Error(), kind.Error()+": ") }

// lacks returns the reason why a token does not give a verb in any namespace.
func lacks(t *store.Token, v access.Verb) string {
	if t.Kind == kindUser {
		return fmt.Sprintf("%s has the verb %v in no namespace; ask an administrator for a role that has it: %s", t.Name, v, strings.Join(access.Holders(v), ", "))
	}
	if t.Kind != store.TokenAPI || v == access.WorkerCall || v == access.NodeCall || v == access.WorkerJoin {
		return fmt.Sprintf("the token %s is of the kind %s; this route needs the verb %v, which tokens of the kind %s have",
			t.Name, t.Kind, v, kindFor(v))
	}
	return fmt.Sprintf("the token %s has the verb %v in no namespace; ask an administrator for a role that has it: %s", t.Name, v, strings.Join(access.Holders(v), ", "))
}

// vouched reports whether the caller for whom another node passes a call on has a verb. For an API token, it
// uses the rights that this node knows, so a proof never gives more rights than the token.
func (g *Gate) vouched(ctx context.Context, t *store.Token, v access.Verb) bool {
	if t.Kind == store.TokenAPI {
		found, ok, err := g.book.find(ctx, []byte(keyOf(t.ID)))
		if err != nil || !ok || found.Kind != t.Kind || found.Name != t.Name {
			return false
		}
		*t = found
	}
	if t.Kind == kindUser {
		found, ok, err := g.book.find(ctx, []byte(userKeyOf(t.ID)))
		if err != nil || !ok || found.Name != t.Name {
			return false
		}
		*t = found
	}
	return g.allows(t, v)
}

// stillHeld returns the context of a call that opens a long-lived connection (package line). With this
// context, the connection checks its token again after the call has ended.
func stillHeld(request context.Context, k *call) context.Context {
	return line.Checked(k, func() error {
		if _, err := k.again(request); err != nil {
			return &line.Refused{Code: line.Unauthenticated, Text: err.Error()}
		}
		return nil
	})
}

// check finds the token that a call shows. If over is not nil, check calls over before it searches for an
// unknown token.
func (g *Gate) check(ctx context.Context, shown string, over func() bool) (store.Token, error) {
	scheme, secret, _ := strings.Cut(shown, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return store.Token{}, fmt.Errorf("%w: send it as Authorization: Bearer TOKEN", errRefused)
	}
	sum, err := hashSecret(strings.TrimSpace(secret))
	if err != nil {
		return store.Token{}, fmt.Errorf("%w: %w", errRefused, err)
	}
	hash := sum[:]
	if g.cfg.Local != nil && subtle.ConstantTimeCompare(hash, g.cfg.Local) == 1 {
		return localToken, nil
	}
	if over != nil && !g.book.knows(hash) && over() {
		return store.Token{}, errOften
	}
	t, ok, err := g.book.find(ctx, hash)
	if err == nil && !ok {
		err = fmt.Errorf("%w: the token is unknown, revoked or expired", errRefused)
	}
	return t, err
}
