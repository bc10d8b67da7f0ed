package peer

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// senderKey is the key of a context under which a test stores the name that a caller has proven.
type senderKey struct{}

func senderOf(ctx context.Context) string {
	name, _ := ctx.Value(senderKey{}).(string)
	return name
}

// callsOf returns a server for the calls of other nodes.
func callsOf(dir Directory, e Engine) http.Handler {
	mux := http.NewServeMux()
	Handle(mux, dir, e, nil, NewSpeakers(dir, senderOf).Check)
	return OnlyJSON(mux)
}

// TestOnlyJSON: a page of another site can make a browser send forms and plain text, but JSON only after a
// preflight request.
func TestOnlyJSON(t *testing.T) {
	h := callsOf(nil, nil)
	for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"} {
		for _, path := range []string{reportPath, cancelPath, wakePath} {
			r := httptest.NewRequest(http.MethodPost, path, strings.NewReader("[]"))
			r.Header.Set("Content-Type", kind)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != http.StatusUnsupportedMediaType {
				t.Errorf("%s as %q: %d", path, kind, w.Code)
			}
		}
	}
}

// roll is a list of members. After Wake, it is the list later, if that is set.
type roll struct {
	village
	mu         sync.Mutex // protects following fields
	now, later []store.Member
}

func (r *roll) Member(h dag.HandlerID) (store.Member, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.now {
		if m.Handler == h {
			return m, true
		}
	}
	return store.Member{}, false
}

func (r *roll) Wake() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.later != nil {
		r.now = r.later
	}
}

// TestReportsOfANode: a node reports for itself and for the workers of which it is the home node, and for no
// other handler. The token of the nodes proves no name. It is enough only for a node of an earlier version,
// whose row does not promise proofs. The home node of a worker that has just moved is found by another look.
func TestReportsOfANode(t *testing.T) {
	proves := store.Traits{Proves: true}
	all := []store.Member{{Handler: 1, Name: "n1", Traits: proves}, {Handler: 2, Name: "n2", Traits: proves}, {Handler: 3, Name: "old"},
		{Handler: 4, Name: "w", Worker: true, Home: 1}, {Handler: 5, Name: "w-old", Worker: true, Home: 3}, {Handler: 6, Name: "n3", Traits: proves},
		{Handler: 7, Name: "orphan", Worker: true, Home: 70}}
	moved := slices.Clone(all)
	moved[3].Home, moved[6].Home = 2, 6
	const yes, no = http.StatusOK, http.StatusForbidden
	for name, c := range map[string]struct {
		by    string
		h     dag.HandlerID
		later []store.Member
		want  int
	}{
		"itself":                              {"n1", 1, nil, yes},
		"another node":                        {"n2", 1, nil, no},
		"a worker of it":                      {"n1", 4, nil, yes},
		"a worker of another node":            {"n2", 4, nil, no},
		"a worker that has moved":             {"n2", 4, moved, yes},
		"a worker that has moved away":        {"n3", 4, moved, no},
		"a worker of a dead node":             {"n3", 7, moved, yes},
		"a worker of a dead node, not its":    {"n1", 7, moved, no},
		"a worker of a node that is unknown":  {"n1", 7, nil, no},
		"a handler that is gone":              {"n1", 9, nil, yes},
		"a token":                             {"", 1, nil, no},
		"a token, for a worker":               {"", 4, nil, no},
		"a token of an earlier version":       {"", 3, nil, yes},
		"a token of a home of before":         {"", 5, nil, yes},
		"a node, for one of an older version": {"n1", 3, nil, no},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body, err := json.Marshal(report{Handler: c.h})
			if err != nil {
				t.Fatal(err)
			}
			r := httptest.NewRequest(http.MethodPost, reportPath, strings.NewReader(string(body)))
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			callsOf(&roll{now: all, later: c.later}, &desk{}).ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), senderKey{}, c.by)))
			if w.Code != c.want {
				t.Errorf("%d, want %d: %s", w.Code, c.want, w.Body)
			}
		})
	}
}
