package auth_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// below adds a token of a kind that another token has made.
func below(t *testing.T, s store.Tokens, kind, name string, parent int64) (string, store.Token) {
	t.Helper()
	secret := auth.NewSecret(kind)
	hash, err := auth.HashSecret(secret)
	if err != nil {
		t.Fatal(err)
	}
	row := store.WholeToken(kind, name, hash)
	row.Parent = parent
	if row, err = s.AddToken(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	return secret, row
}

// TestParents checks a token that was made by another token. It has only rights that all of its ancestors
// have, and it ends when any of them ends: on the node that has seen it before, on another node, after a
// restart, and in the middle of a stream.
func TestParents(t *testing.T) { synctest.Test(t, parents) }

func parents(t *testing.T) {
	s := newSignedIn(t)
	change := func(c store.RightsChange) {
		t.Helper()
		was, err := s.st.RightsRevision(t.Context())
		if err == nil {
			_, err = s.st.ChangeRights(t.Context(), was, c)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	other := &signedIn{auth.NewSessions(s.st), t, s.st, nil, ""}
	start := func() {
		other.gate = auth.New(auth.Config{Store: s.st, Required: true, Route: func(r *http.Request) auth.Route {
			if r.URL.Path == "/work" {
				return auth.Route{Verb: access.WorkerCall}
			}
			return auth.Route{Verb: access.RunRead}
		}}).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}))
	}
	start()
	// chain makes a chain of tokens: one at the top, one in the middle, and at the end a token of the API and a
	// token of a worker.
	chain := func(name string, expires dag.Micros) (top, middle store.Token, end, worker string) {
		t.Helper()
		_, top = add(t, s.st, store.TokenAPI, name, expires)
		_, middle = below(t, s.st, store.TokenAPI, name+" middle", top.ID)
		end, _ = below(t, s.st, store.TokenAPI, name+" end", middle.ID)
		worker, _ = below(t, s.st, store.TokenWorker, name+" worker", middle.ID)
		return top, middle, end, worker
	}
	everywhere := func(what string, end, worker string, want, wantWorker int) {
		t.Helper()
		for _, node := range []*signedIn{s, other} {
			node.wants(want, http.MethodGet, "/runs", "", "Authorization", "Bearer "+end)
			node.wants(wantWorker, http.MethodGet, "/work", "", "Authorization", "Bearer "+worker)
		}
		start() // after a restart
		other.wants(want, http.MethodGet, "/runs", "", "Authorization", "Bearer "+end)
		other.wants(wantWorker, http.MethodGet, "/work", "", "Authorization", "Bearer "+worker)
		all, err := s.st.TokenList(t.Context())
		rights, err2 := s.st.Rights(t.Context())
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		for i := range all {
			if ended := auth.Ended(all, &rights, dag.Micro(time.Now())); wantWorker != 200 && all[i].Kind == store.TokenWorker && !ended[all[i].ID] {
				t.Errorf("%s: %s is shown as valid", what, all[i].Name)
			}
		}
		if t.Failed() {
			t.Fatal(what)
		}
	}
	stream := func(end string) chan int {
		got := make(chan int, 1)
		go func() {
			code, _ := s.call(http.MethodGet, "/stream", "", "Authorization", "Bearer "+end)
			got <- code
		}()
		synctest.Wait()
		return got
	}
	ends := func(what string, got chan int) {
		t.Helper()
		select {
		case <-got:
		case <-time.After(5 * time.Second):
			t.Fatalf("%s: a stream is open after 5 s", what)
		}
	}

	_, middle, end, worker := chain("one", 0)
	everywhere("at first", end, worker, 200, 200)
	open := stream(end)
	if err := s.st.RevokeToken(t.Context(), middle.ID); err != nil {
		t.Fatal(err)
	}
	ends("the middle is revoked", open)
	everywhere("the middle is revoked", end, worker, 401, 401)

	soon := dag.Micro(time.Now().Add(time.Minute))
	_, _, end, worker = chain("two", soon)
	everywhere("before the top expires", end, worker, 200, 200)
	open = stream(end)
	time.Sleep(time.Minute)
	ends("the top has expired", open)
	everywhere("the top has expired", end, worker, 401, 401)

	// The rights of an ancestor shrink and grow again. This ancestor belongs to ann, and the others belong to the
	// first service.
	cluster := store.Binding{Role: "cluster", Namespace: store.All}
	change(store.RightsChange{Add: &store.Principal{Kind: store.PrincipalUser, Name: "ann", State: store.PrincipalActive}, Bind: []store.Binding{cluster}})
	revision, err := s.st.RightsRevision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cluster.Subject = revision
	hash, err := auth.HashSecret(auth.NewSecret(store.TokenAPI))
	if err != nil {
		t.Fatal(err)
	}
	row := store.WholeToken(store.TokenAPI, "ann's", hash)
	row.Principal = cluster.Subject
	if row, err = s.st.AddToken(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	_, middle = below(t, s.st, store.TokenAPI, "three", row.ID)
	end, _ = below(t, s.st, store.TokenAPI, "three end", middle.ID)
	worker, _ = below(t, s.st, store.TokenWorker, "three worker", middle.ID)
	everywhere("with every right", end, worker, 200, 200)
	open = stream(end)
	change(store.RightsChange{Unbind: []store.Binding{cluster}})
	ends("without a role", open)
	everywhere("without a role", end, worker, 403, 401)
	change(store.RightsChange{Bind: []store.Binding{cluster}})
	time.Sleep(5 * time.Second)
	for _, node := range []*signedIn{s, other} {
		node.wants(200, http.MethodGet, "/runs", "", "Authorization", "Bearer "+end)
	}
	change(store.RightsChange{Set: &store.Principal{ID: cluster.Subject, Name: "ann", State: store.PrincipalDisabled}})
	time.Sleep(5 * time.Second)
	everywhere("disabled", end, worker, 403, 401)

	// If a token has too many ancestors, or one of them is missing, the token is refused as if it had
	// ended.
	_, top := add(t, s.st, store.TokenAPI, "deep", 0)
	parent := top.ID
	for n := range store.ParentsMax {
		end, row = below(t, s.st, store.TokenAPI, "deep "+string(rune('a'+n)), parent)
		parent = row.ID
	}
	s.wants(200, http.MethodGet, "/runs", "", "Authorization", "Bearer "+end)
	end, _ = below(t, s.st, store.TokenAPI, "deeper", parent)
	s.wants(401, http.MethodGet, "/runs", "", "Authorization", "Bearer "+end)
	end, _ = below(t, s.st, store.TokenAPI, "orphan", 999)
	s.wants(401, http.MethodGet, "/runs", "", "Authorization", "Bearer "+end)
}
