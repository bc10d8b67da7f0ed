package auth_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/memory"
)

// TestRights: a request has the rights and the identity that its gate found, and none without a gate.
func TestRights(t *testing.T) {
	s := memory.New(memory.Options{})
	api, _ := add(t, s, store.TokenAPI, "cfo", 0)
	worker, _ := add(t, s, store.TokenWorker, "w1", 0)
	var may bool
	var is string
	end := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		p, now := auth.Rights(r.Context())
		may, is = access.Decide(p, access.RunRead, "web", now), auth.Identity(r.Context())
	})
	open := auth.New(auth.Config{Store: s, Route: routeOf}).Wrap(end)
	for _, c := range []struct {
		what        string
		door        http.Handler
		path, shows string
		may         bool
		identity    string
	}{
		{"no gate", end, "/runs", "", false, ""},
		{"a token, and no gate", end, "/runs", api, false, ""},
		{"this process", auth.AsLocal(end), "/runs", "", true, ""},
		{"no token, where none is required", open, "/runs", "", true, ""},
		{"a public route", open, "/livez", "", false, ""},
		{"a token named like a person", open, "/runs", api, true, store.FirstServiceName},
		{"a worker", open, "/hook", worker, false, ""},
	} {
		r := httptest.NewRequest(http.MethodGet, c.path, nil)
		if c.shows != "" {
			r.Header.Set("Authorization", "Bearer "+c.shows)
		}
		may, is = !c.may, "?"
		c.door.ServeHTTP(httptest.NewRecorder(), r)
		if may != c.may || is != c.identity {
			t.Errorf("%s: may read %v, is %q; want %v, %q", c.what, may, is, c.may, c.identity)
		}
	}
}

// TestMakersOfWorkers: the token of a worker or node ends with the rights of its maker.
func TestMakersOfWorkers(t *testing.T) {
	s := memory.New(memory.Options{})
	change := func(c store.RightsChange) int64 {
		t.Helper()
		was, err := s.RightsRevision(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		is, err := s.ChangeRights(t.Context(), was, c)
		if err != nil {
			t.Fatal(err)
		}
		return is
	}
	cluster := store.Binding{Role: "cluster", Namespace: store.All}
	ann := change(store.RightsChange{Add: &store.Principal{Kind: store.PrincipalUser, Name: "ann", State: store.PrincipalActive}, Bind: []store.Binding{cluster}})
	cluster.Subject = ann
	secret := auth.NewSecret(store.TokenNode)
	hash, err := auth.HashSecret(secret)
	if err != nil {
		t.Fatal(err)
	}
	row := store.WholeToken(store.TokenNode, "n1", hash)
	row.Maker = ann
	if _, err := s.AddToken(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	wants := func(what string, want int) {
		t.Helper()
		g := auth.New(auth.Config{Store: s, Required: true, Route: routeOf}).Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		r := httptest.NewRequest(http.MethodGet, "/internal/v1/report", nil)
		r.Header.Set("Authorization", "Bearer "+secret)
		w := httptest.NewRecorder()
		if g.ServeHTTP(w, r); w.Code != want {
			t.Errorf("%s: %d, want %d", what, w.Code, want)
		}
		all, err := s.TokenList(t.Context())
		rights, err2 := s.Rights(t.Context())
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		if ended := auth.Ended(all, &rights, 1); ended[all[0].ID] != (want != http.StatusOK) {
			t.Errorf("%s: it has ended: %v", what, ended[all[0].ID])
		}
	}
	wants("with every right", http.StatusOK)
	change(store.RightsChange{Unbind: []store.Binding{cluster}, Bind: []store.Binding{{Subject: ann, Role: "admin", Namespace: store.All}}})
	wants("with a narrower role", http.StatusUnauthorized)
	change(store.RightsChange{Bind: []store.Binding{cluster}})
	wants("with every right again", http.StatusOK)
	change(store.RightsChange{Set: &store.Principal{ID: ann, Name: "ann", State: store.PrincipalDisabled}})
	wants("disabled", http.StatusUnauthorized)
	change(store.RightsChange{Drop: ann})
	wants("gone", http.StatusUnauthorized)
}
