package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	api "skein.dev/skein/api/v1"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/line"
	"skein.dev/skein/internal/store"
)

const (
	// believed is for how long an answer of the store counts: a token that is revoked is refused
	// by every node after that time.
	believed = 5 * time.Second
	// lookMax bounds how long a request waits for an answer of the store.
	lookMax = 5 * time.Second
	// knownMax bounds the answers that are kept.
	knownMax = 10_000
	// looksMax bounds the looks into the store at one time, whoever calls.
	looksMax = 8
)

// Store is where tokens are.
type Store interface {
	TokenByHash(ctx context.Context, hash []byte) (store.Token, error)
	Clock(ctx context.Context) (dag.Micros, error)
}

// Config says how a gate is kept.
type Config struct {
	Store Store
	// Required: every call must show a token; otherwise only one that is shown counts.
	Required bool
	// Kind is the kind of token that a path asks for; "": none, the route is open or has a proof of
	// its own.
	Kind func(path string) string
	Log  *slog.Logger
}

// Gate lets calls through that may be made.
type Gate struct {
	cfg   Config
	looks chan struct{}

	mu    sync.Mutex // protects following fields
	known map[string]answer
}

// answer is what the store said of a hash.
type answer struct {
	token store.Token
	ok    bool
	until time.Time
}

// New makes a gate.
func New(cfg Config) *Gate {
	return &Gate{cfg: cfg, looks: make(chan struct{}, looksMax), known: map[string]answer{}}
}

type holderKey struct{}

// Holder is the token that a call showed; false: none.
func Holder(ctx context.Context) (store.Token, bool) {
	t, ok := ctx.Value(holderKey{}).(store.Token)
	return t, ok
}

// Wrap puts the gate in front of a handler.
func (g *Gate) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind := g.cfg.Kind(r.URL.Path)
		if kind == "" {
			next.ServeHTTP(w, r)
			return
		}
		shown := r.Header.Get("Authorization")
		if shown == "" {
			if g.cfg.Required {
				refuse(w, r, http.StatusUnauthorized, "this node asks for a token: send it as Authorization: Bearer TOKEN "+
					"(--token-file or SKEIN_API_TOKEN); whoever runs the cluster makes one with skein token create --kind "+kind)
				return
			}
			next.ServeHTTP(w, r)
			return
		}
		t, err := g.check(r.Context(), shown)
		switch {
		case errors.Is(err, errRefused):
			refuse(w, r, http.StatusUnauthorized, err.Error())
		case err != nil:
			w.Header().Set("Retry-After", "2")
			refuse(w, r, http.StatusServiceUnavailable, "whether the token is right cannot be looked up now")
		case t.Kind != kind:
			refuse(w, r, http.StatusForbidden, fmt.Sprintf("the token %s is of the kind %s, this route asks for %s", t.Name, t.Kind, kind))
		default:
			ctx := context.WithValue(r.Context(), holderKey{}, t)
			if r.Header.Get("Upgrade") != "" { // it stays for longer than a call
				ctx = line.Checked(ctx, func() error { return g.still(r.Context(), shown) })
			}
			next.ServeHTTP(w, r.WithContext(ctx))
		}
	})
}

var errRefused = errors.New("the token is refused")

// still refuses a call on a line whose token is no more what it was when the line began.
func (g *Gate) still(ctx context.Context, shown string) error {
	if _, err := g.check(ctx, shown); err != nil {
		return &line.Refused{Code: line.Unauthenticated, Text: err.Error()}
	}
	return nil
}

// check finds the token that a call shows.
func (g *Gate) check(ctx context.Context, shown string) (store.Token, error) {
	scheme, secret, _ := strings.Cut(shown, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return store.Token{}, fmt.Errorf("%w: send it as Authorization: Bearer TOKEN", errRefused)
	}
	hash, err := HashSecret(strings.TrimSpace(secret))
	if err != nil {
		return store.Token{}, fmt.Errorf("%w: %w", errRefused, err)
	}
	a, err := g.look(ctx, hash)
	if err != nil {
		return store.Token{}, err
	}
	if !a.ok {
		return store.Token{}, fmt.Errorf("%w: it is unknown, revoked or expired", errRefused)
	}
	return a.token, nil
}

// look asks the store, unless it has answered a moment ago.
func (g *Gate) look(ctx context.Context, hash []byte) (answer, error) {
	key := string(hash)
	g.mu.Lock()
	a, known := g.known[key]
	g.mu.Unlock()
	if known && time.Now().Before(a.until) {
		return a, nil
	}
	ctx, done := context.WithTimeout(ctx, lookMax)
	defer done()
	select {
	case g.looks <- struct{}{}:
		defer func() { <-g.looks }()
	case <-ctx.Done():
		return g.doubtful(a, known, ctx.Err())
	}
	t, err := g.cfg.Store.TokenByHash(ctx, hash)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return g.doubtful(a, known, err)
	}
	found := err == nil
	now, err := g.cfg.Store.Clock(ctx)
	if err != nil {
		return g.doubtful(a, known, err)
	}
	a = answer{token: t, ok: found && t.Valid(now), until: time.Now().Add(believed)}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.known) >= knownMax {
		clear(g.known)
	}
	g.known[key] = a
	return a, nil
}

// doubtful answers while the store does not: who was right a moment ago goes on, so that an
// outage of the database ends no worker's attempts.
func (g *Gate) doubtful(a answer, known bool, err error) (answer, error) {
	if known && a.ok {
		return a, nil
	}
	if g.cfg.Log != nil {
		g.cfg.Log.Warn("tokens cannot be looked up", "err", err)
	}
	return answer{}, err
}

func refuse(w http.ResponseWriter, r *http.Request, status int, detail string) {
	p := api.Problem{Type: api.ProblemUnauthenticated, Title: "No valid token", Status: status, Detail: detail, Instance: r.URL.Path}
	switch status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Bearer realm="skein"`)
	case http.StatusForbidden:
		p.Type, p.Title = api.ProblemForbidden, "Not for this token"
	default:
		p.Type, p.Title = api.ProblemUnavailable, "The node cannot do it now"
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(p) // a client that does not read its answer is not our problem
}
