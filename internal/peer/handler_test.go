package peer

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"skein.dev/skein/internal/store"
)

// certificate is the key of a context under which a test stores the name that a caller has proven.
type certificate struct{}

// callsOf returns a server for the calls of other nodes.
func callsOf(dir Directory, e Engine) http.Handler {
	mux := http.NewServeMux()
	Handle(mux, dir, e, nil, func(ctx context.Context) string {
		name, _ := ctx.Value(certificate{}).(string)
		return name
	})
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

// TestReportsOfANode: a node that has proven its name reports for itself and for workers, and for no other
// node. The token of the nodes proves no name.
func TestReportsOfANode(t *testing.T) {
	for _, c := range []struct {
		by     string
		worker bool
		want   int
	}{{"n1", false, http.StatusOK}, {"n2", false, http.StatusForbidden}, {"n2", true, http.StatusOK}, {"", false, http.StatusOK}} {
		body, err := json.Marshal(report{Handler: 7})
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(http.MethodPost, reportPath, strings.NewReader(string(body)))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		callsOf(&village{owner: store.Member{Handler: 7, Name: "n1", Worker: c.worker}}, &desk{}).ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), certificate{}, c.by)))
		if w.Code != c.want {
			t.Errorf("%q about n1, a worker: %v: %d, want %d: %s", c.by, c.worker, w.Code, c.want, w.Body)
		}
	}
}
