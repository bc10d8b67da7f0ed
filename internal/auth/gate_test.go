package auth_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/memory"
	"skein.dev/skein/sdk/shared/line"
)

// away is a store that can be out of reach.
type away struct {
	*memory.Store
	err   error
	reads atomic.Int64
}

func (a *away) TokenList(ctx context.Context) ([]store.Token, error) {
	a.reads.Add(1)
	if a.err != nil {
		return nil, a.err
	}
	return a.Store.TokenList(ctx)
}

// bodyMax is the limit of the routes of these tests.
const bodyMax = 1 << 20

func routeOf(r *http.Request) auth.Route {
	switch path := r.URL.Path; {
	case path == "/livez":
		return auth.Route{Verb: access.Public}
	case path == "/hook":
		return auth.Route{Verb: access.Public, BodyMax: bodyMax}
	case strings.HasPrefix(path, "/internal/"):
		return auth.Route{Verb: access.NodeCall, BodyMax: bodyMax}
	case path == "/none":
		return auth.Route{Verb: access.RunRead}
	}
	return auth.Route{Verb: access.RunRead, BodyMax: bodyMax}
}

func add(t *testing.T, s store.Tokens, kind, name string, expires dag.Micros) (string, store.Token) {
	t.Helper()
	secret := auth.NewSecret(kind)
	hash, err := auth.HashSecret(secret)
	if err != nil {
		t.Fatal(err)
	}
	row := store.WholeToken(kind, name, hash)
	row.Expires = expires
	row, err = s.AddToken(t.Context(), row)
	if err != nil {
		t.Fatal(err)
	}
	return secret, row
}

func TestGate(t *testing.T) {
	s := &away{Store: memory.New(memory.Options{})}
	who := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		holder, _ := auth.Holder(r.Context())
		_, _ = io.WriteString(w, "hello "+holder.Name)
	})
	people, _ := add(t, s, store.TokenAPI, "ann", 0)
	node, _ := add(t, s, store.TokenNode, "n1", 0)
	old, _ := add(t, s, store.TokenAPI, "old", 1)
	gone, row := add(t, s, store.TokenAPI, "gone", 0)
	if err := s.RevokeToken(t.Context(), row.ID); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, path, shown string
		required          bool
		status            int
		says              string
	}{
		{"nobody where nobody need be", "/api", "", false, 200, "hello "},
		{"nobody", "/api", "", true, 401, "skein token create --kind api"},
		{"nobody at an open route", "/livez", "", true, 200, "hello "},
		{"somebody", "/api", "Bearer " + people, true, 200, "hello ann"},
		{"in small letters", "/api", "bearer " + people, true, 200, "hello ann"},
		{"a node", "/internal/x", "Bearer " + node, true, 200, "hello n1"},
		{"a node where people call", "/api", "Bearer " + node, true, 403, "of the kind node"},
		{"people where nodes call", "/internal/x", "Bearer " + people, true, 403, "of the kind api"},
		{"expired", "/api", "Bearer " + old, true, 401, "expired"},
		{"revoked", "/api", "Bearer " + gone, true, 401, "revoked"},
		{"unknown", "/api", "Bearer " + auth.NewSecret("api"), true, 401, "unknown"},
		{"cut", "/api", "Bearer " + people[:len(people)-1], true, 401, "copy the whole token"},
		{"mistyped", "/api", "Bearer " + strings.Replace(people, "_api_", "_apj_", 1) + "x", true, 401, "copy the whole token"},
		{"another scheme", "/api", "Basic " + people, true, 401, "Bearer TOKEN"},
		{"wrong although nobody need be", "/api", "Bearer nonsense", false, 401, "not a token"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := auth.New(auth.Config{Store: s, Required: c.required, Route: routeOf})
			r := httptest.NewRequest(http.MethodGet, c.path, nil)
			if c.shown != "" {
				r.Header.Set("Authorization", c.shown)
			}
			w := httptest.NewRecorder()
			g.Wrap(who).ServeHTTP(w, r)
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.says) {
				t.Errorf("%d: %s", w.Code, w.Body)
			}
			if (w.Header().Get("WWW-Authenticate") != "") != (c.status == 401) {
				t.Errorf("WWW-Authenticate: %q", w.Header().Get("WWW-Authenticate"))
			}
			if strings.Contains(w.Body.String(), people) {
				t.Error("the answer repeats the secret")
			}
		})
	}
}

// TestRevokedOnALine checks that the connection of a line may last longer than its call, but is refused after
// its token was revoked.
func TestRevokedOnALine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Options{})
		secret, row := add(t, s, store.TokenAPI, "ann", 0)
		checks := func(upgrade string) context.Context {
			ctx := context.Background()
			r := httptest.NewRequest(http.MethodGet, "/api", nil)
			r.Header.Set("Authorization", "Bearer "+secret)
			r.Header.Set("Upgrade", upgrade)
			g := auth.New(auth.Config{Store: s, Required: true, Route: routeOf})
			g.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { ctx = r.Context() })).ServeHTTP(httptest.NewRecorder(), r)
			return ctx
		}
		stays, call := checks(line.Protocol), checks("")
		if err := line.Check(stays); err != nil {
			t.Errorf("a good token: %v", err)
		}
		if err := s.RevokeToken(t.Context(), row.ID); err != nil {
			t.Fatal(err)
		}
		// This is a sleep on the clock of the bubble. A token stays valid for less than this
		// time without a new answer of the store.
		time.Sleep(5 * time.Second)
		var refused *line.Refused
		if err := line.Check(stays); !errors.As(err, &refused) || refused.Code != line.Unauthenticated || !strings.Contains(refused.Text, "revoked") {
			t.Errorf("a revoked token: %v", err)
		}
		if err := line.Check(call); err != nil {
			t.Errorf("a call that is over is looked at: %v", err)
		}
	})
}

// TestLostRight: a call that lasts ends within 5 s after its token has lost a right. It continues while
// other rights change.
func TestLostRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Options{})
		secret, _ := add(t, s, store.TokenAPI, "ann", 0)
		r := httptest.NewRequest(http.MethodGet, "/api", nil)
		r.Header.Set("Authorization", "Bearer "+secret)
		g := auth.New(auth.Config{Store: s, Required: true, Route: routeOf})
		ended := make(chan struct{})
		go g.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			close(ended)
		})).ServeHTTP(httptest.NewRecorder(), r)
		change := func(c store.RightsChange) {
			is, err := s.RightsRevision(t.Context())
			if err == nil {
				_, err = s.ChangeRights(t.Context(), is, c)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		over := func() bool {
			time.Sleep(5 * time.Second) // on the clock of the bubble
			synctest.Wait()
			select {
			case <-ended:
				return true
			default:
				return false
			}
		}
		change(store.RightsChange{Bind: []store.Binding{{Subject: store.FirstService, Role: "viewer", Namespace: "web"}}})
		if over() {
			t.Fatal("a call ended although its token has all its rights")
		}
		change(store.RightsChange{Unbind: []store.Binding{{Subject: store.FirstService, Role: store.FirstServiceRole, Namespace: store.All}}})
		if !over() {
			t.Fatal("a call goes on although its token has lost rights")
		}
	})
}

// TestStoreAway: while the store does not answer, calls with a known token continue. Other calls get an
// error that says why.
func TestStoreAway(t *testing.T) {
	s := &away{Store: memory.New(memory.Options{})}
	secret, _ := add(t, s, store.TokenAPI, "ann", 0)
	g := auth.New(auth.Config{Store: s, Required: true, Route: routeOf})
	call := func(secret string) int {
		r := httptest.NewRequest(http.MethodGet, "/api", nil)
		r.Header.Set("Authorization", "Bearer "+secret)
		w := httptest.NewRecorder()
		g.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, r)
		return w.Code
	}
	if got := call(secret); got != 200 {
		t.Fatal(got)
	}
	other, _ := add(t, s, store.TokenAPI, "ben", 0)
	s.err = errors.New("away")
	if got := call(secret); got != 200 {
		t.Errorf("who is known gets %d", got)
	}
	if got := call(other); got != 503 {
		t.Errorf("who is not known gets %d", got)
	}
}
