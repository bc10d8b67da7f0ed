package auth_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/memory"
)

// keyed is a store with a key of its own.
type keyed struct {
	*memory.Store
	key string
}

func (k *keyed) NodeKey(context.Context) ([]byte, error) { return []byte(k.key), nil }

func (k *keyed) Clock(ctx context.Context) (dag.Micros, error) { return k.Store.Clock(ctx) }

// TestPassedRequests: if a node passes a request on unchanged, the request is accepted as the caller's own
// for 30 s. If a request comes from outside, all headers of nodes in it have no effect.
func TestPassedRequests(t *testing.T) {
	const body = `{"reason":"x"}`
	for name, c := range map[string]struct {
		change func(r *http.Request)
		key    string // key of the node that passes the request on
		waits  time.Duration
		status int
	}{
		"as it was passed on": {status: 200},
		"after 29 s":          {waits: 29 * time.Second, status: 200},
		"after 31 s":          {waits: 31 * time.Second, status: 401},
		"by another cluster":  {key: "of another cluster", status: 401},
		"another method":      {change: func(r *http.Request) { r.Method = http.MethodPut }, status: 401},
		"another path":        {change: func(r *http.Request) { r.URL.Path = "/runs/2" }, status: 401},
		"another query":       {change: func(r *http.Request) { r.URL.RawQuery = "a=2" }, status: 401},
		"another body":        {change: func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader(`{"reason":"y"}`)) }, status: 400},
		"no body":             {change: func(r *http.Request) { r.Body, r.ContentLength = http.NoBody, 0 }, status: 401},
		"another kind":        {change: func(r *http.Request) { r.URL.Path = "/internal/x" }, status: 401},
		"twice": {change: func(r *http.Request) {
			r.Header[auth.HeaderPrincipal] = append(r.Header[auth.HeaderPrincipal], r.Header[auth.HeaderPrincipal]...)
		}, status: 401},
		"made up":   {change: func(r *http.Request) { r.Header.Set(auth.HeaderPrincipal, "e30.e30") }, status: 401},
		"empty":     {change: func(r *http.Request) { r.Header.Set(auth.HeaderPrincipal, "") }, status: 401},
		"very long": {change: func(r *http.Request) { r.Header.Set(auth.HeaderPrincipal, strings.Repeat("a", 1<<20)) }, status: 401},
		"cut": {change: func(r *http.Request) {
			said := r.Header.Get(auth.HeaderPrincipal)
			r.Header.Set(auth.HeaderPrincipal, said[:len(said)-1])
		}, status: 401},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memory.New(memory.Options{})
				secret, _ := add(t, s, store.TokenAPI, "ann", 0)
				channel := func(key string) *auth.KeyChannel {
					c, err := auth.NewKeyChannel(t.Context(), &keyed{s, key})
					if err != nil {
						t.Fatal(err)
					}
					return c
				}
				key := "of this cluster"
				there := channel(key)
				if c.key != "" {
					key = c.key
				}
				here := channel(key)
				var passed *http.Request
				first := auth.New(auth.Config{Store: s, Required: true, Route: routeOf, Channel: here}).Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					passed = httptest.NewRequest(r.Method, r.URL.String(), strings.NewReader(body)).WithContext(r.Context())
					if err := here.Vouch(passed, []byte(body)); err != nil {
						t.Error(err)
					}
				}))
				r := httptest.NewRequest(http.MethodPost, "/runs?a=1", strings.NewReader(body))
				r.Header.Set("Authorization", "Bearer "+secret)
				first.ServeHTTP(httptest.NewRecorder(), r)
				r = passed.WithContext(t.Context())
				r.Header.Set("X-Skein-Here", "true")
				r.Header.Set("X-Skein-Signature", "of a webhook")
				if c.change != nil {
					c.change(r)
				}
				time.Sleep(c.waits)
				served := ""
				second := auth.New(auth.Config{Store: s, Required: true, Route: routeOf, Channel: there}).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if _, err := io.ReadAll(r.Body); err != nil {
						w.WriteHeader(http.StatusInternalServerError)
						return
					}
					holder, _ := auth.Holder(r.Context())
					served = holder.Name
				}))
				w := httptest.NewRecorder()
				second.ServeHTTP(w, r)
				if w.Code != c.status || served != map[bool]string{true: "ann"}[c.status == 200] {
					t.Errorf("%d in the name of %q: %s", w.Code, served, w.Body)
				}
			})
		})
	}
}

// TestHeadersOfNodes: the gate drops headers of nodes from requests that come from outside.
func TestHeadersOfNodes(t *testing.T) {
	s := memory.New(memory.Options{})
	c, err := auth.NewKeyChannel(t.Context(), &keyed{s, "of this cluster"})
	if err != nil {
		t.Fatal(err)
	}
	for name, channel := range map[string]auth.Channel{"alone": nil, "cluster": c} {
		r := httptest.NewRequest(http.MethodGet, "/hook", nil)
		for _, h := range []string{auth.HeaderPrincipal, "X-Skein-Here", "X-Skein-User", "X-Skein-Anything", "X-Skein-Signature", "Skein-Claimed-By"} {
			r.Header.Set(h, "x")
		}
		auth.New(auth.Config{Store: s, Route: routeOf, Channel: channel}).Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if len(r.Header) != 2 || r.Header.Get("X-Skein-Signature") == "" || r.Header.Get("Skein-Claimed-By") == "" {
				t.Errorf("%s: %v", name, r.Header)
			}
		})).ServeHTTP(httptest.NewRecorder(), r)
	}
}

// TestSignedCalls: a node proves its name in addition to its token. The proof holds only for the call that
// the node has signed, and proves nothing to a node of another cluster. The token alone proves no name, and
// the proof alone is no credential.
func TestSignedCalls(t *testing.T) {
	s := memory.New(memory.Options{})
	secret, _ := add(t, s, store.TokenNode, "shared", 0)
	channel := func(key string) *auth.KeyChannel {
		c, err := auth.NewKeyChannel(t.Context(), &keyed{s, key})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	here, other := channel("of this cluster"), channel("of another cluster")
	gate := auth.New(auth.Config{Store: s, Required: true, Route: routeOf, Channel: here})
	for name, c := range map[string]struct {
		sign   func(r *http.Request) error
		bare   bool // without the token
		status int
		node   string
	}{
		"as it was signed":   {sign: func(r *http.Request) error { return here.Sign(r, "n1", []byte("{}")) }, status: 200, node: "n1"},
		"without a token":    {sign: func(r *http.Request) error { return here.Sign(r, "n1", []byte("{}")) }, bare: true, status: 401},
		"not signed":         {sign: func(*http.Request) error { return nil }, status: 200},
		"by another cluster": {sign: func(r *http.Request) error { return other.Sign(r, "n1", []byte("{}")) }, status: 200},
		"another body":       {sign: func(r *http.Request) error { return here.Sign(r, "n1", []byte("[]")) }, status: 400},
		"vouched by a node without a token": {sign: func(r *http.Request) error { return here.Vouch(auth.AsNode(r, "n1"), []byte("{}")) }, bare: true,
			status: 200, node: "n1"},
		"for another purpose": {sign: func(r *http.Request) error {
			err := here.Sign(r, "n1", []byte("{}"))
			r.Header[auth.HeaderPrincipal] = r.Header[auth.HeaderNode]
			delete(r.Header, auth.HeaderNode)
			return err
		}, bare: true, status: 401},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodPost, "/internal/x", strings.NewReader("{}"))
			if !c.bare {
				r.Header.Set("Authorization", "Bearer "+secret)
			}
			if err := c.sign(r); err != nil {
				t.Fatal(err)
			}
			node, w := "", httptest.NewRecorder()
			gate.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if _, err := io.ReadAll(r.Body); err != nil {
					w.WriteHeader(http.StatusInternalServerError)
					return
				}
				node = auth.NodeOf(r.Context())
			})).ServeHTTP(w, r)
			if w.Code != c.status || node != c.node {
				t.Errorf("%d, of the node %q: %s", w.Code, node, w.Body)
			}
		})
	}
}
