package peer

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// callsOf is a server of the calls of other nodes.
func callsOf(dir Directory, e Engine) http.Handler {
	mux := http.NewServeMux()
	Handle(mux, dir, e, nil)
	return OnlyJSON(mux)
}

// TestOnlyJSON: a page of another site can make a browser send forms and texts, but not JSON
// without being asked.
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
